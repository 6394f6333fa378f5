"""``groupreplay decode``: records as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import click

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.inputs import LogInput, log_flags, log_read, nothing_found, open_rows
from groupreplay.app.cli.options import (
    flag,
    groups_flag,
    output_flag,
    switch,
    time_flag,
    time_zone_flag,
)
from groupreplay.app.cli.policy_flags import redaction_flags
from groupreplay.app.cli.time_range import TimeRange, given_flags, time_range
from groupreplay.app.text.times import GivenTime
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.time_zones import TimeZone

if TYPE_CHECKING:
    from groupreplay.app.cli.nothing_found import Nothing
    from groupreplay.app.inspection.records.decode import DecodeCounts
    from groupreplay.state.policy.redaction import Redaction
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.kafka.topic_reader import Rows


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
    groups: Sequence[str] = groups_flag("Only records of this group")
    kind: str | None = flag(
        "Only committed offsets, or only the other records.", type=click.Choice(("commits", "groups"))
    )
    since: GivenTime | None = time_flag("Only records at or after this time.")
    until: GivenTime | None = time_flag("Only records before this time.")
    zone: TimeZone = time_zone_flag()
    members: bool = switch("Decode the subscriptions and assignments of classic members.")
    with_position: bool = switch("Also print partition, offset and timestamp of each record.")
    strict: bool = switch("Exit with 5 if a record was skipped or malformed.")
    redaction: Redaction | None = redaction_flags()
    output: Literal["jsonl", "json"] = output_flag("jsonl", "json")


@with_settings("decode", DecodeSettings)
def command(settings: DecodeSettings) -> int:
    """Print records as the JSON that Kafka's own formatters print, one object per line.

    Records that cannot be decoded are counted on stderr. With --members, subscriptions and assignments have the
    fields of Kafka's ConsumerProtocol, or those of Kafka Connect; bytes that are neither stay base64.
    """
    from groupreplay.app.text.terminal import json_line
    from groupreplay.state.policy.redaction import redacted

    if settings.key_hex is not None or settings.value_hex is not None:
        decoded = _decode_hex(settings.key_hex, settings.value_hex, members=settings.members)
        click.echo(json_line(redacted(decoded, settings.redaction)))
        return ExitCode.OK
    return _decode_log(settings)


def _decode_log(settings: DecodeSettings) -> int:
    from groupreplay.app.inspection.records.decode import DecodeCounts, RecordChoice, decode_rows
    from groupreplay.app.text.terminal import Progress, json_line, print_json_array, safe_line
    from groupreplay.state.policy.redaction import redacted
    from groupreplay.streaming.engine.group_choice import GroupChoice

    times = time_range(settings.since, settings.until, settings.zone, settings.log.end)
    counts, choice = DecodeCounts(), GroupChoice(settings.groups)
    wanted = RecordChoice(
        groups=choice if settings.groups else None,
        kind=settings.kind,
        offset=settings.offset,
        since_ms=times.since_ms,
        until_ms=times.until_ms,
    )
    with Progress("records read") as progress:
        rows = open_rows(settings.log, settings.partitions, choice.ids, progress=progress)
        decoded_rows = decode_rows(
            rows, counts, with_position=settings.with_position, members=settings.members, choice=wanted
        )
        records = (redacted(record, settings.redaction) for record in decoded_rows)
        if settings.output == "json":
            print_json_array(records, progress.close)
        else:
            for record in records:
                progress.close()
                click.echo(json_line(record))
    for line in counts.lines():
        click.echo(safe_line(line), err=True)
    nothing = _nothing(settings, times, rows, choice, counts)
    found = ExitCode.OK if nothing is None else nothing_found(nothing)
    return ExitCode.DATA if settings.strict and not counts.clean else found


def _nothing(
    settings: DecodeSettings, times: TimeRange, rows: Rows, choice: GroupChoice, counts: DecodeCounts
) -> Nothing | None:
    """The line about what was not found; None if everything was."""
    from groupreplay.app.cli.nothing_found import no_group, no_record
    from groupreplay.codecs.kafka_terms import partition_for
    from groupreplay.streaming.kafka.group_partition import group_names

    log = log_read(settings.log, rows, settings.zone)
    if rows.identity is not None and choice.ids:
        # Only the partitions of these groups were read: the brokers know the ids of the others.
        held = sorted({partition_for(group, rows.identity.partitions) for group in choice.ids})
        log = replace(log, where=f"partition {', '.join(map(str, held))} of {log.where}")
        choice.learn(group_names(rows.connection) if rows.connection and choice.unmatched else ())
    if choice.unmatched:
        return no_group(choice.unmatched, choice, log)
    if counts.chosen:
        return None
    asked = {
        "--partition": map(str, settings.partitions),
        "--offset": [] if settings.offset is None else [str(settings.offset)],
        "--group": settings.groups,
        "--kind": [settings.kind] if settings.kind else [],
    }
    return no_record(given_flags(asked, times), log)


def _decode_hex(key_hex: str | None, value_hex: str | None, *, members: bool) -> dict[str, Any]:
    from groupreplay.app.inspection.records.decode import bytes_of_hex, decode_record

    if key_hex is None:
        raise click.UsageError("--value-hex needs --key-hex: the key defines the type of the value.")
    key = bytes_of_hex(key_hex, "--key-hex")
    value = None if value_hex is None else bytes_of_hex(value_hex, "--value-hex")
    decoded = decode_record(key, value, members=members)
    if not isinstance(decoded, dict):
        raise GroupReplayError(f"the record cannot be decoded: {decoded.reason}", exit_code=ExitCode.DATA)
    return decoded
