"""``groupreplay decode``, ``capture`` and ``coordinator``: records of the offsets topic, and where a group's are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from groupreplay.app.cli.command import giving_way, with_settings
from groupreplay.app.cli.flags import ClusterFlags, cluster_flags, redaction_flags
from groupreplay.app.cli.inputs import LogInput, log_and_probes_flags, log_flags, log_read, nothing_found
from groupreplay.app.cli.options import (
    TABLE_FORMATS,
    file_flag,
    flag,
    force_flag,
    group_names,
    groups_flag,
    output_flag,
    repeated_flag,
    switch,
    time_flag,
    time_zone_flag,
)
from groupreplay.app.cli.printing_flags import TableFlags, TimeRange, given_flags, table_flags, time_range
from groupreplay.app.text.times import GivenTime
from groupreplay.streaming.base.clock import TimeZone
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError

if TYPE_CHECKING:
    from groupreplay.app.cli.nothing_found import Nothing
    from groupreplay.app.inspection.records import DecodeCounts
    from groupreplay.app.text.tables import OutputFormat
    from groupreplay.state.policy.context import Redaction
    from groupreplay.streaming.config.settings import Cluster
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.sources.source import Rows


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
def decode_command(settings: DecodeSettings) -> int:
    """Print records as the JSON that Kafka's own formatters print, one object per line.

    Records that cannot be decoded are counted on stderr. With --members, subscriptions and assignments have the
    fields of Kafka's ConsumerProtocol, or those of Kafka Connect; bytes that are neither stay base64.
    """
    from groupreplay.app.text.terminal import json_line
    from groupreplay.state.policy.context import redacted

    if settings.key_hex is not None or settings.value_hex is not None:
        decoded = _decode_hex(settings.key_hex, settings.value_hex, members=settings.members)
        click.echo(json_line(redacted(decoded, settings.redaction)))
        return ExitCode.OK
    return _decode_log(settings)


def _decode_log(settings: DecodeSettings) -> int:
    from groupreplay.app.inspection.records import DecodeCounts, RecordChoice, decode_rows
    from groupreplay.app.text.terminal import Progress, json_line, print_json_array, safe_line
    from groupreplay.state.policy.context import redacted
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
        rows = settings.log.source().open(settings.partitions, choice.ids, progress)
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
    nothing = _nothing_decoded(settings, times, rows, choice, counts)
    code = ExitCode.OK if nothing is None else nothing_found(nothing)
    return ExitCode.DATA if settings.strict and not counts.clean else code


def _nothing_decoded(
    settings: DecodeSettings, times: TimeRange, rows: Rows, choice: GroupChoice, counts: DecodeCounts
) -> Nothing | None:
    """The line about what was not found; None if everything was."""
    from groupreplay.codecs.kafka_terms import partition_for

    log = log_read(rows, settings.zone)
    if rows.identity is not None and choice.ids:
        from groupreplay.streaming.kafka.group_admin import group_names

        # Only the partitions of these groups were read: the brokers know the ids of the others.
        partitions = sorted({partition_for(group, rows.identity.partitions) for group in choice.ids})
        log = replace(log, where=f"partition {', '.join(map(str, partitions))} of {log.where}")
        choice.learn(group_names(rows.connection) if rows.connection and choice.unmatched else ())
    asked = {
        "--partition": map(str, settings.partitions),
        "--offset": [] if settings.offset is None else [str(settings.offset)],
        "--group": settings.groups,
        "--kind": [settings.kind] if settings.kind else [],
    }
    return log.nothing("record", given_flags(asked, times), choice, shown=counts.chosen)


def _decode_hex(key_hex: str | None, value_hex: str | None, *, members: bool) -> dict[str, Any]:
    from groupreplay.app.inspection.records import bytes_of_hex, decode_record

    if key_hex is None:
        raise click.UsageError("--value-hex needs --key-hex: the key defines the type of the value.")
    key = bytes_of_hex(key_hex, "--key-hex")
    value = None if value_hex is None else bytes_of_hex(value_hex, "--value-hex")
    decoded = decode_record(key, value, members=members)
    if not isinstance(decoded, dict):
        raise GroupReplayError(f"the record cannot be decoded: {decoded.reason}", exit_code=ExitCode.DATA)
    return decoded


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings:
    """The flags of ``capture``; ``duration`` in seconds."""

    log: LogInput = log_and_probes_flags()
    output_file: Path | None = file_flag("Capture file to write.", "-o")
    force: bool = force_flag()
    duration: float = flag(
        "After the copy, continue for this long with new records.",
        type=click.FloatRange(min=0),
        default=0.0,
        show_default=False,
        metavar="SECONDS",
    )
    show: Path | None = file_flag("Print the metadata of this capture, or of a folder of captures, and end.")
    table: TableFlags = table_flags()
    output: Literal["table", "json"] = flag(
        "Output format of --show.", "--output", type=click.Choice(("table", "json")), default="table"
    )


@with_settings("capture", CaptureSettings)
def capture_command(settings: CaptureSettings) -> None:
    """Copy the current content of the offsets topic into a Parquet file.

    Includes the prober's answers if there are any, and what a cluster says about itself: retention, release,
    configuration of the topic, names of topics. The file appears when it is complete. With --duration the copy
    continues with new records; Ctrl-C then ends it early and keeps the records read so far.
    """
    settings = replace(settings, **giving_way({"output_file": None, "show": None}))
    if (settings.output_file is None) == (settings.show is None):
        raise click.UsageError("Give either -o FILE or --show FILE.")
    if settings.output_file is None:
        assert settings.show is not None
        _show(settings.show, settings)
        return
    from groupreplay.app.text.terminal import Progress

    recorded = settings.log.recorded()
    if recorded is not None and settings.duration:
        raise click.UsageError("--duration follows a live topic: leave it out for captures and folders.")
    with Progress("records copied") as progress:
        if recorded is not None:
            from groupreplay.streaming.sources.capture import copy_records

            count = copy_records(recorded, settings.output_file, force=settings.force, progress=progress)
        else:
            from groupreplay.app.inspection.capture import CapturePlan, capture

            cluster, probes = settings.log.values["source"].need(), settings.log.probes
            plan = CapturePlan(
                cluster=cluster,
                path=settings.output_file,
                probes=None if probes is None else probes.place(cluster),
                follow_seconds=settings.duration,
                force=settings.force,
            )
            count = capture(plan, progress=progress)
    click.echo(f"{count:,} records in {settings.output_file}", err=True)


def _show(path: Path, settings: CaptureSettings) -> None:
    from groupreplay.app.inspection.capture_description import describe_capture
    from groupreplay.app.text.terminal import Progress, json_document, safe_line

    with Progress("records read") as progress:
        description = describe_capture(path, settings.log.values["columns"], progress)
    if settings.output == "json":
        click.echo(json_document(description))
        return
    for name, value in description.rows():
        click.echo(safe_line(f"{name:35}  {value}"))
    click.echo()
    settings.table.print([description.extents_table()], [], "table")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """The arguments and the flags of ``coordinator``; ``partitions`` of the offsets topic."""

    names: Sequence[str] = group_names()
    groups: Sequence[str] = repeated_flag("The same as GROUP; may be repeated.", "--group", "GROUP")
    source: ClusterFlags = cluster_flags()
    partitions: int | None = flag(
        "Number of partitions of the offsets topic; by default that of the cluster, or 50.",
        type=click.IntRange(min=1),
    )
    output: OutputFormat = output_flag(*TABLE_FORMATS)
    table: TableFlags = table_flags()


@with_settings("coordinator", CoordinatorSettings)
def coordinator_command(settings: CoordinatorSettings) -> None:
    """Print the partition of the offsets topic that holds GROUP and, given a cluster, its leader.

    The leader of that partition is the group's coordinator.
    """
    from groupreplay.app.text.tables import Table

    groups = (*settings.names, *settings.groups)
    if not groups:
        raise click.UsageError("Give GROUP, the id of a group.")
    cluster = settings.source.find()
    places = _located(groups, cluster, settings.partitions)
    table = Table(
        ("GROUP", "PARTITION", "COORDINATOR (ID)"),
        [tuple(place[name] for name in ("group_id", "partition", "coordinator")) for place in places],
    )
    settings.table.print([table], places, settings.output)
    if places[0]["assumed"]:
        count = places[0]["partitions"]
        what = f"assumed: {count} partitions, Kafka's default of offsets.topic.num.partitions"
        click.echo(f"{what}; --bootstrap-server asks a cluster, --partitions gives the number", err=True)
    if cluster is None:
        return
    for partition in sorted({place["partition"] for place in places if place["coordinator"] is None}):
        click.echo(f"partition {partition} has no leader now", err=True)


def _located(groups: Sequence[str], cluster: Cluster | None, partitions: int | None) -> list[dict[str, Any]]:
    """A row for each: ``group_id``, ``partition``, ``coordinator`` (``host:port (id)`` or None), ``partitions``.

    ``coordinator`` is None without a cluster. ``partitions`` is the number of them: that of the cluster, or the given
    one, or Kafka's default, for which ``assumed`` is true.

    Raises:
        GroupReplayError: the cluster cannot be reached, or its number of partitions is not ``partitions``.
    """
    from groupreplay.codecs.kafka_terms import DEFAULT_PARTITIONS, partition_for
    from groupreplay.state import OFFSETS_TOPIC

    identity = None
    if cluster is not None:
        from groupreplay.streaming.kafka.clients import Connection

        identity = Connection(cluster).identify(OFFSETS_TOPIC)
        if partitions not in (None, identity.partitions):
            raise GroupReplayError(
                f"the topic has {identity.partitions} partitions, not {partitions}",
                where=f"{OFFSETS_TOPIC}, {cluster.bootstrap_servers}",
                fix="leave out --partitions",
                exit_code=ExitCode.USAGE,
            )
    count = identity.partitions if identity else partitions or DEFAULT_PARTITIONS
    return [
        {
            "group_id": group,
            "partition": partition_for(group, count),
            "coordinator": identity.coordinator_of(group) if identity else None,
            "partitions": count,
            "assumed": identity is None and partitions is None,
        }
        for group in groups
    ]
