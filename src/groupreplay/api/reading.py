"""What a log holds: its events, its groups, its records, and what happened to one group."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from groupreplay.api.sources import (
    AnySource,
    OpenedLog,
    Time,
    finish,
    group_choice,
    known_names,
    log,
    naming_errors,
    need_groups,
    no_record,
    open_log,
    point_ms,
    public,
    record_source,
    several,
    several_groups,
    time_range,
)
from groupreplay.app.inspection.groups import GroupRow, choose, group_row
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, unusable
from groupreplay.streaming.config.retention import Brokers

if TYPE_CHECKING:
    from groupreplay.app.inspection.group_lag import GroupLags
    from groupreplay.app.inspection.records import RecordChoice
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.engine.replay import Filter
    from groupreplay.streaming.sources.source import Rows
    from groupreplay.timeline.document import TimelineDocument


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. ``json`` is the CloudEvent as the command prints it and the job writes it; ``data`` is its content.

    ``type`` is the CloudEvents type, ``severity`` is ``INFO``, ``WARN`` or ``ERROR``; ``group`` is None for an event
    of the job, or about records that no group can be named for.
    """

    id: str
    time_ms: int
    type: str
    severity: str
    group: str | None
    data: Mapping[str, Any] = field(hash=False)
    json: bytes = field(repr=False)

    @property
    def name(self) -> str:
        """The type without prefix and version: ``rebalance.completed``."""
        from groupreplay.state.events.event import name_of

        return name_of(self.type)

    @property
    def time(self) -> datetime:
        """When it happened, in UTC."""
        return _EPOCH + timedelta(milliseconds=self.time_ms)


@public
def replay(
    source: AnySource,
    *,
    group: str | Sequence[str] = (),
    types: Sequence[str] = (),
    since: Time | None = None,
    until: Time | None = None,
    min_severity: Literal["info", "warn", "error"] = "info",
    member_events: bool = False,
    complete_since: Time | None = None,
    labels: Mapping[str, str] | None = None,
    rules: str | Path | None = None,
    brokers: Brokers | None = None,
) -> Iterator[Event]:
    """The events of a log, ordered by time.

    >>> import groupreplay
    >>> for event in groupreplay.replay("tuesday.parquet", group="*-000001", types=["rebalance.completed"]):
    ...     print(event.time.strftime("%H:%M:%S"), event.data["trigger"], event.data["member_count"])
    00:07:52 first_join 4
    00:08:50 member_joined 8
    00:09:43 member_left 4
    01:24:33 member_joined 8
    01:24:44 member_left 4

    ``group`` is an id or a glob, or several of them; ``types`` are names of events (docs/events.md). ``until`` is
    excluded. The other arguments are the flags of ``groupreplay replay``.

    Raises:
        GroupReplayError: the source cannot be read, or there is no such group or type of event; also while iterating.
    """
    from groupreplay.app.cli.printing_flags import event_filter

    if min_severity not in ("info", "warn", "error"):
        raise unusable(f"{min_severity!r} is no severity", None, "give info, warn or error")
    wanted = event_filter(several(types), min_severity, time_range(since, until))
    settings: dict[str, Any] = {
        "complete_since_ms": point_ms(complete_since),
        "member_events": member_events,
        "labels": dict(labels or {}),
    }
    choice = group_choice(group)
    opened = open_log(source, rules, brokers, **settings)
    return _events(opened, choice, wanted)


def _events(opened: OpenedLog, choice: GroupChoice, wanted: Filter) -> Iterator[Event]:
    from groupreplay.streaming.engine.replay import Replay, events_in_order

    with naming_errors():
        replay = Replay(opened.context, choice)
        # The log is read to its end before the first event is known.
        for text in events_in_order(replay.feed(opened.rows), wanted):
            yield _event(text)
        finish(replay, choice, opened)


def _event(text: bytes) -> Event:
    from groupreplay.state.phrases import timestamp_ms

    event = json.loads(text)
    time_ms = timestamp_ms(event["time"])
    assert time_ms is not None
    return Event(
        id=event["id"],
        time_ms=time_ms,
        type=event["type"],
        severity=event["severitytext"],
        group=event["data"]["group_id"],
        data=event["data"],
        json=text,
    )


#: One group, as ``groupreplay list`` shows it: docs/cli.md has the fields; times in milliseconds since 1970.
GroupSummary = GroupRow


@public
def list_groups(
    source: AnySource,
    *,
    group: str | Sequence[str] = (),
    types: Sequence[str] = (),
    states: Sequence[str] = (),
    at: Time | None = None,
    rules: str | Path | None = None,
    brokers: Brokers | None = None,
) -> list[GroupSummary]:
    """The groups that exist at the end of a log, or ``at`` a time, by id.

    >>> import groupreplay
    >>> [(group.group_id, group.state, group.members) for group in groupreplay.list_groups("tuesday.parquet")]
    [('deployment-000000', 'Stable', 3), ('deployment-000001', 'Stable', 4), ('deployment-000002', 'Stable', 6)]

    Raises:
        GroupReplayError: the source cannot be read, or there is no such group, type or state.
    """
    from groupreplay.app.cli.inputs import group_types
    from groupreplay.codecs.kafka_terms import group_states

    types, states = known_names(types, group_types), known_names(states, group_states)
    groups, _, lags = _groups(source, group, at, rules, brokers)
    return [group_row(description, lags) for description in choose(groups, types=types, states=states)]


@public
def describe(
    source: AnySource,
    group: str,
    *,
    at: Time | None = None,
    rules: str | Path | None = None,
    brokers: Brokers | None = None,
) -> dict[str, Any]:
    """Everything that is known about one group: members, offsets, conditions; as ``groupreplay describe -o json``.

    >>> import groupreplay
    >>> group = groupreplay.describe("tuesday.parquet", "deployment-000001")
    >>> group["state"], group["generation"], len(group["offsets"])
    ('Stable', 5, 12)

    Offsets of a live cluster have the ends of their partitions and the lag, if this login may ask for them.

    Raises:
        GroupReplayError: the source cannot be read, or not exactly one group has this id or matches it as a glob.
    """
    groups, rows, lags = _groups(source, group, at, rules, brokers, with_remains=True)
    if len(groups) > 1:
        ids = [description["group_id"] for description in groups]
        raise several_groups(group, ids)
    if rows.connection is not None and at is None:
        try:
            lags = lags.with_now(groups, rows.connection)
        except GroupReplayError as error:
            log.warning("the ends of the partitions and the lag are not known: %s", error.what)
    # The types of JSON, as the command prints them.
    document: dict[str, Any] = json.loads(json.dumps(lags.beside(groups)[0]))
    return document


def _groups(
    source: AnySource,
    group: str | Sequence[str],
    at: Time | None,
    rules: str | Path | None,
    brokers: Brokers | None,
    *,
    with_remains: bool = False,
) -> tuple[list[dict[str, Any]], Rows, GroupLags]:
    """The descriptions of these groups at that time, and their lags."""
    from groupreplay.app.inspection.group_lag import GroupLags
    from groupreplay.app.inspection.groups import absent, live_groups
    from groupreplay.streaming.engine.replay import Replay
    from groupreplay.streaming.sources.recorded_ends import recorded_ends

    choice, at_ms = group_choice(group), point_ms(at)
    opened = open_log(source, rules, brokers)
    replay = Replay(opened.context, choice, until_ms=at_ms, now_ms=opened.rows.complete_until(at_ms))
    ends, rows = recorded_ends(opened.rows)
    descriptions = live_groups(replay, rows, with_remains=with_remains)
    missing = absent(choice, [description["group_id"] for description in descriptions])
    finish(replay, choice, opened, missing)
    return descriptions, rows, GroupLags(ends, at_ms or replay.latest_ms)


@public
def decode(
    source: AnySource,
    *,
    group: str | Sequence[str] = (),
    partitions: Sequence[int] = (),
    kind: Literal["commits", "groups"] | None = None,
    since: Time | None = None,
    until: Time | None = None,
    members: bool = False,
    with_position: bool = False,
) -> Iterator[dict[str, Any]]:
    """The records of a log as Kafka's own formatters print them, in the order of the log.

    >>> import groupreplay
    >>> record = next(groupreplay.decode("tuesday.parquet", group="*-000001", kind="groups", with_position=True))
    >>> record["partition"], record["offset"], record["key"]
    (39, 0, {'type': 2, 'data': {'group': 'deployment-000001'}})

    ``kind``: only committed offsets, or only the other records. ``members`` also decodes the subscriptions and
    assignments of classic members. Records that cannot be decoded are left out; a warning is logged at the end.

    Raises:
        GroupReplayError: the source cannot be read, or there is no such group or kind; also while iterating.
    """
    from groupreplay.app.inspection.records import RecordChoice

    if kind not in (None, "commits", "groups"):
        raise unusable(f"{kind!r} is no kind of records", None, "give commits or groups")
    choice, times = group_choice(group), time_range(since, until)
    groups = choice if choice.patterns else None
    wanted = RecordChoice(groups=groups, kind=kind, since_ms=times.since_ms, until_ms=times.until_ms)
    rows = record_source(source, probes=False).open(partitions, choice.ids)
    return _decoded(rows, choice, wanted, members=members, with_position=with_position)


def _decoded(
    rows: Rows, choice: GroupChoice, wanted: RecordChoice, **options: bool
) -> Iterator[dict[str, Any]]:
    from groupreplay.app.inspection.records import DecodeCounts, decode_rows

    counts = DecodeCounts()
    with naming_errors():
        yield from decode_rows(rows, counts, choice=wanted, **options)
    for line in counts.lines():
        log.warning("%s", line)
    need_groups(choice, rows, choice.unmatched)


def decode_record(key: bytes | None, value: bytes | None, *, members: bool = False) -> dict[str, Any]:
    """One record of the offsets topic as JSON; ``value`` None is a tombstone. ``members`` as for ``decode``.

    >>> import groupreplay
    >>> groupreplay.decode_record(bytes.fromhex("00020001 67"), None)
    {'key': {'type': 2, 'data': {'group': 'g'}}, 'value': None}

    Raises:
        GroupReplayError: it cannot be decoded: its type is unknown, or it is damaged.
    """
    from groupreplay.app.inspection.records import decode_record as decoded

    record = decoded(key, value, members=members)
    if not isinstance(record, dict):
        raise GroupReplayError(f"the record cannot be decoded: {record.reason}", exit_code=ExitCode.DATA)
    return record


#: Of the page in a notebook, in pixels.
_PAGE_HEIGHT: Final = 900


@dataclass(frozen=True, slots=True)
class GroupTimeline:
    """What happened to a group over time. In a notebook it shows the page of ``groupreplay report``."""

    document: TimelineDocument

    @property
    def verdict(self) -> str:
        """What happened in words, the most important sentence first."""
        return "\n".join(statement.text for statement in self.document.verdict)

    def json(self) -> bytes:
        """The document (docs/report.md), as ``groupreplay report -o FILE.json`` writes it."""
        import msgspec

        return msgspec.json.encode(self.document)

    def html(self) -> str:
        """The page that ``groupreplay report`` writes: one file that needs no network."""
        from groupreplay.app.report.page import report_page

        return report_page(self.document)

    def svg(self, *, width: int = 1400, dark: bool = False) -> str:
        """The picture alone, ``width`` pixels wide.

        Raises:
            GroupReplayError: the extra svg is missing.
        """
        from groupreplay.app.report.page import timeline_svg

        return timeline_svg(self.document, width=width, dark=dark)

    def _repr_html_(self) -> str:
        from html import escape

        style = f"width:100%;height:{_PAGE_HEIGHT}px;border:0"
        return f'<iframe style="{style}" srcdoc="{escape(self.html(), quote=True)}"></iframe>'

    def __repr__(self) -> str:
        return f"GroupTimeline({self.document.group_id!r})\n{self.verdict}"


@public
def group_timeline(
    source: AnySource,
    group: str,
    *,
    since: Time | None = None,
    until: Time | None = None,
    complete_since: Time | None = None,
    rules: str | Path | None = None,
    brokers: Brokers | None = None,
) -> GroupTimeline:
    """What happened to one group: states, members, owners of partitions, commits, conditions and events.

    >>> import groupreplay
    >>> groupreplay.group_timeline("tuesday.parquet", "deployment-000001")
    GroupTimeline('deployment-000001')
    No event tells of a problem; at the end the group is Stable with 4 members.
    5 rebalances, 30 partitions moved, one took 2.8 s .. 6.1 s.

    Raises:
        GroupReplayError: the source cannot be read, or not exactly one group has this id or matches it as a glob.
    """
    from groupreplay.app.report.page import GROUP_BYTES
    from groupreplay.app.report.timelines import TimelineQuery, group_timelines, timeline_source

    choice, times = group_choice(group), time_range(since, until)
    settings: dict[str, Any] = {"complete_since_ms": point_ms(complete_since), "member_events": True}
    opened = open_log(source, rules, brokers, **settings)
    words = ["--group", group, "-o", "timeline.json"]
    described = timeline_source(opened.source, words, since_ms=times.since_ms, until_ms=times.until_ms)
    query = TimelineQuery(
        groups=choice,
        source=replace(described, cluster_id=opened.rows.cluster_id, topic_id=opened.rows.era),
        since_ms=times.since_ms,
        until_ms=times.until_ms,
        end_ms=opened.rows.complete_until(times.until_ms),
    )
    documents, replay = group_timelines(opened.rows, opened.context, query, most_bytes=GROUP_BYTES)
    finish(replay, choice, opened)
    if len(documents) > 1:
        raise several_groups(group, choice.matched)
    if not documents:
        raise no_record(group, opened.rows)
    return GroupTimeline(documents[0])
