"""The timeline of a group now: events of the history, and lanes of the log where this login may read it."""

from __future__ import annotations

import shlex
import sqlite3
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

from groupreplay.app.serve.history import event_queries, group_queries
from groupreplay.app.serve.offsets_log.group_logs import (
    SILENCE_SECONDS,
    LiveGroupLog,
    LiveLogs,
    LogUnreadError,
)
from groupreplay.app.serve.watched_cluster import WatchedCluster
from groupreplay.app.text.event_text import text_of
from groupreplay.state.phrases import safe_text, timestamp, timestamp_ms
from groupreplay.state.policy.context import MARK, Redaction
from groupreplay.state.snapshot.observations import Probe
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.messages import OBJECTS
from groupreplay.streaming.contract.probe_messages import GroupAnswer, RoundSummary
from groupreplay.streaming.engine.probe_rows import ProbeFilter, group_probe, placed_messages
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_reader import read_messages
from groupreplay.streaming.sinks.known_groups import DAY_MS
from groupreplay.timeline.document import (
    Remark,
    TimelineDocument,
    TimelineSource,
    Unread,
    UnreadReason,
)
from groupreplay.timeline.group_timeline import timeline_document
from groupreplay.timeline.states import ProbedState, TimelineInput
from groupreplay.version import __version__

#: Events of one timeline: the newest ones before its end, and their bytes.
_MOST_EVENTS: Final = 5_000
_MOST_BYTES: Final = 32 << 20
#: Answers of the prober about one group, and groups with answers; the oldest are dropped.
_MOST_ANSWERS: Final = 10_000
_MOST_GROUPS: Final = 5_000
LOOK_BACK_MS: Final = DAY_MS
#: Fields that a redaction hides, in members of documents.
_NAMES: Final = ("client_host", "client_id", "member_id", "instance_id")


Json = dict[str, Any]


class GroupAnswers(NamedTuple):
    """The answers about one group, in order, up to ``known_ms`` (None: nothing was read).

    ``rounds``: when the prober's first and last round of the last day were written; None: nobody asked. ``error``: why
    later ones could not be read. ``misdated`` counts answers that are not used: they are dated ahead of their append
    time.
    """

    states: Sequence[ProbedState]
    rounds: tuple[int, int] | None
    known_ms: int | None
    error: GroupReplayError | None
    misdated: int


@dataclass(slots=True)
class LiveAnswers:
    """The answers in one probes topic. ``trouble``: why no broker answers, None when one does."""

    cluster: Cluster
    topic: str
    trouble: Callable[[], str | None] = lambda: None
    _rounds: tuple[int, int] | None = None
    _known_ms: int | None = None
    _misdated: Counter[str] = field(default_factory=Counter)
    _connection: Connection | None = None
    _topic_id: str = ""
    _next: dict[int, int] = field(default_factory=dict)
    _by_group: OrderedDict[str, list[ProbedState]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of_group(self, group_id: str, cluster_id: str, now_ms: int) -> GroupAnswers:
        """The answers about a group of this cluster up to now, or as far as they could be read."""
        error = self._update(cluster_id, now_ms)
        states = tuple(sorted(self._by_group.get(group_id, ())))
        return GroupAnswers(states, self._rounds, self._known_ms, error, self._misdated[group_id])

    def _update(self, cluster_id: str, now_ms: int) -> GroupReplayError | None:
        # Without the lock: whoever holds it may wait for brokers that are gone.
        if (trouble := self.trouble()) is not None:
            return UnreachableError(trouble)
        with self._lock:
            try:
                self._read(cluster_id, now_ms)
            except GroupReplayError as error:
                return error
            self._known_ms = now_ms
            return None

    def _read(self, cluster_id: str, now_ms: int) -> None:
        connection = self._connection = self._connection or Connection(self.cluster)
        topic_id, partitions = connection.topic_id(self.topic)
        ends = connection.end_offsets(self.topic, partitions)
        if topic_id != self._topic_id:
            self._topic_id, self._rounds, self._known_ms = topic_id, None, None
            self._by_group.clear()
            self._misdated.clear()
            since = connection.offsets_since(self.topic, partitions, max(now_ms - LOOK_BACK_MS, 0))
            self._next = {number: end if since[number] < 0 else since[number] for number, end in ends.items()}
        probe_filter = ProbeFilter(topic=self.topic, cluster_id=cluster_id)
        starts = {number: self._next.get(number, 0) for number in ends}
        for batch in read_messages(connection, self.topic, starts, ends, SILENCE_SECONDS):
            for message, place, append_ms in placed_messages(batch, self.topic):
                if isinstance(message, RoundSummary):
                    if message.cluster_id == cluster_id:
                        at_ms = message.taken_ms if append_ms is None else append_ms
                        self._rounds = (self._rounds or (at_ms, 0))[0], at_ms
                elif isinstance(message, GroupAnswer):
                    probe = group_probe(message, place, append_ms, probe_filter)
                    self._take(message, probe, probe_filter)
            # Batch by batch: after a failure nothing is taken twice.
            self._next[batch.column("partition")[-1].as_py()] = batch.column("offset")[-1].as_py() + 1
        self._next = dict(ends)

    def _take(self, message: GroupAnswer, probe: Probe | None, probe_filter: ProbeFilter) -> None:
        if probe is None:
            self._misdated[message.group_id] += message.cluster_id == probe_filter.cluster_id
            return
        answers = self._by_group.setdefault(message.group_id, [])
        answers.append(ProbedState(probe.asked_ms, probe.answered_ms, probe.state, message.unseen_ms))
        del answers[:-_MOST_ANSWERS]
        self._by_group.move_to_end(message.group_id)
        if len(self._by_group) > _MOST_GROUPS:
            self._by_group.popitem(last=False)


@dataclass(frozen=True, slots=True)
class _FromHistory:
    """What the history has of a group."""

    group_id: str | None
    events: Sequence[Json]
    cut: bool
    first_ms: int | None
    newest_ms: int | None
    hides_names: bool

    def until_ms(self, known_ms: int | None) -> int | None:
        """Up to when the events are known: what the job says, or the newest one; None: there is none."""
        times = [timestamp_ms(event.get("time")) for event in self.events[:1]]
        times.append(known_ms or self.newest_ms)
        return max((time_ms for time_ms in times if time_ms is not None), default=None)


@dataclass(slots=True)
class LiveTimelines:
    """The timelines of one cluster's groups."""

    cluster: WatchedCluster
    _logs: LiveLogs = field(init=False)
    _answers: LiveAnswers = field(init=False)

    def __post_init__(self) -> None:
        served, cluster = self.cluster.served, self.cluster
        self._logs = LiveLogs(served.source, cluster.redaction, lambda: cluster.log_watch.answers.error)
        self._answers = LiveAnswers(served.sink, served.topics.probes, lambda: cluster.watch.answers.error)

    def document(self, group: str, since_ms: int, until_ms: int | None) -> TimelineDocument | None:
        """The timeline of a group from a time on; None when neither the history nor the log has the group.

        Raises:
            sqlite3.Error: the history gives no answer.
        """
        now_ms = self.cluster.clock()
        end_ms = min(now_ms, until_ms or now_ms)
        history = self.cluster.ask(lambda db: _from_history(db, group, end_ms))
        group_id = history.group_id or group
        timeline = TimelineInput(
            group_id=group_id,
            source=_source(group_id, self.cluster.redaction),
            events=history.events,
            end_ms=end_ms,
            since_ms=since_ms,
            until_ms=until_ms or max(now_ms, since_ms) + 1,
            redaction=self.cluster.redaction,
            events_until_ms=history.until_ms(self.cluster.known_until_ms()),
        )
        if history.hides_names and self.cluster.redaction is None:
            why = "The job hides names, and this server has no --redact-key-file to hide them in the log."
            return _without_log(
                timeline, history, Unread(what="log", reason="hidden", since_ms=None, text=why)
            )
        try:
            return self._with_log(timeline, history, self._logs.read(group_id, now_ms), now_ms)
        except GroupReplayError as error:
            kept = self._logs.kept(group_id)
            if kept is None:
                return _without_log(timeline, history, _unread("log", error, None))
            unread = (_unread("log", error, kept.known_ms),)
        return self._with_log(replace(timeline, unread=unread), history, kept, now_ms)

    def _with_log(
        self, timeline: TimelineInput, history: _FromHistory, group_log: LiveGroupLog, now_ms: int
    ) -> TimelineDocument | None:
        context = self._logs.context
        assert context is not None, "a log that was read has one"
        answers = self._answers.of_group(timeline.group_id, context.cluster_id, now_ms)
        unread = list(timeline.unread)
        if answers.error is not None:
            unread.append(_unread("probes", answers.error, answers.known_ms))
        with group_log.lock:
            log = group_log.log
            if not (history.events or log.records or group_log.rows or history.group_id):
                return None
            source = replace(timeline.source, cluster_id=context.cluster_id, topic_id=context.era)
            whole = replace(
                timeline,
                source=source,
                events=_joined(timeline.events, group_log.member_events),
                has_log=True,
                probed=answers.rounds is not None,
                asked=answers.rounds,
                misdated=answers.misdated,
                records=log.records,
                commits=log.commits(),
                answers=answers.states,
                offsets=group_log.offsets(),
                assumed=context.assumed_retention,
                topic_names=context.topic_names,
                undated=log.undated,
                known_until_ms=group_log.known_ms,
                unread=unread,
            )
            return _remarked(timeline_document(whole, text_of), history)


def _unread(what: Literal["log", "probes"], error: GroupReplayError, known_ms: int | None) -> Unread:
    reason: UnreadReason = "other"
    if isinstance(error, LogUnreadError):
        reason = "reading"
    elif isinstance(error, UnreachableError):
        reason = "unreachable"
    elif error.exit_code is ExitCode.AUTHORISATION:
        reason = "refused"
    elif error.exit_code is ExitCode.DATA:
        reason = "absent"
    text = safe_text(str(error), 500)
    return Unread(what=what, reason=reason, since_ms=known_ms, text=f"{text[:1].upper()}{text[1:]}.")


def _from_history(db: sqlite3.Connection, group: str, end_ms: int) -> _FromHistory:
    label = group_queries.label_of(db, group)
    document, group_id = group_queries.document(db, label), group_queries.group_id_of(db, label)
    values, cut = event_queries.events_of_group(db, label, end_ms + 1, _MOST_EVENTS, _MOST_BYTES)
    events = [event for value in values if (event := OBJECTS.decode(value)) is not None]
    stored = OBJECTS.decode(document) or {}
    if group_id is None:
        group_id = next(
            (data["group_id"] for event in events if "group_id" in (data := event.get("data") or {})), None
        )
    first_ms, newest_ms = event_queries.event_bounds_ms(db)
    return _FromHistory(group_id, events, cut, first_ms, newest_ms, hides_names(stored, *events))


def hides_names(*documents: Mapping[str, Any]) -> bool:
    """Whether a member in a document or event has a name that a redaction has replaced."""
    return any(
        str(member.get(name) or "").startswith(MARK)
        for message in documents
        for member in _members(message)
        for name in _NAMES
    )


def _members(message: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    data = message.get("data")
    fields = data if isinstance(data, Mapping) else message
    members = fields.get("members")
    listed = members if isinstance(members, list) else []
    return [fields, *(member for member in listed if isinstance(member, Mapping))]


def _source(group_id: str, redaction: Redaction | None) -> TimelineSource:
    words = [
        "groupreplay",
        "report",
        "--bootstrap-server",
        "HOST:PORT",
        "--group",
        group_id,
        "-o",
        "FILE.html",
    ]
    return TimelineSource(
        command=shlex.join(words),
        version=__version__,
        origin="live cluster",
        cluster_id="",
        topic_id="",
        digest=None,
        redacted=() if redaction is None else tuple(sorted(redaction.hidden)),
    )


def _joined(events: Sequence[Mapping[str, Any]], members: Iterable[Json]) -> list[Mapping[str, Any]]:
    """The job's events, and those about members that only the replay emits: the same cause gives the same id."""
    ids = {event.get("id") for event in events}
    return [*events, *(event for event in members if event["id"] not in ids)]


def _without_log(timeline: TimelineInput, history: _FromHistory, missing: Unread) -> TimelineDocument | None:
    if not (history.events or history.group_id):
        return None
    # States and members are those of events.
    whole = replace(timeline, unread=(missing,), known_until_ms=timeline.events_until_ms)
    return _remarked(timeline_document(whole, text_of), history)


def _remarked(document: TimelineDocument, history: _FromHistory) -> TimelineDocument:
    """The document with what the history does not have."""
    first_ms, missing = history.first_ms, list[Remark]()
    if history.cut:
        missing.append(Remark(kind="summed_events", text="Only the newest events before the end were read."))
    elif first_ms is None or first_ms > document.since_ms:
        since = "yet" if first_ms is None else f"before {timestamp(first_ms)}"
        missing.append(Remark(kind="history", text=f"The history of this server has no events {since}."))
    # First what could not be read: it is not to be taken for the end of what happened.
    remarks = sorted((*missing, *document.remarks), key=lambda remark: not remark.kind.startswith("unread"))
    return replace(document, remarks=tuple(remarks))
