"""``groupreplay decode``: records as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.cli.display import display_options
from groupreplay.streaming.cli.inputs import LogInput, log_options, open_rows
from groupreplay.streaming.cli.options import option, output_option
from groupreplay.streaming.cli.policy_flags import redact_options

if TYPE_CHECKING:
    from groupreplay.state.policy.redaction import Redaction


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeSettings:
    """The flags of ``decode``."""

    log: LogInput
    key_hex: str | None
    value_hex: str | None
    partitions: Sequence[int]
    offset: int | None
    with_position: bool
    strict: bool
    redaction: Redaction | None
    output: Literal["jsonl", "json"]


@click.command("decode")
@log_options
@option("--key-hex", metavar="HEX", help="Decode a single record with this key.")
@option("--value-hex", metavar="HEX", help="Value of the record with --key-hex; without it, a tombstone.")
@option("--partition", "partitions", type=int, multiple=True, help="Only this partition; may be repeated.")
@option("--offset", type=int, help="Only the record at this offset.")
@option("--with-position", is_flag=True, help="Also print partition, offset and timestamp of each record.")
@option("--strict", is_flag=True, help="Exit with 5 if a record was skipped or malformed.")
@redact_options
@output_option("jsonl", "json")
@display_options
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Print records as the JSON that Kafka's own formatters print, one object per line.

    Records that cannot be decoded are counted on stderr.
    """
    from groupreplay.state.policy.redaction import redacted
    from groupreplay.streaming.inspection.decode import DecodeCounts, decode_rows
    from groupreplay.streaming.text.terminal import Progress, json_line, print_json_array, safe_line

    settings = DecodeSettings(**flags)
    if settings.key_hex is not None or settings.value_hex is not None:
        decoded = _decode_hex(settings.key_hex, settings.value_hex)
        click.echo(json_line(redacted(decoded, settings.redaction)))
        return
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
        ctx.exit(ExitCode.DATA)


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
