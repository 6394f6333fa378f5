"""Kafka's hash of a group's topics; the expected numbers are those that Kafka 4.3.1 wrote."""

from __future__ import annotations

from groupreplay.coordinator.consumer.topic_hash import group_hash, topic_hash

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
