"""The ends of partitions by requests: which topics, which partitions, and what is left out."""

from __future__ import annotations

from typing import cast

from confluent_kafka import KafkaError

from groupreplay.streaming.contract.partition_ends import PartitionEnds
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.log_ends import ReadableTopics, TopicLayout, read_ends, readable_topics
from support.kafka.answered_ends import AnsweredEnds

FIVE = PartitionEnds(1, 5, 4, epoch=3)
CLUSTER = AnsweredEnds(
    {("t", 0): FIVE, ("t", 1): FIVE, ("__internal", 0): FIVE},
    leaderless={("t", 2)},
    silent={("t", 1)},
    errors={"deleted": KafkaError.UNKNOWN_TOPIC_OR_PART, "slow": KafkaError._TIMED_OUT},
    internal={"__internal"},
)
CONNECTION = cast(Connection, CLUSTER)


def test_topics() -> None:
    """Kafka's own are left out unless named; one that was deleted meanwhile is none, one that fails is named."""
    t = TopicLayout("0", (0, 1), (2,))
    slow = KafkaError(KafkaError._TIMED_OUT).str()
    assert readable_topics(CONNECTION) == ReadableTopics({"t": t}, {"slow": slow}, frozenset({"__internal"}))
    internal = TopicLayout("0", (0,))
    assert readable_topics(CONNECTION, {"t", "__internal", "deleted"}, internal=True) == ReadableTopics(
        {"t": t, "__internal": internal}, internal=frozenset({"__internal"})
    )


def test_a_partition_without_an_answer_has_no_ends() -> None:
    """The others have theirs, and the client is opened anew: it may have asked a leader of before."""
    assert read_ends(CONNECTION, [("t", 1), ("t", 0)]) == {("t", 0): FIVE}
    assert (CLUSTER.asked[-1], CLUSTER.forgotten) == ([("t", 0), ("t", 1)], 1)
    assert read_ends(CONNECTION, []) == {}


def test_answers_of_different_moments_do_not_contradict_each_other() -> None:
    """Three requests are three moments: the log start and the last stable offset are never behind the end."""
    later = AnsweredEnds({("t", 0): PartitionEnds(9, 5, 7)})
    assert read_ends(cast(Connection, later), [("t", 0)]) == {("t", 0): PartitionEnds(5, 5, 5)}


def test_a_known_log_start_is_not_asked_for() -> None:
    """It is taken as it is."""
    cluster = AnsweredEnds({("t", 0): FIVE, ("t", 1): FIVE})
    ends = read_ends(cast(Connection, cluster), list(cluster.ends), {("t", 0): 3})
    assert ends == {("t", 0): PartitionEnds(3, 5, 4, epoch=3), ("t", 1): FIVE}
    assert cluster.asked == [[("t", 1)]]


def test_many_partitions_are_asked_for_in_several_calls() -> None:
    """The memory of one call stays bounded."""
    many = AnsweredEnds({("t", number): FIVE for number in range(5_001)})
    assert len(read_ends(cast(Connection, many), list(many.ends))) == 5_001
    assert [len(places) for places in many.asked] == [5_000, 1]
