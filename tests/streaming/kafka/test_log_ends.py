"""The ends of partitions by requests: which topics and partitions, what is asked for again, and what is left out."""

from __future__ import annotations

from typing import cast

from confluent_kafka import KafkaError

from groupreplay.streaming.contract.partition_ends import PartitionEnds
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.log_ends import (
    ReadableTopics,
    RepeatedEnds,
    TopicLayout,
    read_ends,
    readable_topics,
)
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


def cluster() -> AnsweredEnds:
    """Two topics, one of them Kafka's own."""
    return AnsweredEnds({("t", 0): FIVE, ("t", 1): FIVE, ("__own", 0): FIVE}, internal={"__own"})


def test_a_known_topic_is_described_once_in_ten_rounds() -> None:
    """Kafka's own too, which is never among the answers."""
    brokers = cluster()
    asker = RepeatedEnds(cast(Connection, brokers))
    rounds = [asker.topics() for _ in range(11)]
    assert rounds == [ReadableTopics({"t": TopicLayout("0", (0, 1))})] * 11
    assert brokers.described == [["__own", "t"], ["__own", "t"]]


def test_a_leader_that_is_gone_needs_no_description() -> None:
    """The metadata have it."""
    brokers = cluster()
    asker = RepeatedEnds(cast(Connection, brokers))
    asker.topics()
    brokers.leaderless = {("t", 1)}
    assert asker.topics() == ReadableTopics({"t": TopicLayout("0", (0,), (1,))})
    assert len(brokers.described) == 1


def test_what_is_new_or_in_doubt_is_described() -> None:
    """A new topic, one with another number of partitions, and one that is named; one that is deleted is gone."""
    brokers = cluster()
    asker = RepeatedEnds(cast(Connection, brokers))
    asker.topics()
    brokers.ends = {**brokers.ends, ("new", 0): FIVE, ("t", 2): FIVE}
    assert asker.topics() == ReadableTopics({"new": TopicLayout("0", (0,)), "t": TopicLayout("0", (0, 1, 2))})
    assert asker.topics({"t"}).layouts.keys() == {"new", "t"}
    brokers.ends = {("t", 0): FIVE, ("t", 1): FIVE, ("t", 2): FIVE}
    assert asker.topics().layouts.keys() == {"t"}
    assert brokers.described == [["__own", "t"], ["new", "t"], ["t"]]


def test_a_topic_that_refuses_is_asked_again() -> None:
    """In each round, until it answers."""
    brokers = cluster()
    brokers.errors = {"t": 29}
    asker = RepeatedEnds(cast(Connection, brokers))
    assert (asker.topics().refused.keys(), asker.topics().refused.keys()) == ({"t"}, {"t"})
    brokers.errors = {}
    assert asker.topics() == ReadableTopics({"t": TopicLayout("0", (0, 1))})
    assert brokers.described == [["__own", "t"], ["t"], ["t"]]


def test_ends() -> None:
    """Both ends by one call each; where one partition fails the call, the others are asked for one by one."""
    brokers = cluster()
    asker = RepeatedEnds(cast(Connection, brokers))
    places = [("t", 0), ("t", 1)]
    known = dict.fromkeys(places, 1)
    assert asker.ends(places, known) == dict.fromkeys(places, FIVE)
    assert brokers.asked == [places, places]
    brokers.silent = {("t", 1)}
    assert asker.ends(places, known) == {("t", 0): FIVE}
