"""Topics known by id in one generation and by name in another: counts are right, or unknown."""

from __future__ import annotations

from dataclasses import replace

from groupreplay.codecs import consumer
from groupreplay.state.events.group_events import RebalanceCompleted
from support.histories.builders import CONTEXT, GROUP, Raw, asked_for, facts, generation, gone, member, replay
from support.histories.modern_builders import (
    TOPIC,
    TOPIC_ID,
    UNRELEASED,
    current,
    described,
    first_join,
    group_epoch,
    left,
    operation,
    target,
    target_epoch,
)


def told_name(at: int) -> list[Raw]:
    """The record of brokers up to 4.0 that has both."""
    topic = consumer.TopicMetadata(topic_id=TOPIC_ID, topic_name="t", num_partitions=2, partition_metadata=())
    value = consumer.ConsumerGroupPartitionMetadataValue(version=0, topics=(topic,))
    return operation(at, Raw(consumer.ConsumerGroupPartitionMetadataKey(group=GROUP), value))


def two_rounds_later(names_at: int | None) -> list[RebalanceCompleted]:
    """A had both partitions and left, B got one, later the other; in between the name of the topic became known."""
    history = first_join("a")
    history += operation(2_000, described("b"), group_epoch(3), target_epoch(3), current("b", 3))
    history += operation(3_000, left("a"), group_epoch(4))
    history += operation(3_100, target("b", [0]), target_epoch(4), current("b", 4, [0]))
    history += operation(5_000, group_epoch(5, metadata_hash=8))
    history += operation(5_100, target("b", [0, 1]), target_epoch(5), current("b", 5, [0, 1]))
    if names_at is not None:
        history = sorted([*history, *told_name(names_at)], key=lambda raw: raw.at)
    _, events = replay(history)
    return [fact for fact in facts(events) if isinstance(fact, RebalanceCompleted)][-2:]


def test_a_topic_that_gets_its_name_between_two_rounds() -> None:
    """B gets by name the partition that A had by topic id: it moved, as if the name had always been known."""
    for names_at in (None, 1_500, 4_000, 5_050):
        counts = [(fact.partitions_moved, fact.partitions_unassigned) for fact in two_rounds_later(names_at)]
        assert counts == [(1, 1), (1, 0)], names_at


def test_a_topic_by_id_that_nobody_holds_any_more() -> None:
    """Without its name it is unknown whether a partition needs an owner: no member subscribes to an id."""
    history = first_join("a")
    history += operation(
        5_000, described("b", topics=["u"]), group_epoch(3), target_epoch(3), current("b", 3)
    )
    history += operation(6_000, left("a"), group_epoch(4), target_epoch(4), current("b", 4))
    for topic_names, unassigned in (({}, None), ({TOPIC: "t"}, 0), ({TOPIC: "u"}, 2)):
        _, events = replay(history, replace(CONTEXT, topic_names=topic_names))
        assert facts(events)[-1].partitions_unassigned == unassigned


def test_an_upgrade_with_topics_by_id() -> None:
    """Members of a classic group own topics by name: without the names the moves are unknown."""
    history = [
        asked_for(at=10),
        generation(1, member("a", [0, 1]), at=20),
        *operation(
            5_000,
            gone(),
            described("a", classic=True),
            group_epoch(1),
            target("a", [0, 1]),
            target_epoch(1),
            current("a", 1, [0, 1], previous=1),
            described("b"),
            group_epoch(2),
            target("a", [0]),
            target("b", [1]),
            target_epoch(2),
            current("b", 2, state=UNRELEASED),
        ),
        *operation(6_000, current("a", 2, [0])),
        *operation(6_100, current("b", 2, [1])),
    ]
    for topic_names, counts in (({}, (None, None)), ({TOPIC: "t"}, (1, 0))):
        _, events = replay(history, replace(CONTEXT, topic_names=topic_names))
        completed = facts(events)[-1]
        assert (completed.partitions_moved, completed.partitions_unassigned) == counts
