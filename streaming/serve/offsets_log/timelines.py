"""The timeline of a group now: events of the history, and lanes of the log where this login may read it."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from groupreplay import __version__
from groupreplay.state.display.phrases import timestamp
from groupreplay.state.display.safe_text import safe_text
from groupreplay.state.policy.redaction import MARK, Redaction
from groupreplay.state.timeline.document import Remark, TimelineDocument, TimelineSource
from groupreplay.state.timeline.group_timeline import TimelineInput, timeline_document
from groupreplay.state.timeline.states import ProbedState
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.contract.message_decoder import OBJECTS
from groupreplay.streaming.serve.history import queries
from groupreplay.streaming.serve.offsets_log.answers import LiveAnswers
from groupreplay.streaming.serve.offsets_log.group_logs import LiveLogs, LogUnreadError
from groupreplay.streaming.serve.watched_cluster import WatchedCluster
from groupreplay.streaming.text.event_text import text_of

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
    hides_names: bool


@dataclass(slots=True)
class LiveTimelines:
    """The timelines of one cluster's groups."""

    cluster: WatchedCluster
    _logs: LiveLogs = field(init=False)
    _answers: LiveAnswers = field(init=False)

    def __post_init__(self) -> None:
        served = self.cluster.served
        self._logs = LiveLogs(served.source, self.cluster.redaction)
        self._answers = LiveAnswers(served.sink, served.topics.probes)

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
        )
        if told.hides_names and self.cluster.redaction is None:
            why = "the job hides names, and this server has no --redact-key-file to hide them in the log"
            return _without_log(given, told, why)
        try:
            return self._with_log(given, told, now_ms)
        except LogUnreadError as error:
            return _without_log(given, told, f"it is still being read ({error.what})")
        except GroupReplayError as error:
            return _without_log(given, told, str(error))

    def _with_log(self, given: TimelineInput, told: _FromHistory, now_ms: int) -> TimelineDocument | None:
        found, context = self._logs.read(given.group_id, now_ms)
        answers, probed = self._probed(given.group_id, context.cluster_id, now_ms)
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
                probed=probed,
                records=log.records,
                commits=log.commits(),
                answers=answers,
                offsets=found.offsets(),
                topic_names=context.topic_names,
                undated=log.undated,
            )
            return _remarked(timeline_document(made, text_of), told)

    def _probed(self, group_id: str, cluster_id: str, now_ms: int) -> tuple[Sequence[ProbedState], bool]:
        try:
            return self._answers.of_group(group_id, cluster_id, now_ms), self._answers.probed
        except GroupReplayError:
            # The remarks of a document say that there are no probes.
            return (), False


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
    return _FromHistory(group_id, events, cut, queries.first_event_ms(db), hides_names(known, *events))


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


def _without_log(given: TimelineInput, told: _FromHistory, why: str) -> TimelineDocument | None:
    if not (told.events or told.group_id):
        return None
    missing = Remark(kind="no_records", text=f"No partitions and commits: {safe_text(why, 500)}.")
    return _remarked(timeline_document(given, text_of), told, missing)


def _remarked(document: TimelineDocument, told: _FromHistory, *more: Remark) -> TimelineDocument:
    """The document with what the history does not have."""
    first_ms, found = told.first_ms, list(more)
    if told.cut:
        found.append(Remark(kind="summed_events", text="Only the newest events before the end were read."))
    elif first_ms is None or first_ms > document.since_ms:
        since = "yet" if first_ms is None else f"before {timestamp(first_ms)}"
        found.append(Remark(kind="history", text=f"The history of this server has no events {since}."))
    return replace(document, remarks=(*found, *document.remarks))
