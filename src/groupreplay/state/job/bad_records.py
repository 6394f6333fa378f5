"""Records that could not be read, or not all of it: all are counted, few are reported.

A burst of bad records must not become a burst of events: of each kind and key type, one event is emitted in a minute
of record time, and the next one has the number of those that were not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from groupreplay.codecs import (
    Assignment,
    ConnectAssignment,
    ConnectMetadata,
    GroupMetadataValue,
    Malformed,
    Value,
    decode_assignment,
    decode_blob,
    is_text,
    subscribed_topics,
)
from groupreplay.codecs.composites import Array, Nested
from groupreplay.codecs.kafka_terms import CONSUMER_PROTOCOL_TYPE
from groupreplay.codecs.schema import wires
from groupreplay.state.events.event import Cause, Event
from groupreplay.state.events.group_events import RecordFact, RecordMalformed, RecordSkipped
from groupreplay.state.plausible_times import STEP_MS, UNKNOWN_MS
from groupreplay.state.policy.context import OFFSETS_TOPIC, Context
from groupreplay.state.snapshot.members import CONNECT_PROTOCOL_TYPE, is_small, remembered
from groupreplay.state.snapshot.partitions import MOST_PARTITIONS
from groupreplay.state.stored_form import StoredForm

#: ``partial`` and ``timestamp``: a value in the record cannot be and is left out, or a time that cannot be is replaced.
#: The rest is applied: the record is counted and reported, and is no dead letter. Records of a quarantined group could
#: be read; they only share the form of a dead letter.
Kind = Literal["malformed", "partial", "skipped", "quarantined", "timestamp"]
CORRECTED: Final[tuple[Kind, ...]] = ("partial", "timestamp")

_FACTS: Final[dict[Kind, type[RecordFact]]] = {
    "malformed": RecordMalformed,
    "partial": RecordMalformed,
    "skipped": RecordSkipped,
    "timestamp": RecordMalformed,
}
_INTERVAL_MS: Final = 60_000
#: Key types are 16 bits wide, and whoever may write to the topic chooses them. Types beyond this many share
#: one tally.
_TALLIES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecord:
    """Where a record is and why it could not be used.

    ``group`` is None when the key itself cannot be read. ``byte_position`` counts from the start of the key
    or the value, whichever is at fault. ``read_ms``: where ``timestamp_ms`` cannot be, the time by which the record
    had been read (0: not known). ``others``: further records that are counted with this one, of the kind ``timestamp``:
    those that had been read by the same ``STEP_MS`` of ``seen_ms``.
    """

    partition: int
    offset: int
    timestamp_ms: int
    group: str | None
    kind: Kind
    key_type: int | None
    version: int | None
    field: str | None
    byte_position: int | None
    reason: str
    read_ms: int | None = None
    others: int = 0
    seen_ms: int | None = None

    @property
    def time_ms(self) -> int:
        """When it happened, as far as that is known."""
        return self.timestamp_ms if self.read_ms is None else self.read_ms


class _Tally(msgspec.Struct, array_like=True):
    kind: Kind
    key_type: int | None
    total: int = 0
    suppressed: int = 0
    last_event_ms: int | None = None


class _Snapshot(msgspec.Struct, array_like=True):
    era: str
    applied_to: int
    tallies: list[_Tally]


#: A field that is added to either struct raises ``reader``, unless an earlier release may lose it.
FORM: Final = StoredForm[_Snapshot]("bad records", version=1, reader=1, kind=_Snapshot)


@dataclass(slots=True)
class BadRecords:
    """The bad records of one partition so far.

    ``applied_to`` is the last offset counted, so that a record that is read again is counted once.
    """

    partition: int
    context: Context
    applied_to: int = -1
    changed: bool = False
    _tallies: dict[tuple[Kind, int | None], _Tally] = field(default_factory=dict)

    @classmethod
    def from_snapshot(cls, partition: int, context: Context, blob: bytes) -> BadRecords:
        """The inverse of ``snapshot``.

        Raises:
            SnapshotError: the snapshot was written by another release, or is damaged.
        """
        snapshot = FORM.read(blob)
        tallies = {(tally.kind, tally.key_type): tally for tally in snapshot.tallies}
        # A recreated topic counts its offsets from zero again.
        applied_to = snapshot.applied_to if snapshot.era == context.era else -1
        return cls(partition, context, applied_to, False, tallies)

    def snapshot(self) -> bytes:
        """The state as bytes."""
        return FORM.write(_Snapshot(self.context.era, self.applied_to, list(self._tallies.values())))

    def fresh(self, records: Sequence[BadRecord]) -> list[BadRecord]:
        """The records not counted yet, in the order of the log."""
        return sorted(
            (record for record in records if record.offset > self.applied_to),
            key=lambda record: record.offset,
        )

    def apply(self, records: Sequence[BadRecord]) -> list[Event]:
        """Counts the new ones among the records, and returns the events that may be emitted."""
        events: list[Event] = []
        for record in self.fresh(records):
            # A record can have a wrong time and a value that cannot be: the ids of both events differ.
            ordinal = int(record.offset == self.applied_to)
            self.applied_to = record.offset
            self.changed = True
            tally = self._tally(record)
            tally.total += 1 + record.others
            if record.time_ms < self.context.emit_since_ms:
                continue
            if self._follows_closely(record, tally):
                tally.suppressed += 1 + record.others
                continue
            events.append(_event(record, tally.suppressed, ordinal))
            tally.last_event_ms = record.time_ms if record.seen_ms is None else record.seen_ms
            tally.suppressed = record.others
        return events

    @staticmethod
    def _follows_closely(record: BadRecord, tally: _Tally) -> bool:
        """Whether the last event was less than the interval ago; of records without any time only the first counts."""
        last = tally.last_event_ms
        if last is None:
            return False
        if record.seen_ms is not None:
            # It never goes back in the log, so it does not matter where batches end; a replay has the same steps.
            return record.seen_ms // STEP_MS <= last // STEP_MS
        # The distance, not the difference: one record with a wrong time must not suppress the others.
        return record.read_ms == UNKNOWN_MS or abs(record.time_ms - last) < _INTERVAL_MS

    def counts(self) -> list[dict[str, object]]:
        """How many of each kind and key type there were, ever.

        The key type is null for keys that cannot be read, and for records with wrong times.
        """
        return [
            {"kind": tally.kind, "key_type": tally.key_type, "records": tally.total}
            for tally in self._tallies.values()
        ]

    def _tally(self, record: BadRecord) -> _Tally:
        # A record with a wrong time stands for others of any key type: which one is the first is a matter of batches.
        key = (record.kind, None if record.kind == "timestamp" else record.key_type)
        if key not in self._tallies and len(self._tallies) >= _TALLIES:
            key = (record.kind, None)
        return self._tallies.setdefault(key, _Tally(*key))


def _event(record: BadRecord, suppressed: int, ordinal: int) -> Event:
    fact = _FACTS[record.kind](
        topic=OFFSETS_TOPIC,
        partition=record.partition,
        offset=record.offset,
        key_type=record.key_type,
        version=record.version,
        field=record.field,
        byte_position=record.byte_position,
        reason=record.reason,
        suppressed=suppressed,
    )
    return Event(
        fact=fact,
        group_id=record.group,
        time_ms=record.time_ms,
        cause=Cause(
            topic=OFFSETS_TOPIC,
            partition=record.partition,
            offset=record.offset,
            timestamp_ms=record.time_ms,
        ),
        ordinal=ordinal,
    )


_BELOW_ZERO = "partitions below zero"
_TOO_MANY = f"partitions beyond {MOST_PARTITIONS} of one topic"
_NO_TEXT = "names that are not UTF-8"
_NO_TASK = "tasks below -1"
#: The last field of most assignments: no user data.
_NULL = b"\xff\xff\xff\xff"

#: What was found in one field: kinds with their numbers.
_Found: TypeAlias = Counter[str]


class LeftOut(NamedTuple):
    """The first field with such a value, and in words what all fields together had."""

    field: str
    what: str


def left_out(value: Value) -> LeftOut | None:
    """What the state leaves out of this value; None for nothing, as in nearly all records."""
    fields = _of_classic(value) if isinstance(value, GroupMetadataValue) else _of_lists(value)
    counted = [(field, counts) for field, counts in fields if counts]
    if not counted:
        return None
    total = sum((counts for _, counts in counted), Counter[str]())
    what = ", ".join(f"{count} {kind}" for kind, count in sorted(total.items()))
    return LeftOut(counted[0][0], f"left out: {what}")


def _of_classic(value: GroupMetadataValue) -> Iterator[tuple[str, _Found]]:
    for number, member in enumerate(value.members):
        if value.protocol_type == CONSUMER_PROTOCOL_TYPE:
            if is_small(member) and _is_clean(member.subscription, member.assignment):
                continue
            yield f"members[{number}].subscription", _of_subscription(member.subscription)
            yield f"members[{number}].assignment", _of_assignment(member.assignment)
        elif value.protocol_type == CONNECT_PROTOCOL_TYPE:
            yield f"members[{number}].subscription", _of_worker(member.subscription)
            yield f"members[{number}].assignment", _of_tasks(member.assignment)


@remembered
def _is_clean(subscription: bytes, assignment: bytes) -> bool:
    """Whether nothing is left out of them: most members have the same in the next record."""
    return not (_of_subscription(subscription) or _of_assignment(assignment))


def _of_subscription(blob: bytes) -> _Found:
    topics = subscribed_topics(blob)
    return _names(() if isinstance(topics, Malformed) else topics)


def _of_assignment(blob: bytes) -> _Found:
    # Without a byte above 127 there is neither a number below zero nor a name that is no text.
    if blob.removesuffix(_NULL).isascii() and len(blob) < MOST_PARTITIONS:
        return Counter()
    assignment = decode_assignment(blob)
    if not isinstance(assignment, Assignment):
        return Counter()
    topics = assignment.assigned_partitions
    return _names(topic.topic for topic in topics) + _numbers(topic.partitions for topic in topics)


def _of_worker(blob: bytes) -> _Found:
    metadata = decode_blob(ConnectMetadata, blob)
    if isinstance(metadata, Malformed):
        return Counter()
    return _names([metadata.url]) + (_of_tasks(metadata.allocation) if metadata.allocation else Counter())


def _of_tasks(blob: bytes) -> _Found:
    assignment = decode_blob(ConnectAssignment, blob)
    if isinstance(assignment, Malformed):
        return Counter()
    names = _names(connector.connector for connector in assignment.assigned or ())
    names[_NO_TASK] = sum(task < -1 for connector in assignment.assigned or () for task in connector.tasks)
    return +names


def _of_lists(value: Value) -> Iterator[tuple[str, _Found]]:
    kind: Any = type(value)
    for name in _lists_of_partitions(kind):
        yield name, _numbers(topic.partitions for topic in getattr(value, name) or ())


@cache
def _lists_of_partitions(value: Any) -> tuple[str, ...]:
    """The fields of a kind of value that hold partitions, by its declaration."""
    return tuple(
        wire.name
        for wire in wires(value)
        if isinstance(wire.type, Array)
        and isinstance(wire.type.element, Nested)
        and _has_partitions(wire.type.element.message)
    )


def _has_partitions(message: Any) -> bool:
    return any(wire.name == "partitions" and isinstance(wire.type, Array) for wire in wires(message))


def _names(names: Iterable[str]) -> _Found:
    return +Counter({_NO_TEXT: sum(not is_text(name) for name in names)})


def _numbers(topics: Iterable[Sequence[int]]) -> _Found:
    counts = Counter[str]()
    for partitions in topics:
        if partitions and min(partitions) < 0:
            counts[_BELOW_ZERO] += sum(partition < 0 for partition in partitions)
        if len(partitions) > MOST_PARTITIONS:
            possible = len({partition for partition in partitions if partition >= 0})
            counts[_TOO_MANY] += max(0, possible - MOST_PARTITIONS)
    return +counts
