"""The timelines of groups, and the overview of all groups, from the rows of a capture or of a live topic."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from groupreplay.app.inspection.group_use import CommitLoads, LoadRow, unused, unused_row
from groupreplay.app.inspection.state_history import coordinators, group_answers
from groupreplay.app.report.page import fitted
from groupreplay.app.text.event_text import text_of
from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state import Context
from groupreplay.state.policy.context import Redaction
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.engine.group_log import GroupLogs
from groupreplay.streaming.engine.replay import Replay, events_by_group
from groupreplay.streaming.sources.recorded_ends import recorded_ends
from groupreplay.streaming.sources.source import RecordSource, Rows
from groupreplay.timeline.advice.finding import GroupAdvice
from groupreplay.timeline.advice.group_advice import group_advice
from groupreplay.timeline.advice.inputs import AdviceInput, GroupUse, Load, advice_input
from groupreplay.timeline.advice.summary import advice_summary
from groupreplay.timeline.document import TimelineDocument, TimelineSource
from groupreplay.timeline.group_timeline import timeline_document
from groupreplay.timeline.limits import TimelineLimits
from groupreplay.timeline.states import CoordinatorSeen, ProbedState, TimelineInput
from groupreplay.version import __version__


@dataclass(frozen=True, slots=True)
class GroupUses:
    """The groups at the end, what each has written, and for how long nobody has used it."""

    described: Mapping[str, Mapping[str, Any]]
    written: Mapping[str, LoadRow] = field(default_factory=dict)
    unused_ms: Mapping[str, int] = field(default_factory=dict)
    commit_bytes: Mapping[str | None, int] = field(default_factory=dict)

    @classmethod
    def of(cls, replay: Replay, loads: CommitLoads, end_ms: int) -> GroupUses:
        """By what ``list --sort commits`` and ``list --unused`` compute."""
        groups = [group.describe() for group in replay.groups() if group.group_id is not None]
        return cls(
            {group["group_id"]: group for group in groups},
            {row.group_id: row for row in loads.rows(groups, end_ms)},
            {group["group_id"]: unused_row(group, end_ms).unused_ms for group in unused(groups, end_ms)},
            loads.commit_bytes,
        )

    def history(
        self, given: TimelineInput, context: Context, since_ms: int | None, before_ms: int | None
    ) -> AdviceInput:
        """The history of a group, from ``before_ms`` on."""
        row, load = self.written.get(given.group_id), None
        if row is not None and row.commits_per_second is not None and row.share is not None:
            load = Load(
                commits_per_second=row.commits_per_second,
                bytes=row.bytes,
                share=row.share,
                commit_bytes=self.commit_bytes.get(given.group_id, 0),
            )
        use = GroupUse(
            described=self.described.get(given.group_id, {}),
            load=load,
            unused_ms=self.unused_ms.get(given.group_id),
            retention_ms=context.assumed_retention_ms,
            is_retention_assumed=context.retention_ms is None,
            session=context.session_of(GroupType.CONSUMER.value, given.group_id),
        )
        return advice_input(replace(given, since_ms=before_ms), use, since_ms)


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

    ``end_ms`` is the time up to which a live log is complete; None: its last record. ``processes``: see ``Replay``.
    """

    groups: Container[str]
    source: TimelineSource
    since_ms: int | None = None
    until_ms: int | None = None
    end_ms: int | None = None
    trace: Mapping[str, Sequence[Mapping[str, Any]]] | None = None
    processes: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadGroups:
    """What was read of the chosen groups, by name; and the replay for its counts."""

    inputs: Sequence[TimelineInput]
    uses: GroupUses
    replay: Replay
    query: TimelineQuery
    context: Context

    @property
    def before_ms(self) -> int | None:
        """The begin of the time of the same length before the one that was asked for; None: all that is known was."""
        since_ms = self.query.since_ms
        return None if since_ms is None else since_ms - (self.replay.end_ms - since_ms)

    def history(self, given: TimelineInput) -> AdviceInput:
        """What the advice on a group is made from."""
        return self.uses.history(given, self.context, self.query.since_ms, self.before_ms)

    def documents(
        self,
        advised: Sequence[GroupAdvice],
        limits: TimelineLimits | None = None,
        most_bytes: int | None = None,
    ) -> list[TimelineDocument]:
        """The documents of the groups with this advice, in its order.

        ``most_bytes``: of all of them on a page; the largest ones are summed up further until they fit.
        """
        by_name = {given.group_id: given for given in self.inputs}

        def make(number: int, within: TimelineLimits) -> TimelineDocument:
            given = by_name[advised[number].group_id]
            summary = advice_summary(advised[number], given.runbook)
            return replace(timeline_document(given, text_of, within), advice=summary)

        limits = limits or TimelineLimits()
        documents = [make(number, limits) for number in range(len(advised))]
        return documents if most_bytes is None else fitted(documents, make, limits, most_bytes)


def read_groups(rows: Rows, context: Context, query: TimelineQuery) -> ReadGroups:
    """Reads the chosen groups; the context must enable member events. Records after ``until_ms`` are not read."""
    loads = CommitLoads(query.until_ms)
    inputs, replay = timeline_inputs(replace(rows, batches=loads.reading(rows.batches)), context, query)
    uses = GroupUses.of(replay, loads, replay.end_ms)
    return ReadGroups(inputs=inputs, uses=uses, replay=replay, query=query, context=context)


def group_timelines(
    rows: Rows, context: Context, query: TimelineQuery, most_bytes: int | None = None
) -> tuple[list[TimelineDocument], Replay]:
    """The documents of the chosen groups that the rows contain, by name, with advice; and the replay for its counts.

    As ``read_groups`` and ``ReadGroups.documents``.
    """
    read = read_groups(rows, context, query)
    advised = [group_advice(read.history(given)) for given in read.inputs]
    return read.documents(advised, most_bytes=most_bytes), read.replay


def timeline_inputs(rows: Rows, context: Context, query: TimelineQuery) -> tuple[list[TimelineInput], Replay]:
    """What the documents of groups are made from."""
    logs = GroupLogs(query.groups, query.until_ms)
    ends, rows = recorded_ends(rows)
    rows = replace(rows, batches=logs.reading(rows.batches), probes=list(rows.probes))
    replay = Replay(
        context, query.groups, until_ms=query.until_ms, now_ms=query.end_ms, processes=query.processes
    )
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
    for group_id in _found(query, logs, replay, events):
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


def _found(
    query: TimelineQuery,
    logs: GroupLogs,
    replay: Replay,
    events: Mapping[str | None, Sequence[Mapping[str, Any]]],
) -> list[str]:
    """The groups by name of which something is known; of a time that the log does not have nothing is."""
    if not replay.reaches(query.since_ms):
        return []
    read = {name for name, log in logs.logs.items() if log.records or log.undated}
    told = {name for name, its in events.items() if name is not None and its}
    return sorted(name for name in read | told if name in query.groups)


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
