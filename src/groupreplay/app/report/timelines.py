"""The timelines of groups, and the overview of all groups, from the rows of a capture or of a live topic."""

from __future__ import annotations

import json
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from groupreplay.app.inspection.incidents import IncidentLog
from groupreplay.app.inspection.state_history import coordinators, group_answers
from groupreplay.app.report.page import fitted, island_bytes
from groupreplay.app.text.event_text import text_of
from groupreplay.state import Context
from groupreplay.state.phrases import counted
from groupreplay.state.policy.context import Redaction
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.contract.messages import Output
from groupreplay.streaming.engine.group_log import GroupLogs
from groupreplay.streaming.engine.replay import Replay, events_by_group
from groupreplay.streaming.sources.recorded_ends import recorded_ends
from groupreplay.streaming.sources.source import RecordSource, Rows
from groupreplay.timeline.diagnosis import Statement
from groupreplay.timeline.document import Remark, TimelineDocument, TimelineSource
from groupreplay.timeline.group_timeline import timeline_document
from groupreplay.timeline.incident_forms import SevereIncident
from groupreplay.timeline.limits import TimelineLimits
from groupreplay.timeline.overview import (
    OVERVIEW_FORM,
    GroupNow,
    GroupsOverview,
    GroupStrip,
    OverviewTally,
    group_counts,
    strip_bucket_ms,
)
from groupreplay.timeline.states import CoordinatorSeen, ProbedState, TimelineInput
from groupreplay.version import __version__


def timeline_source(
    records: RecordSource,
    words: Sequence[str],
    *,
    since_ms: int | None,
    until_ms: int | None,
    redaction: Redaction | None = None,
) -> TimelineSource:
    """Where a document comes from: ``report`` with ``words``, which makes it again from the same capture or cluster.

    The addresses of brokers are left out: a document is sent on. Its ids of cluster and topic follow when it is read.
    """
    flags = [*records.flags]
    for name, value in (("--since", since_ms), ("--until", until_ms)):
        flags += [] if value is None else [name, str(value)]
    hidden = tuple(sorted(redaction.hidden)) if redaction else ()
    flags += ["--redact", ",".join(hidden), "--redact-key-file", "FILE"] if hidden else []
    return TimelineSource(
        command=shlex.join(["groupreplay", "report", *flags, *words]),
        version=__version__,
        origin=records.origin,
        cluster_id="",
        topic_id="",
        digest=records.digest(),
        redacted=hidden,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineQuery:
    """Which groups (a container of ids), from when to when (None: all that is known), and lines of a trace by group id.

    ``end_ms`` is the time up to which a live log is complete; None: its last record.
    """

    groups: Container[str]
    source: TimelineSource
    since_ms: int | None = None
    until_ms: int | None = None
    end_ms: int | None = None
    trace: Mapping[str, Sequence[Mapping[str, Any]]] | None = None


def group_timelines(
    rows: Rows,
    context: Context,
    query: TimelineQuery,
    limits: TimelineLimits | None = None,
    most_bytes: int | None = None,
) -> tuple[list[TimelineDocument], Replay]:
    """The documents of the chosen groups that the rows contain, by name; and the replay for its counts.

    The context must enable member events. Records after ``until_ms`` are not read. ``most_bytes``: of all documents on
    a page; the largest ones are summed up further until they fit.
    """
    inputs, replay = timeline_inputs(rows, context, query)

    def make(number: int, within: TimelineLimits) -> TimelineDocument:
        return timeline_document(inputs[number], text_of, within)

    limits = limits or TimelineLimits()
    documents = [make(number, limits) for number in range(len(inputs))]
    return documents if most_bytes is None else fitted(documents, make, limits, most_bytes), replay


def timeline_inputs(rows: Rows, context: Context, query: TimelineQuery) -> tuple[list[TimelineInput], Replay]:
    """What the documents of ``group_timelines`` are made from."""
    logs = GroupLogs(query.groups, query.until_ms)
    ends, rows = recorded_ends(rows)
    rows = replace(rows, batches=logs.reading(rows.batches), probes=list(rows.probes))
    replay = Replay(context, query.groups, until_ms=query.until_ms, now_ms=query.end_ms)
    events = events_by_group(replay, rows)
    answers = group_answers(rows, query.groups, query.until_ms)
    leaders = coordinators(rows, query.until_ms)
    return [
        replace(timeline, ends_of=ends.spans if ends else None)
        for timeline in _inputs(context, query, logs, replay, events, answers, leaders)
    ], replay


def _inputs(
    context: Context,
    query: TimelineQuery,
    logs: GroupLogs,
    replay: Replay,
    events: Mapping[str | None, Sequence[Mapping[str, Any]]],
    answers: Mapping[str, Sequence[ProbedState]],
    leaders: Mapping[int, Sequence[CoordinatorSeen]],
) -> Iterator[TimelineInput]:
    """What the timeline of each group that was found is made from."""
    offsets = {group.group_id: group.describe()["offsets"] for group in replay.groups()}
    for group_id in sorted(
        name for name in {*logs.logs, *events} if name is not None and name in query.groups
    ):
        log = logs.logs[group_id]
        yield TimelineInput(
            group_id=group_id,
            source=query.source,
            events=events.get(group_id, ()),
            end_ms=replay.latest_ms,
            since_ms=query.since_ms,
            until_ms=query.until_ms,
            has_log=True,
            probed=context.probing,
            records=log.records,
            commits=log.commits(),
            answers=answers.get(group_id, ()),
            coordinators=leaders.get(log.records[0].partition, ()) if log.records else (),
            offsets=offsets.get(group_id, ()),
            pending=context.pending.get(group_id, ()),
            topic_names=context.topic_names,
            trace=(query.trace or {}).get(group_id, ()),
            undated=log.undated,
            redaction=context.redaction,
            # Deadlines are calculated with it.
            assumed=context.assumed_retention,
            runbook=context.policy.runbook,
        )


def read_trace(paths: Iterable[Path], groups: Container[str]) -> dict[str, list[dict[str, Any]]]:
    """The lines of ``simulate --trace`` about these groups, by group id.

    Raises:
        GroupReplayError: a file cannot be read or a line is no step of a trace.
    """
    entries: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in paths:
        for number, line in _trace_lines(path):
            try:
                entry = msgspec.json.decode(line)
            except msgspec.DecodeError as error:
                raise _no_trace(path, f"line {number} is no JSON ({error})") from None
            if not isinstance(entry, dict) or "group_id" not in entry:
                raise _no_trace(path, f"line {number} has no group_id")
            if str(entry["group_id"]) in groups:
                entries[entry["group_id"]].append(entry)
    return entries


def _trace_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as lines:
            yield from enumerate(lines, 1)
    except OSError as error:
        raise _no_trace(path, error.strerror or "it cannot be read") from None


def _no_trace(path: Path, what: str) -> GroupReplayError:
    return GroupReplayError(
        f"the trace cannot be used: {what}",
        where=str(path),
        fix="give a file that groupreplay simulate --trace has written",
        exit_code=ExitCode.DATA,
    )


#: Rows of the table; more would make the page slow.
_MOST_STRIPS: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AllStrips:
    """The strips of all groups between two points in time, and the incidents, the worst first."""

    since_ms: int
    until_ms: int
    strips: Sequence[GroupStrip]
    incidents: Sequence[SevereIncident]


def all_strips(
    rows: Rows, context: Context, since_ms: int | None, until_ms: int | None, end_ms: int | None
) -> AllStrips:
    """The strips of all groups in the rows; ``end_ms`` is the time up to which a live log is complete."""
    rows = replace(rows, probes=list(rows.probes))
    replay, tally = Replay(context, until_ms=until_ms, now_ms=end_ms), OverviewTally(text_of)
    log, documents = IncidentLog(context), dict[bytes, Any]()
    for row in replay.feed(rows):
        body = None if row.value is None else json.loads(row.value)
        if body is not None and row.output in (Output.EVENTS, Output.STATES):
            log.add(row.output, body)
        if body is not None and row.output is Output.EVENTS:
            tally.add(body)
        elif row.output is Output.STATES:
            documents[row.key] = body
    ends_ms = replay.latest_ms + 1 if until_ms is None else until_ms
    begins_ms = min(tally.first_ms or ends_ms - 1, ends_ms - 1) if since_ms is None else since_ms
    for document in filter(None, documents.values()):
        _see(tally, document)
    return AllStrips(
        since_ms=begins_ms,
        until_ms=ends_ms,
        strips=tally.strips(begins_ms, max(ends_ms, begins_ms + 1)),
        incidents=log.incidents(rows, begins_ms, ends_ms),
    )


def _see(tally: OverviewTally, document: Mapping[str, Any]) -> None:
    """A group at the end, from its document."""
    members = document.get("members") or ()
    topics = {*(document.get("subscribed_topics") or ()), *document["offsets"].get("topics", ())}
    names = {member.get(name) for member in members for name in _NAMES}
    found_by = [*sorted(topics), *sorted(filter(None, names))]
    tally.see(
        document["group_id"],
        GroupNow(document["state"], document["member_count"], tuple(found_by[:_MOST_NAMES])),
    )


#: What the members of a group are found by, and how many names of a group a page has.
_NAMES: Final = ("instance_id", "client_id", "client_host")
_MOST_NAMES: Final = 40


def that_fit(timelines: Sequence[TimelineDocument], most_bytes: int) -> list[TimelineDocument]:
    """The first documents, without those that do not fit into what the ones before them leave of so many bytes."""
    kept = []
    for timeline in timelines:
        size = island_bytes(timeline)
        if size <= most_bytes:
            most_bytes -= size
            kept.append(timeline)
    return kept


def _remarks(rows: int, full: int, too_large: int, left_out: int) -> list[Remark]:
    """What the overview leaves out, by numbers of groups."""
    summed = [
        (
            rows - full,
            f"{counted(rows - full, 'group')} have a row only: the worst {full} are shown in full.",
        ),
        (
            too_large,
            f"{counted(too_large, 'group')} did not fit in full; groupreplay report --group draws each alone.",
        ),
        (left_out, f"{counted(left_out, 'group')} without a problem are left out."),
    ]
    return [
        Remark(
            kind="strips",
            text="Strips are made from events; a group in full also has its states, owners and commits.",
        ),
        *(Remark(kind="summed_groups", text=text) for number, text in summed if number > 0),
    ]


def _shown(strip: GroupStrip, verdict: Statement | None, *, in_full: bool) -> GroupStrip:
    """A strip with the sentence of its diagnosis, if it has one."""
    if verdict is not None and strip.leading:
        strip = replace(strip, text=verdict.text)
    # Strips of healthy groups would take most of a page.
    return replace(strip, in_full=in_full) if in_full or strip.leading else replace(strip, rebalances=())


def groups_overview(
    overview: AllStrips,
    timelines: Sequence[TimelineDocument],
    source: TimelineSource,
    in_full: Collection[str] = (),
    *,
    too_large: int = 0,
) -> GroupsOverview:
    """The document of the overview; groups shown in full keep their strip, the others their numbers.

    ``in_full`` are groups that keep their strip without a timeline. ``too_large``: so many groups were meant to be
    shown in full, and do not fit.
    """
    full = {timeline.group_id for timeline in timelines} | set(in_full)
    verdicts = {timeline.group_id: timeline.verdict[0] for timeline in timelines}
    strips = [
        _shown(strip, verdicts.get(strip.group_id), in_full=strip.group_id in full)
        for strip in overview.strips[:_MOST_STRIPS]
    ]
    counts = Counter((strip.tone, strip.leading) for strip in overview.strips)
    return GroupsOverview(
        form=OVERVIEW_FORM,
        since_ms=overview.since_ms,
        until_ms=overview.until_ms,
        bucket_ms=strip_bucket_ms(overview.since_ms, overview.until_ms),
        source=source,
        remarks=tuple(_remarks(len(strips), len(full), too_large, len(overview.strips) - len(strips))),
        counts=group_counts(counts),
        incidents=tuple(overview.incidents),
        strips=tuple(strips),
        timelines=tuple(timelines),
    )
