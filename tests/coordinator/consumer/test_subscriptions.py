"""Expressions that brokers resolve, and the hash of topics as Kafka computes it."""

from __future__ import annotations

import pytest

from groupreplay.codecs.consumer import ConsumerGroupRegularExpressionValue
from groupreplay.coordinator.consumer.consumer_group import Topic
from groupreplay.coordinator.consumer.subscriptions import group_hash, resolve, topic_hash, xxh3
from groupreplay.coordinator.requests import Error, Refused, Settings
from support.model.consumer_clients import TOPIC_IDS, ConsumerClients

T, U, W = TOPIC_IDS["t"], TOPIC_IDS["u"], bytes(range(3, 19))


def entering(clients: ConsumerClients, member_id: str, expression: str) -> Error:
    """A member joins that subscribes with an expression only; the error of the answer."""
    clients.believed.pop(member_id, None)
    return clients.beat(
        member_id, topics=(), topic_regex=expression, owned=frozenset(), rebalance_timeout_ms=30_000
    ).error


def kinds(clients: ConsumerClients, since: int) -> list[tuple[int, bool]]:
    """Types of records from this position on, and whether they have a value."""
    return [(kind, has_value) for kind, _, has_value in clients.written(since)]


def test_topics_are_found_after_the_request() -> None:
    """The first operation has no assignment; the second one has the topics and a new group epoch."""
    clients = ConsumerClients()
    assert entering(clients, "a", "[tx]") is Error.NONE
    # A first member without topics raises no epoch; the record of the expression does.
    assert kinds(clients, 0) == [(5, True), (8, True), (16, True), (3, True)]
    found = clients.log[2].value
    assert isinstance(found, ConsumerGroupRegularExpressionValue)
    assert (found.topics, found.timestamp_ms) == (("t",), clients.now)
    clients.settle_all()
    assert clients.believed["a"].owned == {(T, 0), (T, 1), (T, 2)}


def test_a_resolved_expression_counts_at_once() -> None:
    """For a second member with the same one, and for one that goes back to topics only."""
    clients = ConsumerClients(Settings(consumer_assignment_interval_ms=0))
    entering(clients, "a", "t")
    clients.settle_all()
    epoch = clients.consumers.epoch
    entering(clients, "b", "t")
    assert clients.consumers.epoch == epoch + 1
    before = len(clients.log)
    clients.beat("b", topic_regex="")
    assert kinds(clients, before)[:2] == [(5, True), (3, True)]
    assert "t" in clients.consumers.regexes


def test_the_last_member_takes_its_expression_with_it() -> None:
    """Its topics no longer count, for the hash as for the expiry of offsets."""
    clients = ConsumerClients()
    clients.enter("n", "u")
    entering(clients, "a", "t")
    clients.settle_all()
    assert clients.consumers.is_subscribed("t")
    before = len(clients.log)
    clients.depart("a")
    assert kinds(clients, before) == [(8, False), (7, False), (5, False), (16, False), (3, True)]
    assert not clients.consumers.is_subscribed("t")


def test_expressions_are_resolved_again_for_a_new_topic_and_after_a_while() -> None:
    """At most every ten seconds; unchanged topics raise no epoch."""
    clients = ConsumerClients(Settings(consumer_regex_refresh_interval_ms=60_000))
    entering(clients, "a", "[tw]")
    clients.settle_all()
    begun, epoch = clients.log[2].at, clients.consumers.epoch
    clients.topics["w"] = Topic(W, 1)
    clients.coordinator.topics_version += 1
    clients.wait(2_000)
    clients.beat("a")
    assert clients.consumers.regexes["[tw]"].topics == {"t"}
    clients.wait(begun + 10_001 - clients.now)
    clients.beat("a")
    assert clients.consumers.regexes["[tw]"].topics == {"t", "w"}
    assert clients.consumers.epoch == epoch + 1
    before = len(clients.log)
    for _ in range(3):
        clients.wait(25_000)
        clients.beat("a")
    assert kinds(clients, before).count((16, True)) == 1
    assert clients.consumers.epoch == epoch + 1


@pytest.mark.parametrize("expression", ["(t", "t(?=u)", "(?<!a)t", r"(t)\1", "(?P=name)"])
def test_expressions_that_are_not_valid(expression: str) -> None:
    """They leave no member and no group, like those that only Python knows."""
    clients = ConsumerClients()
    assert entering(clients, "a", expression) is Error.INVALID_REGULAR_EXPRESSION
    assert (clients.log, clients.coordinator.group) == ([], None)
    with pytest.raises(Refused):
        resolve(expression, ("t",))


def test_an_expression_matches_whole_names() -> None:
    """Not a part of them."""
    assert resolve("t|u.", ("t", "tt", "u", "uv", "xuv")) == {"t", "uv"}


@pytest.mark.parametrize(
    ("size", "digest"),
    [
        (0, 0x2D06800538D394C2),
        (3, 0x5F4299FC161C9CBB),
        (8, 0x3A1C2D7C85AF88F8),
        (16, 0x8355E3A6F61770DB),
        (17, 0x9EF341A99DE37328),
        (128, 0x85C6174C7FF4C46B),
        (129, 0xEC7642B431BA3E5A),
        (240, 0x375A384D957FE865),
        (241, 0x02E8CD95421C6D02),
        (1025, 0xE95C42288F28186E),
    ],
)
def test_lengths_at_both_ends_of_each_branch(size: int, digest: int) -> None:
    """Each range of lengths is hashed in another way; 1 024 bytes are a block."""
    assert xxh3(bytes(number % 251 for number in range(size))) == digest


ID = bytes.fromhex("5fb5e4d644754d5e0f0be29484f78c53")


def test_as_kafka_does() -> None:
    """Of a topic with and without racks, and of two topics in any order."""
    plain = topic_hash("orders", ID, 3)
    assert plain == 345405662955656706
    for first in (("a", "b"), ("b", "a")):
        assert topic_hash("orders", ID, 3, (first, (), ("c",))) == -7460526000339315167
    assert group_hash([("orders", plain)]) == 8842893773370774523
    assert (
        group_hash([("u", 5), ("orders", plain)])
        == group_hash([("orders", plain), ("u", 5)])
        == -7812107557304328776
    )
    assert group_hash([]) == 0
