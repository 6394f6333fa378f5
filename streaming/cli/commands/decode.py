"""``groupreplay decode``: records as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.cli.command import with_settings
from groupreplay.streaming.cli.inputs import LogInput, log_flags, open_rows
from groupreplay.streaming.cli.options import flag, output_flag, switch
from groupreplay.streaming.cli.policy_flags import redaction_flags

if TYPE_CHECKING:
    from groupreplay.state.policy.redaction import Redaction


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeSettings:
    """The flags of ``decode``."""

    log: LogInput = log_flags()
    key_hex: str | None = flag("Decode a single record with this key.", metavar="HEX")
    value_hex: str | None = flag(
        "Value of the record with --key-hex; without it, a tombstone.", metavar="HEX"
    )
    partitions: Sequence[int] = flag(
        "Only this partition; may be repeated.", "--partition", type=int, multiple=True
    )
    offset: int | None = flag("Only the record at this offset.", type=int)
    with_position: bool = switch("Also print partition, offset and timestamp of each record.")
    strict: bool = switch("Exit with 5 if a record was skipped or malformed.")
    redaction: Redaction | None = redaction_flags()
    output: Literal["jsonl", "json"] = output_flag("jsonl", "json")


@with_settings("decode", DecodeSettings)
def command(settings: DecodeSettings) -> int | None:
    """Print records as the JSON that Kafka's own formatters print, one object per line.

    Records that cannot be decoded are counted on stderr.
    """
    from groupreplay.state.policy.redaction import redacted
    from groupreplay.streaming.inspection.decode import DecodeCounts, decode_rows
    from groupreplay.streaming.text.terminal import Progress, json_line, print_json_array, safe_line

    if settings.key_hex is not None or settings.value_hex is not None:
        decoded = _decode_hex(settings.key_hex, settings.value_hex)
        click.echo(json_line(redacted(decoded, settings.redaction)))
        return None
    counts = DecodeCounts()
    with Progress("records read") as progress:
        rows = open_rows(settings.log, settings.partitions, progress=progress)
        decoded_rows = decode_rows(rows, counts, with_position=settings.with_position, offset=settings.offset)
        records = (redacted(record, settings.redaction) for record in decoded_rows)
        if settings.output == "json":
            print_json_array(records, progress.close)
        else:
            for record in records:
                progress.close()
                click.echo(json_line(record))
    for line in counts.lines():
        click.echo(safe_line(line), err=True)
    if settings.strict and not counts.clean:
        return ExitCode.DATA
    return None


def _decode_hex(key_hex: str | None, value_hex: str | None) -> dict[str, Any]:
    from groupreplay.streaming.inspection.decode import bytes_of_hex, decode_record

    if key_hex is None:
        raise click.UsageError("--value-hex needs --key-hex: the key defines the type of the value.")
    key = bytes_of_hex(key_hex, "--key-hex")
    value = None if value_hex is None else bytes_of_hex(value_hex, "--value-hex")
    decoded = decode_record(key, value)
    if not isinstance(decoded, dict):
        raise GroupReplayError(f"the record cannot be decoded: {decoded.reason}", exit_code=ExitCode.DATA)
    return decoded
