"""The job's topics read back: events once up to the end or as they arrive, and documents and heartbeats beside them.

Readers use assigned partitions only. A reader that joined a group would appear in the events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.log import keys_and_values
from groupreplay.streaming.contract.messages import OBJECTS, Integer, MessageDecoder, Output, OutputRow
from groupreplay.streaming.contract.probe_messages import HeartbeatMessage, decode_message
from groupreplay.streaming.engine.group_choice import GroupChoice
from groupreplay.streaming.engine.replay import EventHead, EventTally, Filter, events_in_order
from groupreplay.streaming.kafka.clients import REQUEST_SECONDS, Connection
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from groupreplay.streaming.kafka.topic_reader import consume, follow_topic, read_messages, starts_since

if TYPE_CHECKING:
    import pyarrow as pa

#: Repeats come from a batch that ran twice: they are near each other.
_REMEMBERED: Final = 200_000
#: The last messages of a partition: some of them may be none of the job's, and the last offset a transaction marker.
_TAIL: Final = 100
#: The clocks of two machines are at work: an event may seem to have been written this long before it happened.
_SKEW_MS: Final = 60_000

Json = dict[str, Any]


class _EventSubject(msgspec.Struct):
    group_id: str | None = None


class _EventFields(EventHead):
    """The fields of a CloudEvent that decide whether it is shown. Times and sequences are sorted as lines of text."""

    time: Annotated[str, msgspec.Meta(pattern=r"^[0-9TZ:.+-]+$")]
    sequence: Annotated[str, msgspec.Meta(pattern=r"^[0-9-]+$")]
    id: str
    data: _EventSubject


class _MemberHead(msgspec.Struct):
    instance_id: str | None = None
    client_id: str | None = None


class _DocumentHead(msgspec.Struct):
    """The fields of a document that the demo shows."""

    state: str = "?"
    member_count: Integer = 0
    group_id: str = ""
    members: list[_MemberHead] = []


class _EventId(msgspec.Struct):
    id: str


_events: Final = MessageDecoder[_EventFields](_EventFields)
_ids: Final = MessageDecoder[_EventId](_EventId)
_documents: Final = MessageDecoder[_DocumentHead](_DocumentHead)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which events are shown: of groups with these ids or that match a glob (without any: of all), and a filter."""

    groups: Sequence[str] = ()
    filter: Filter = field(default_factory=Filter)


class EventChoice:
    """Which events are shown; ``groups`` knows the groups that were named."""

    def __init__(self, wanted: Wanted) -> None:
        self.groups = GroupChoice(wanted.groups)
        self._wanted = wanted

    def __call__(self, event: EventHead) -> bool:
        """Whether an event is shown; events about no group are when no group is asked for."""
        assert isinstance(event, _EventFields)
        group_id = event.data.group_id
        is_chosen = not self._wanted.groups if group_id is None else group_id in self.groups
        return is_chosen and self._wanted.filter(event)

    def shows(self, value: bytes) -> bool:
        """The same for the bytes of an event; False for what is none."""
        event = _event(value)
        return event is not None and self(event)


class Repeats:
    """Hashes of the ids of the latest events, to recognise an event that is written again."""

    def __init__(self) -> None:
        # Python's hash of a text has 64 bits and a key of this process: nobody can choose two ids with the same one.
        self._seen: set[int] = set()
        # A dict would keep the order, but finding its first entry takes longer with every one that was removed.
        self._order: deque[int] = deque()

    def has(self, event_id: str) -> bool:
        """Whether this id was asked for before; remembers it."""
        hashed = hash(event_id)
        if hashed in self._seen:
            return True
        self._seen.add(hashed)
        self._order.append(hashed)
        if len(self._order) > _REMEMBERED:
            self._seen.remove(self._order.popleft())
        return False


class EventTopic:
    """The topic of events on one cluster; read it once. ``unreadable`` counts messages that are no events.

    ``choice`` knows the groups and ``tally`` the events that were read, with repeats.

    Every method raises GroupReplayError when there is no such topic, no broker answers, or the login may not read it.
    """

    def __init__(self, cluster: Cluster, topic: str, wanted: Wanted) -> None:
        self.unreadable = 0
        self._connection = Connection(cluster)
        self._topic = topic
        chosen = EventChoice(wanted)
        self.choice = chosen.groups
        self.tally = EventTally(chosen)
        self._wanted = wanted
        self._repeats = Repeats()

    def read(self, *, follow: bool) -> Iterator[bytes]:
        """The events in the topic, by time; with ``follow`` also new events, until an interrupt.

        ``follow`` without a start time begins with new events.
        """
        connection, topic, partitions = self._connection, self._topic, self._partitions()
        ends = connection.end_offsets(topic, partitions)
        since_ms = self._wanted.filter.since_ms
        if since_ms is not None or not follow:
            starts = (
                connection.first_offsets(topic, partitions)
                if since_ms is None
                else connection.offsets_since(topic, partitions, max(0, since_ms - _SKEW_MS))
            )
            yield from events_in_order(self._rows(read_messages(connection, topic, starts, ends)), Filter())
        if follow:
            rows = self._rows(follow_topic(connection, topic, ends, lambda: False))
            yield from (row.value for row in rows if row.value is not None)

    def identify(self) -> TopicIdentity:
        """The topic as it is now."""
        return self._connection.identify(self._topic)

    def starts(self, read_to: Mapping[int, int]) -> dict[int, int]:
        """Where to go on after these offsets; without any, at the start time, or with new events."""
        connection, topic, partitions = self._connection, self._topic, self._partitions()
        firsts = connection.first_offsets(topic, partitions)
        if read_to:
            return {number: max(first, read_to.get(number, first)) for number, first in firsts.items()}
        since_ms = self._wanted.filter.since_ms
        ends = connection.end_offsets(topic, partitions)
        if since_ms is None:
            return ends
        return starts_since(connection, topic, ends, max(0, since_ms - _SKEW_MS))

    def follow_from(
        self, starts: Mapping[int, int], until: Callable[[], bool]
    ) -> Iterator[tuple[dict[int, int], list[bytes]]]:
        """Offsets behind what was read, and the events in it that are shown; ``until`` is asked all the time."""
        for batch in follow_topic(self._connection, self._topic, starts, until):
            number, last = batch["partition"][-1].as_py(), batch["offset"][-1].as_py()
            yield {number: last + 1}, [row.value for row in self._rows([batch]) if row.value is not None]

    def latest_time(self) -> str | None:
        """The latest time of the last events of each partition; None if there are none."""
        connection, topic, partitions = self._connection, self._topic, self._partitions()
        ends = connection.end_offsets(topic, partitions)
        firsts = connection.first_offsets(topic, partitions)
        starts = {number: max(firsts[number], end - _TAIL) for number, end in ends.items()}
        batches = read_messages(connection, topic, starts, ends)
        values = (value for batch in batches for _, value in keys_and_values(batch) if value is not None)
        return max((event.time for event in map(_event, values) if event is not None), default=None)

    def _partitions(self) -> int:
        try:
            return self._connection.identify(self._topic).partitions
        except GroupReplayError as error:
            if error.exit_code is not ExitCode.DATA:
                raise
            raise GroupReplayError(
                f"there is no topic {self._topic!r}, or this login may not see it",
                where=self._connection.cluster.bootstrap_servers,
                fix="groupreplay run makes it and writes it; --events-topic NAME if it has another name, "
                "--bootstrap-server for the cluster of the job's topics",
                exit_code=ExitCode.DATA,
            ) from None

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[OutputRow]:
        """The events that are shown, each once."""
        for key, value in chain.from_iterable(map(keys_and_values, batches)):
            if value is None:
                continue
            event = _event(value)
            if event is None:
                self.unreadable += 1
            elif self.tally(event) and not self._repeats.has(event.id):
                yield OutputRow(Output.EVENTS, key or b"", value)


def _event(value: bytes) -> _EventFields | None:
    """The fields of an event; None when any part of the value is no JSON, or the job cannot have written it."""
    # The job writes no line ends: JSON with line ends would be several lines of ``-o jsonl``.
    if b"\n" in value or OBJECTS.decode(value) is None:
        return None
    return _events.decode(value)


class SinkReader:
    """The topics of a job as a Kafka client sees them; ``events`` also updates ``documents`` and ``caught_up_ms``.

    ``unreadable`` counts messages that the job has not written. A context manager, for the connection.
    """

    def __init__(self, bootstrap_servers: str, topics: TopicNames | None = None) -> None:
        self.documents: dict[str, Json] = {}
        self.caught_up_ms: int | None = None
        self.unreadable = 0
        self._topics = topics or TopicNames()
        self._repeats = Repeats()
        self._assigned = False
        self._connection = Connection(Cluster(bootstrap_servers=bootstrap_servers))
        self._consumer = self._connection.consumer()

    def __enter__(self) -> SinkReader:
        return self

    def __exit__(self, *error: object) -> None:
        self._consumer.close()

    def find_topics(self) -> bool:
        """Whether the topics exist; the job creates them when it starts."""
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        if not self._assigned:
            topics = self._consumer.list_topics(timeout=REQUEST_SECONDS).topics
            names = (self._topics.events, self._topics.states, self._topics.probes)
            if any(name not in topics or not topics[name].partitions for name in names):
                return False
            places = [(name, number) for name in names for number in topics[name].partitions]
            self._consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
            self._assigned = True
        return True

    def events(self, seconds: float) -> list[Json]:
        """The new events, each once; waits up to this time for messages."""
        events = []
        for message in consume(self._consumer, self._connection, seconds):
            topic, key, value = message.topic(), message.key() or b"", message.value()
            if message.error() is not None:
                continue
            if topic == self._topics.states:
                self._take_document(key.decode("utf-8", "replace"), value)
            elif topic == self._topics.probes:
                self._take_heartbeat(key, value)
            elif value is not None and (event := self._object(value, _ids)) is not None:
                events.append(event)
        return [event for event in events if not self._repeats.has(event["id"])]

    def _take_document(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            self.documents.pop(group_id, None)
        elif (document := self._object(value, _documents)) is not None:
            self.documents[group_id] = document

    def _object(self, value: bytes, fields: MessageDecoder[Any]) -> Json | None:
        """The message as it is, if it has the right fields; else it is counted."""
        event = OBJECTS.decode(value)
        if event is None or fields.decode(value) is None:
            self.unreadable += 1
            return None
        return event

    def _take_heartbeat(self, key: bytes, value: bytes | None) -> None:
        message = decode_message(key, value)
        if message is None:
            self.unreadable += 1
        elif isinstance(message, HeartbeatMessage) and message.caught_up_ms is not None:
            self.caught_up_ms = message.caught_up_ms
