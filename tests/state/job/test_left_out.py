"""Values that cannot be, counted: what the state leaves out of a record, in each kind of record."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from groupreplay.codecs import (
    REGISTRY,
    Assignment,
    ConnectAssignment,
    ConnectMetadata,
    ConnectorTasks,
    GroupMetadataValue,
    Subscription,
    TopicPartitions,
    encode_blob,
)
from groupreplay.codecs.composites import Array, Nested
from groupreplay.codecs.schema import wires
from groupreplay.state.job.left_out import LeftOut, left_out
from groupreplay.state.snapshot.members import read_members
from groupreplay.state.snapshot.partitions import MOST_PARTITIONS
from support.histories.builders import generation, member
from support.histories.record_samples import random_message, random_value

NO_TEXT = "t\udcff"


def of_consumer(*topics: TopicPartitions, subscribed: tuple[str, ...] = ("t",)) -> GroupMetadataValue:
    """A record with one consumer, its assignment and subscription."""
    return with_blobs(
        "consumer",
        encode_blob(Subscription(version=0, topics=subscribed)),
        encode_blob(Assignment(version=1, assigned_partitions=topics)),
    )


def with_blobs(protocol_type: str, subscription: bytes, assignment: bytes) -> GroupMetadataValue:
    """A record with one member that has these blobs."""
    value = generation(1, member("a", [0]), at=1).value
    assert isinstance(value, GroupMetadataValue)
    one = replace(value.members[0], subscription=subscription, assignment=assignment)
    return replace(value, protocol_type=protocol_type, members=(one,))


def topic(name: str, *partitions: int) -> TopicPartitions:
    """Partitions of one topic."""
    return TopicPartitions(topic=name, partitions=partitions)


def test_an_ordinary_record_has_nothing_to_leave_out() -> None:
    """Partitions above 127 and names with bytes above 127 are values like others."""
    assert left_out(of_consumer(topic("t", 0, 1, 130, 2**31 - 1), topic("ü", 5))) is None


def test_partitions_of_a_classic_member() -> None:
    """Below zero and no text: the field, the numbers, and the state without them."""
    value = of_consumer(topic("t", -1, 3, -(2**31)), topic(NO_TEXT, 4), subscribed=("t", NO_TEXT))
    assert left_out(value) == LeftOut(
        "members[0].subscription", "left out: 2 names that are not UTF-8, 2 partitions below zero"
    )
    (one,) = read_members(value)
    assert (one.topics, one.partitions) == (("t",), {"t": "3"})


def test_more_partitions_than_any_topic_has() -> None:
    """The lowest are kept; repeats do not count."""
    value = of_consumer(topic("t", *range(MOST_PARTITIONS + 7), 0, 0))
    assert left_out(value) == LeftOut(
        "members[0].assignment", f"left out: 7 partitions beyond {MOST_PARTITIONS} of one topic"
    )
    (one,) = read_members(value)
    assert one.partitions == {"t": f"0-{MOST_PARTITIONS - 1}"}


def test_a_connect_worker() -> None:
    """Tasks below -1, which is the connector itself, and names that are no text, in all three lists."""
    tasks = (ConnectorTasks(connector="c", tasks=(-1, 0, -5)), ConnectorTasks(connector=NO_TEXT, tasks=(1,)))
    assignment = encode_blob(
        ConnectAssignment(version=0, error=0, leader="l", leader_url="u", config_offset=1, assigned=tasks)
    )
    worker = ConnectMetadata(version=1, url=NO_TEXT, config_offset=1, allocation=assignment)
    value = with_blobs("connect", encode_blob(worker), assignment)
    assert left_out(value) == LeftOut(
        "members[0].subscription", "left out: 3 names that are not UTF-8, 2 tasks below -1"
    )
    (one,) = read_members(value)
    assert one.worker is not None
    assert (one.worker.url, one.worker.connectors, one.worker.tasks) == ("", ("c",), {"c": "0"})


def lists_of_partitions() -> list[Any]:
    """Every field of every declared value that is a list of something with a list of partitions."""
    return [
        (value, one)
        for _, value in REGISTRY.values()
        for one in wires(value)
        if isinstance(one.type, Array)
        and isinstance(one.type.element, Nested)
        and any(inner.name == "partitions" for inner in wires(one.type.element.message))
    ]


@pytest.mark.parametrize(("kind", "field"), lists_of_partitions())
def test_every_list_of_partitions_in_a_record(kind: Any, field: Any) -> None:
    """Each is found by its declaration: a new record type is counted as well."""
    value = random_value(Random(1), kind, 0, early=field.until is not None)
    value = replace(value, **{one.name: () for of, one in lists_of_partitions() if of is kind})
    element = random_message(Random(1), field.type.element.message, 0)
    value = replace(value, **{field.name: (replace(element, partitions=(-1, 0, -2)),)})
    assert left_out(value) == LeftOut(field.name, "left out: 2 partitions below zero")
