"""Incidents across groups while the job runs: reads the job's own topics back, and publishes what it finds.

Only here is every group seen: the operator has one at a time. The finder is stored in the checkpoint together with how
far the topics were read, after what it has found was written: a killed job reads the rest again, and finds the same
under the same ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from groupreplay.state.events.group_events import GroupStateDamaged
from groupreplay.state.output.envelope import event_type
from groupreplay.state.policy.context import Context
from groupreplay.streaming.base.background import Background
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.log import IncidentState, Places, keys_and_values
from groupreplay.streaming.contract.messages import OBJECTS, OutputRow
from groupreplay.streaming.contract.probe_messages import RoundSummary, decode_message
from groupreplay.streaming.engine.json_messages import event_row
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.kafka.topic_reader import read_messages, starts_since, starts_within
from groupreplay.streaming.run.state_rebuild import StateRebuild
from groupreplay.timeline.incident_signals import Item, LeaderSeen, document_items, event_items
from groupreplay.timeline.incidents import IncidentFinder

_TICK_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 30.0
#: A job without a stored finder reads so far back.
_BACK_MS: Final = 3_600_000
#: What belongs to the caught-up time is written by then, at least; also three triggers.
_LEAST_LATE_MS: Final = 15_000
_TRIGGERS: Final = 3
#: The finder is stored after each event, and so often.
_STORE_MS: Final = 60_000
_STATE_DAMAGED: Final = event_type(GroupStateDamaged.NAME)


@dataclass(slots=True)
class _Reading:
    """The same while the job runs."""

    finder: IncidentFinder
    read_to: Places
    round_ms: int | None = None

    def stored(self) -> IncidentState:
        """As it is stored."""
        return IncidentState(finder=self.finder.snapshot(), read_to=self.read_to, round_ms=self.round_ms)


class _Identity(Protocol):
    @property
    def trigger_seconds(self) -> float: ...


class Progress(Protocol):
    """How far the query is, as ``JobReport`` knows it."""

    caught_up_ms: int | None

    @property
    def identity(self) -> _Identity:
        """Has the time between two batches."""


class FinderStore(Protocol):
    """The store of the run as this module uses it."""

    def incidents(self) -> IncidentState | None:
        """The finder of incidents as it was stored; None: none was."""

    def note_incidents(self, state: IncidentState) -> None:
        """Keeps the finder of incidents."""


class Messages(Protocol):
    """The job's topics as this module uses them. Every method raises GroupReplayError when they cannot be read."""

    @property
    def topics(self) -> TopicNames:
        """Their names."""

    def begin(self, since_ms: int) -> Places:
        """Where a finder begins that knows nothing: all documents, and what else is newer than this time."""

    def read(self, places: Places) -> Iterator[tuple[str, bytes | None, bytes | None]]:
        """Topic, key and value of what was written since; ``places`` are moved behind it."""


@dataclass(slots=True, kw_only=True)
class IncidentWatch:
    """The finder of a run; ``tick`` is called every few seconds. ``context`` returns that of the present query.

    ``store`` keeps the state in the checkpoint. ``publish`` raises when the broker has not taken a row;
    ``clock`` is the brokers' time. ``rebuild`` is told of groups whose state was damaged.
    """

    messages: Messages
    progress: Progress
    context: Callable[[], Context]
    publish: Callable[[str, OutputRow], object]
    clock: Callable[[], int]
    store: FinderStore
    rebuild: StateRebuild | None = None
    _state: _Reading | None = field(default=None, init=False)
    _stored_ms: int = field(default=0, init=False)

    def background(self) -> Background:
        """The thread that calls ``tick``."""
        return Background(
            name="incidents",
            tick=self.tick,
            pause_seconds=_TICK_SECONDS,
            retry_seconds=_RETRY_SECONDS,
            failing="incidents across groups are not looked for now",
        )

    def tick(self) -> None:
        """Reads what is new, and publishes what has opened and what is over."""
        # Before the topics are read: what belongs to this time is in them.
        caught_up_ms = self.progress.caught_up_ms
        if caught_up_ms is None:
            return
        state, self._state = self._state or self._loaded(), None
        state.finder.runbook = self.context().policy.runbook
        state.finder.take(list(self._items(state)))
        late_ms = max(_LEAST_LATE_MS, int(_TRIGGERS * 1_000 * self.progress.identity.trigger_seconds))
        events = state.finder.advance(caught_up_ms - late_ms)
        now_ms = self.clock()
        for event in events:
            self.publish(self.messages.topics.events, event_row(event, self.context(), now_ms))
        if events or abs(now_ms - self._stored_ms) >= _STORE_MS:
            self.store.note_incidents(state.stored())
            self._stored_ms = now_ms
        # After a failure everything is read again from the stored state.
        self._state = state
        if self.rebuild is not None:
            self.rebuild.tick()

    def _note_damage(self, body: Mapping[str, Any]) -> None:
        group_id = body.get("data", {}).get("group_id")
        if self.rebuild is not None and body.get("type") == _STATE_DAMAGED and isinstance(group_id, str):
            self.rebuild.note(group_id)

    def _loaded(self) -> _Reading:
        stored = self.store.incidents()
        finder = None if stored is None else IncidentFinder.from_snapshot(stored.finder)
        own_since_ms = self.context().own_since_ms
        if stored is not None and finder is not None:
            # That of a watch has read none of the topics.
            read_to = stored.read_to or self.messages.begin(own_since_ms)
            return _Reading(finder, {topic: dict(at) for topic, at in read_to.items()}, stored.round_ms)
        return _Reading(IncidentFinder(), self.messages.begin(max(self.clock() - _BACK_MS, own_since_ms)))

    def _items(self, state: _Reading) -> Iterator[Item]:
        cluster_id = self.context().cluster_id
        for topic, key, value in self.messages.read(state.read_to):
            if topic == self.messages.topics.probes:
                message = decode_message(key, value)
                if isinstance(message, RoundSummary) and message.cluster_id == cluster_id:
                    earliest_ms, state.round_ms = state.round_ms, message.taken_ms
                    yield from round_items(message, earliest_ms)
            elif (body := body_of(value)) is not None:
                is_event = topic == self.messages.topics.events
                about = body.get("data", {}) if is_event else body
                if about.get("cluster_id") == cluster_id:
                    self._note_damage(body)
                    yield from event_items(body) if is_event else document_items(body)


@dataclass(frozen=True, slots=True)
class WrittenTopics:
    """``Messages`` on a cluster. Not thread-safe."""

    cluster: Cluster
    topics: TopicNames
    connection: Connection

    @classmethod
    def of(cls, cluster: Cluster, topics: TopicNames) -> WrittenTopics:
        """With a connection of its own, because it is read in another thread."""
        return cls(cluster, topics, Connection(cluster))

    def watch(
        self,
        progress: Progress,
        context: Callable[[], Context],
        clock: Callable[[], int],
        store: FinderStore,
        rebuild: StateRebuild | None = None,
    ) -> IncidentWatch:
        """The watch that reads these messages and writes to the same cluster."""
        return IncidentWatch(
            messages=self,
            progress=progress,
            context=context,
            publish=Publisher(self.cluster).publish_row,
            clock=clock,
            store=store,
            rebuild=rebuild,
        )

    def begin(self, since_ms: int) -> Places:
        """See ``Messages``."""
        places: Places = {}
        for topic in (self.topics.events, self.topics.probes):
            count = self.connection.topic_id(topic)[1]
            ends = self.connection.end_offsets(topic, count)
            places[topic] = starts_since(self.connection, topic, ends, since_ms)
        return {**places, self.topics.states: {}}

    def read(self, places: Places) -> Iterator[tuple[str, bytes | None, bytes | None]]:
        """See ``Messages``."""
        for topic, read_to in places.items():
            count = self.connection.topic_id(topic)[1]
            ends = self.connection.end_offsets(topic, count)
            first = self.connection.first_offsets(topic, count)
            starts = starts_within(read_to, first, ends)
            for batch in read_messages(self.connection, topic, starts, ends):
                for key, value in keys_and_values(batch):
                    yield topic, key, value
            places[topic] = ends


def round_items(message: RoundSummary, earliest_ms: int | None) -> Iterator[Item]:
    """Who leads which partition in a round; the one before was at ``earliest_ms``."""
    for partition, broker in sorted(message.leaders.items()):
        yield LeaderSeen(
            at_ms=message.taken_ms,
            earliest_ms=message.taken_ms if earliest_ms is None else earliest_ms,
            partition=partition,
            broker=broker,
            error=message.brokers.get(broker, "not in the cluster"),
        )


def body_of(value: bytes | None) -> dict[str, Any] | None:
    """The JSON object of a message; None for a tombstone, or what others have written."""
    body = OBJECTS.decode(value)
    return body if body is not None and isinstance(body.get("data", {}), dict) else None
