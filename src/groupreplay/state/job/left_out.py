"""What the state leaves out of a record: values that cannot be, in a record whose other fields hold.

Brokers store what a client sends, so that a client can assign itself partitions below zero. The rules are those of
``state.snapshot`` (``to_ranges``, ``read_members``); this module counts what they leave out, for the report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias

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
from groupreplay.state.snapshot.connect import CONNECT_PROTOCOL_TYPE
from groupreplay.state.snapshot.partitions import MOST_PARTITIONS

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
    found = [(field, counts) for field, counts in fields if counts]
    if not found:
        return None
    total = sum((counts for _, counts in found), Counter[str]())
    what = ", ".join(f"{count} {kind}" for kind, count in sorted(total.items()))
    return LeftOut(found[0][0], f"left out: {what}")


def _of_classic(value: GroupMetadataValue) -> Iterator[tuple[str, _Found]]:
    for number, member in enumerate(value.members):
        if value.protocol_type == CONSUMER_PROTOCOL_TYPE:
            yield f"members[{number}].subscription", _of_subscription(member.subscription)
            yield f"members[{number}].assignment", _of_assignment(member.assignment)
        elif value.protocol_type == CONNECT_PROTOCOL_TYPE:
            yield f"members[{number}].subscription", _of_worker(member.subscription)
            yield f"members[{number}].assignment", _of_tasks(member.assignment)


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
    return _names(one.topic for one in topics) + _numbers(one.partitions for one in topics)


def _of_worker(blob: bytes) -> _Found:
    metadata = decode_blob(ConnectMetadata, blob)
    if isinstance(metadata, Malformed):
        return Counter()
    return _names([metadata.url]) + (_of_tasks(metadata.allocation) if metadata.allocation else Counter())


def _of_tasks(blob: bytes) -> _Found:
    assignment = decode_blob(ConnectAssignment, blob)
    if isinstance(assignment, Malformed):
        return Counter()
    found = _names(one.connector for one in assignment.assigned or ())
    found[_NO_TASK] = sum(task < -1 for one in assignment.assigned or () for task in one.tasks)
    return +found


def _of_lists(value: Value) -> Iterator[tuple[str, _Found]]:
    kind: Any = type(value)
    for field in _lists_of_partitions(kind):
        yield field, _numbers(one.partitions for one in getattr(value, field) or ())


@cache
def _lists_of_partitions(value: Any) -> tuple[str, ...]:
    """The fields of a kind of value that hold partitions, by its declaration."""
    return tuple(
        one.name
        for one in wires(value)
        if isinstance(one.type, Array)
        and isinstance(one.type.element, Nested)
        and _has_partitions(one.type.element.message)
    )


def _has_partitions(message: Any) -> bool:
    return any(one.name == "partitions" and isinstance(one.type, Array) for one in wires(message))


def _names(names: Iterable[str]) -> _Found:
    return +Counter({_NO_TEXT: sum(not is_text(name) for name in names)})


def _numbers(topics: Iterable[Sequence[int]]) -> _Found:
    found = Counter[str]()
    for partitions in topics:
        if partitions and min(partitions) < 0:
            found[_BELOW_ZERO] += sum(partition < 0 for partition in partitions)
        if len(partitions) > MOST_PARTITIONS:
            possible = len({partition for partition in partitions if partition >= 0})
            found[_TOO_MANY] += max(0, possible - MOST_PARTITIONS)
    return +found
