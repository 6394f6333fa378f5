"""The timeline of a group now: events of the history, and lanes of the log where this login may read it."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from groupreplay.app.serve.group_answers import AnswersOfGroups, LiveAnswers
from groupreplay.app.serve.history import event_queries, group_queries
from groupreplay.app.serve.offsets_log.group_logs import LiveGroupLog, LiveLogs, LogUnreadError
from groupreplay.app.serve.offsets_log.live_advice import LiveAdvice, use_now
from groupreplay.app.serve.offsets_log.live_ends import LiveEnds
from groupreplay.app.serve.watched_cluster import WatchedCluster
from groupreplay.app.text.event_text import text_of
from groupreplay.state.phrases import safe_text, timestamp, timestamp_ms
from groupreplay.state.policy.context import MARK, Redaction
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError
from groupreplay.streaming.contract.messages import OBJECTS
from groupreplay.timeline.advice.inputs import GroupUse
from groupreplay.timeline.document import Remark, TimelineDocument, TimelineSource, Unread, UnreadReason
from groupreplay.timeline.group_timeline import timeline_document
from groupreplay.timeline.states import TimelineInput
from groupreplay.timeline.stop_cost import EndsOf
from groupreplay.version import __version__

#: Events of one timeline: the newest ones before its end, and their bytes.
_MOST_EVENTS: Final = 5_000
_MOST_BYTES: Final = 32 << 20
#: Fields that a redaction hides, in members of documents.
_NAMES: Final = ("client_host", "client_id", "member_id", "instance_id")


Json = dict[str, Any]


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
    _answers: AnswersOfGroups = field(init=False)
    #: Where no topic has answers, none has ends: they are those of the cluster.
    _ends: LiveEnds | None = field(init=False)
    _advice: LiveAdvice = field(default_factory=LiveAdvice)

    def __post_init__(self) -> None:
        served, cluster = self.cluster.served, self.cluster
        self._logs = LiveLogs(served.source, cluster.redaction, lambda: cluster.log_watch.answers.error)
        self._ends = None if cluster.answers else LiveEnds(served.sink, served.topics.probes)
        self._answers = cluster.answers or LiveAnswers(
            served.sink, served.topics.probes, lambda: cluster.watch.answers.error
        )

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
            return self._without_log(
                timeline, history, Unread(what="log", reason="hidden", since_ms=None, text=why)
            )
        try:
            return self._with_log(timeline, history, self._logs.read(group_id, now_ms), now_ms)
        except GroupReplayError as error:
            kept = self._logs.kept(group_id)
            if kept is None:
                return self._without_log(timeline, history, _unread("log", error, None))
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
            topics = {topic for topic, _ in group_log.log.commits().places}
        # Without the lock: whoever holds it may wait for brokers that are gone.
        ends_of = self._ends_of(topics, context.cluster_id, now_ms)
        with group_log.lock:
            log = group_log.log
            if not (history.events or log.records or group_log.rows or history.group_id):
                return None
            source = replace(timeline.source, cluster_id=context.cluster_id, topic_id=context.era)
            described = group_log.described()
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
                offsets=() if described is None else described["offsets"],
                assumed=context.assumed_retention,
                topic_names=context.topic_names,
                undated=log.undated,
                known_until_ms=group_log.known_ms,
                unread=unread,
                ends_of=ends_of,
            )
            return self._drawn(whole, history, use_now(described, context, now_ms))

    def _without_log(
        self, timeline: TimelineInput, history: _FromHistory, missing: Unread
    ) -> TimelineDocument | None:
        if not (history.events or history.group_id):
            return None
        # States and members are those of events.
        whole = replace(timeline, unread=(missing,), known_until_ms=timeline.events_until_ms)
        return self._drawn(whole, history, GroupUse())

    def _drawn(self, whole: TimelineInput, history: _FromHistory, use: GroupUse) -> TimelineDocument:
        advice = self._advice.of(whole, use)
        return _remarked(replace(timeline_document(whole, text_of), advice=advice), history)

    def _ends_of(self, topics: Collection[str], cluster_id: str, now_ms: int) -> EndsOf | None:
        """The recorded ends of these topics; None: there are none."""
        if self._ends is None or not topics:
            return self.cluster.ends_of
        ends = self._ends.of_topics(topics, cluster_id, now_ms)
        return ends.spans if ends else None


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
    return TimelineSource(
        command=f"groupreplay report --bootstrap-server HOST:PORT --group {shlex.quote(group_id)} -o FILE.html",
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
