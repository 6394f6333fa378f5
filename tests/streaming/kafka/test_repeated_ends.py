"""Topics and ends asked for again and again: what is asked for anew, and what is known from before."""

from __future__ import annotations

from typing import cast

from groupreplay.streaming.contract.partition_ends import PartitionEnds
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.log_ends import ReadableTopics, TopicLayout
from groupreplay.streaming.kafka.repeated_ends import RepeatedEnds
from support.kafka.answered_ends import AnsweredEnds

FIVE = PartitionEnds(1, 5, 4, epoch=3)


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
