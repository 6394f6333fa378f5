"""Which partition holds a group; the expected numbers were printed by Java."""

from __future__ import annotations

import pytest

from groupreplay.codecs.kafka_terms import given_ms, hash_map_order, java_hash, partition_for


@pytest.mark.parametrize(
    ("group", "hashed", "of_50", "of_7"),
    [
        ("my-group", -1906497762, 12, 1),
        ("console-consumer-12345", 158455506, 6, 6),
        ("connect-cluster", 1440343063, 13, 5),
        ("polygenelubricants", -2147483648, 0, 0),
        ("grüße", 98768023, 23, 4),
        ("\U0001d4a2roup", 378158629, 29, 2),
        ("日本", 835047, 47, 3),
        ("a", 97, 47, 6),
        ("", 0, 0, 0),
    ],
)
def test_as_java_does(group: str, hashed: int, of_50: int, of_7: int) -> None:
    """The hash over UTF-16 units, and the true absolute value of it, with int min as 0."""
    assert (java_hash(group), partition_for(group), partition_for(group, 7)) == (hashed, of_50, of_7)


def test_a_public_example() -> None:
    """`testgroup` is on partition 27 of 50 in many public threads."""
    assert partition_for("testgroup") == 27


def test_keys_come_in_the_order_of_a_hash_map() -> None:
    """Small ones have 16 places, and twice as many for more than twelve keys; both orders were printed by Java."""
    words = ["apple", "banana", "cherry", "m1-1000", "m2-1000", "AAAAAAAAAAAAAAAAAAAAAA", "zz", "client-7"]
    in_order = "banana zz client-7 apple cherry AAAAAAAAAAAAAAAAAAAAAA m1-1000 m2-1000"
    assert hash_map_order(words) == in_order.split()
    places = [5, 6, 3, 13, 4, 12, 9, 11, 10, 7, 8, 1, 2, 0]
    assert hash_map_order(f"member-{number}" for number in range(14)) == [f"member-{one}" for one in places]


def test_a_timeout_below_one_is_not_given() -> None:
    """Kafka's own default for that is -1."""
    assert [given_ms(one) for one in (-(2**31), -1, 0, 1, 2**31 - 1)] == [None, None, None, 1, 2**31 - 1]
