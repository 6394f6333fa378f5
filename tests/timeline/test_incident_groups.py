"""What groups have in common is kept once, also after it was stored."""

from __future__ import annotations

import msgspec

from groupreplay.timeline.incident_groups import SharedBy
from groupreplay.timeline.incident_signals import GroupSeen


def seen(group_id: str, *hosts: str, at_ms: int = 0) -> GroupSeen:
    """A group of topic t whose members run on these hosts."""
    shares = frozenset([("topic", "t"), *(("host", host) for host in hosts)])
    return GroupSeen(at_ms=at_ms, group_id=group_id, partition=3, shares=shares)


def test_counts_and_what_was_before() -> None:
    """A host that a group has left still counts once, and not when the group has left another one since."""
    shared = SharedBy()
    for place in (seen("a", "x"), seen("b", "x"), seen("a", "y")):
        shared.see(place)
    assert shared.sharing == {("topic", "t"): 2, ("partition", "3"): 2, ("host", "x"): 2, ("host", "y"): 1}
    shared.see(seen("a", "z"))
    assert shared.sharing == {
        ("topic", "t"): 2,
        ("partition", "3"): 2,
        ("host", "x"): 1,
        ("host", "y"): 1,
        ("host", "z"): 1,
    }


def test_one_copy_of_what_is_the_same() -> None:
    """Of a hundred groups of one topic the topic is one object, before and after it was stored."""
    shared = SharedBy()
    for number in range(100):
        shared.see(seen(f"g{number}", f"h{number}"))
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(shared), type=SharedBy)
    assert stored == shared
    for each in (shared, stored):
        assert len({id(group.shares[-1]) for group in each.groups.values()}) == 1
