"""The order of Java's and Kafka's hash tables."""

from __future__ import annotations

from copy import copy

import pytest

from groupreplay.codecs.kafka_terms import java_hash
from groupreplay.coordinator.java_maps import (
    HashOrder,
    TimelineMap,
    buckets_for,
    scala_map_order,
    scala_trie_order,
    uuid_hash,
)


def test_a_bucket_has_its_keys_in_the_order_of_insertion() -> None:
    """``n00`` and ``n11`` share one; ``compute`` inserts at its beginning."""
    assert list(HashOrder(java_hash, ("n11", "n00"))) == ["n11", "n00"]
    assert list(HashOrder(java_hash, ("n00", "n11"))) == ["n00", "n11"]
    computed = HashOrder(java_hash, ("n00",))
    computed.compute("n11")
    computed.compute("n11")
    assert list(computed) == ["n11", "n00"]


def test_it_does_not_shrink() -> None:
    """With twelve keys it has 16 buckets, with one more 32, and these stay."""
    keys = HashOrder(int, range(12, 24))
    assert list(keys) == [16, 17, 18, 19, 20, 21, 22, 23, 12, 13, 14, 15]
    keys.add(24)
    assert list(keys) == list(range(12, 25))
    keys.discard(24)
    assert list(keys) == list(range(12, 24))


def test_computing_grows_later_than_putting() -> None:
    """A copy of a map with one key has two buckets; the second key does not make it grow when it is computed."""
    put, computed = (HashOrder(int, (2,), buckets=buckets_for(1)) for _ in range(2))
    put.add(1)
    computed.compute(1)
    assert (list(put), list(computed)) == ([1, 2], [2, 1])
    put.add(4)
    computed.compute(4)
    assert (list(put), list(computed)) == ([4, 1, 2], [4, 1, 2])


@pytest.mark.parametrize(("size", "buckets"), [(0, 16), (1, 2), (2, 4), (3, 8), (6, 16), (12, 32)])
def test_a_copy_has_as_many_buckets_as_it_needs(size: int, buckets: int) -> None:
    """Or as twice as many, as in Java 17. The default is for an empty map only."""
    assert buckets_for(size) == buckets


@pytest.mark.parametrize(
    ("size", "buckets"), [(0, 16), (1, 2), (2, 4), (3, 4), (4, 8), (6, 8), (7, 16), (12, 16)]
)
def test_later_releases_of_java_need_fewer_buckets(size: int, buckets: int) -> None:
    """Since Java 19 three keys fit into four buckets."""
    assert buckets_for(size, java_release=21) == buckets


def test_members_of_a_consumer_group_are_in_the_order_of_kafkas_own_table() -> None:
    """As Kafka 4.3.1 iterates over a ``TimelineHashMap``: a slot begins with its last key."""
    table: TimelineMap[int] = TimelineMap()
    for number, name in enumerate(("n00", "n11", "n20", "n31")):
        table[name] = number
    assert list(table.items()) == [("n11", 1), ("n00", 0), ("n31", 3), ("n20", 2)]
    del table["n11"]
    assert ("n11" in table, len(table), table.get("n31")) == (False, 3, 3)
    with pytest.raises(KeyError):
        del table["n11"]


def test_an_update_makes_the_table_grow_too() -> None:
    """Of two members in two slots: each record of a member that is there counts as a new one."""
    table: TimelineMap[int] = TimelineMap()
    for name in ("n00", "n02"):
        table[name] = 1
    assert list(table) == ["n02", "n00"]
    table["n00"] = 2
    assert list(table) == ["n00", "n02"]


def test_the_hash_of_an_id() -> None:
    """Of a random one, and of one whose halves are equal."""
    assert uuid_hash(bytes.fromhex("5fb5e4d644754d5e0f0be29484f78c53")) == 2419902287
    assert uuid_hash(b"\7" * 16) == 0


def test_a_table_that_goes_back_to_a_snapshot_keeps_its_size_and_puts_anew_what_was_changed() -> None:
    """So the order is another one than before, as of Kafka's tables after an append that failed."""
    table: TimelineMap[int] = TimelineMap()
    for number, name in enumerate(("n02", "n20")):
        table[name] = number
    before = copy(table)
    assert list(table) == ["n20", "n02"]
    table["n02"] = 7
    table["n00"] = 2
    assert table.reverted(before) is table
    assert dict(table) == {"n02": 0, "n20": 1}
    assert (list(table), list(before)) == (["n02", "n20"], ["n20", "n02"])
    assert (len(table._slots), len(before._slots)) == (4, 2)
    again = copy(table)
    del table["n20"]
    assert list(table.reverted(again)) == ["n20", "n02"]


def test_a_table_that_is_not_that_of_the_snapshot_is_given_up() -> None:
    """A group that was made anew in the operation."""
    table: TimelineMap[int] = TimelineMap()
    before = copy(table)
    other: TimelineMap[int] = TimelineMap()
    other["n00"] = 1
    assert other.reverted(before) is before


def test_the_order_of_scalas_maps() -> None:
    """As Scala 2.13 iterates over them: a mutable one of members, an immutable one of votes."""
    names = ["cooperative-sticky", "range", "roundrobin", "sticky", "a", "b", "n00", "n11"]
    assert scala_map_order(names) == [
        "a",
        "b",
        "sticky",
        "range",
        "roundrobin",
        "n00",
        "n11",
        "cooperative-sticky",
    ]
    assert scala_trie_order(names) == [
        "cooperative-sticky",
        "n11",
        "roundrobin",
        "a",
        "b",
        "n00",
        "range",
        "sticky",
    ]
