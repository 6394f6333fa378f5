"""The timeline of a group now: events of the history, and lanes of the log where this login may read it."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from groupreplay import __version__
from groupreplay.app.serve.history import queries
from groupreplay.app.serve.offsets_log.answers import LiveAnswers
from groupreplay.app.serve.offsets_log.group_logs import LiveGroupLog, LiveLogs, LogUnreadError
from groupreplay.app.serve.watched_cluster import WatchedCluster
from groupreplay.app.text.event_text import text_of
from groupreplay.state.display.phrases import timestamp
from groupreplay.state.display.safe_text import safe_text
from groupreplay.state.policy.redaction import MARK, Redaction
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError
from groupreplay.streaming.contract.messages import OBJECTS
from groupreplay.timeline.document import (
    Remark,
    TimelineDocument,
    TimelineSource,
    Unread,
    UnreadReason,
)
from groupreplay.timeline.event_reading import moment_ms
from groupreplay.timeline.group_timeline import TimelineInput, timeline_document

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
        times = [moment_ms(str(one.get("time"))) for one in self.events[:1]]
        return max((one for one in (*times, known_ms or self.newest_ms) if one is not None), default=None)


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
        told = self.cluster.ask(lambda db: _from_history(db, group, end_ms))
        group_id = told.group_id or group
        given = TimelineInput(
            group_id=group_id,
            source=_source(group_id, self.cluster.redaction),
            events=told.events,
            end_ms=end_ms,
            since_ms=since_ms,
            until_ms=until_ms or max(now_ms, since_ms) + 1,
            redaction=self.cluster.redaction,
            events_until_ms=told.until_ms(self.cluster.known_until_ms()),
        )
        if told.hides_names and self.cluster.redaction is None:
            why = "The job hides names, and this server has no --redact-key-file to hide them in the log."
            return _without_log(given, told, Unread(what="log", reason="hidden", since_ms=None, text=why))
        try:
            return self._with_log(given, told, self._logs.read(group_id, now_ms), now_ms)
        except GroupReplayError as error:
            kept = self._logs.kept(group_id)
            if kept is None:
                return _without_log(given, told, _unread("log", error, None))
            unread = (_unread("log", error, kept.known_ms),)
        return self._with_log(replace(given, unread=unread), told, kept, now_ms)

    def _with_log(
        self, given: TimelineInput, told: _FromHistory, found: LiveGroupLog, now_ms: int
    ) -> TimelineDocument | None:
        context = self._logs.context
        assert context is not None, "a log that was read has one"
        answers = self._answers.of_group(given.group_id, context.cluster_id, now_ms)
        unread = list(given.unread)
        if answers.error is not None:
            unread.append(_unread("probes", answers.error, answers.known_ms))
        with found.lock:
            log = found.log
            if not (told.events or log.records or found.rows or told.group_id):
                return None
            source = replace(given.source, cluster_id=context.cluster_id, topic_id=context.era)
            made = replace(
                given,
                source=source,
                events=_joined(given.events, found.member_events),
                has_log=True,
                probed=answers.rounds is not None,
                asked=answers.rounds,
                misdated=answers.misdated,
                records=log.records,
                commits=log.commits(),
                answers=answers.states,
                offsets=found.offsets(),
                assumed=context.assumed_retention,
                topic_names=context.topic_names,
                undated=log.undated,
                known_until_ms=found.known_ms,
                unread=unread,
            )
            return _remarked(timeline_document(made, text_of), told)


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
    label = queries.label_of(db, group)
    document, group_id = queries.document(db, label), queries.group_id_of(db, label)
    values, cut = queries.events_of_group(db, label, end_ms + 1, _MOST_EVENTS, _MOST_BYTES)
    events = [event for value in values if (event := OBJECTS.decode(value)) is not None]
    known = OBJECTS.decode(document) or {}
    if group_id is None:
        group_id = next(
            (data["group_id"] for one in events if "group_id" in (data := one.get("data") or {})), None
        )
    first_ms, newest_ms = queries.event_bounds_ms(db)
    return _FromHistory(group_id, events, cut, first_ms, newest_ms, hides_names(known, *events))


def hides_names(*documents: Mapping[str, Any]) -> bool:
    """Whether a member in a document or event has a name that a redaction has replaced."""
    return any(
        str(member.get(name) or "").startswith(MARK)
        for one in documents
        for member in _members(one)
        for name in _NAMES
    )


def _members(one: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    data = one.get("data")
    fields = data if isinstance(data, Mapping) else one
    members = fields.get("members")
    found = members if isinstance(members, list) else []
    return [fields, *(member for member in found if isinstance(member, Mapping))]


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
    known = {event.get("id") for event in events}
    return [*events, *(event for event in members if event["id"] not in known)]


def _without_log(given: TimelineInput, told: _FromHistory, missing: Unread) -> TimelineDocument | None:
    if not (told.events or told.group_id):
        return None
    # States and members are those of events.
    made = replace(given, unread=(missing,), known_until_ms=given.events_until_ms)
    return _remarked(timeline_document(made, text_of), told)


def _remarked(document: TimelineDocument, told: _FromHistory) -> TimelineDocument:
    """The document with what the history does not have."""
    first_ms, found = told.first_ms, list[Remark]()
    if told.cut:
        found.append(Remark(kind="summed_events", text="Only the newest events before the end were read."))
    elif first_ms is None or first_ms > document.since_ms:
        since = "yet" if first_ms is None else f"before {timestamp(first_ms)}"
        found.append(Remark(kind="history", text=f"The history of this server has no events {since}."))
    # First what could not be read: it is not to be taken for the end of what happened.
    remarks = sorted((*found, *document.remarks), key=lambda one: not one.kind.startswith("unread"))
    return replace(document, remarks=tuple(remarks))
