"""Expressions that brokers resolve, and the hash of topics as Kafka computes it."""

from __future__ import annotations

import pytest

from groupreplay.coordinator.consumer.subscriptions import group_hash, resolve, topic_hash, xxh3
from groupreplay.coordinator.requests import Error, Refused
from support.model.consumer_clients import TOPIC_IDS, ConsumerClients

T, U, W = TOPIC_IDS["t"], TOPIC_IDS["u"], bytes(range(3, 19))


def entering(clients: ConsumerClients, member_id: str, expression: str) -> Error:
    """A member joins that subscribes with an expression only; the error of the answer."""
    clients.believed.pop(member_id, None)
    return clients.beat(
        member_id, topics=(), topic_regex=expression, owned=frozenset(), rebalance_timeout_ms=30_000
    ).error


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
