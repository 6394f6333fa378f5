"""Slots and owners: who follows whom in a slot, and when a partition changes its owner."""

from __future__ import annotations

from groupreplay.timeline.document import SHARED
from groupreplay.timeline.lanes import Lanes, lanes_of
from groupreplay.timeline.membership import Holder, Membership, Place


def at(
    at_ms: int, *, shared: bool = False, **members: tuple[str | None, str, dict[str, str] | None]
) -> Membership:
    """The members at a time: id -> (instance id, client id, what it holds)."""
    holders = {
        name: Holder(Place(instance, client, "/h"), held)
        for name, (instance, client, held) in members.items()
    }
    return Membership(at_ms, at_ms, holders, shared=shared)


def stays(lanes: Lanes) -> list[list[tuple[str, int, int | None]]]:
    """The members of each slot."""
    return [[(one.member_id, one.since_ms, one.until_ms) for one in life.stays] for life in lanes.slots]


def owners(lanes: Lanes) -> dict[tuple[str, int], list[tuple[int, int, int | None]]]:
    """The owners of each partition."""
    return {
        place: [(one.slot, one.since_ms, one.until_ms) for one in spans]
        for place, spans in lanes.owners.items()
    }


def test_a_restarted_member_keeps_its_slot_and_its_partitions() -> None:
    """A new id with the same client id and host, at the moment of the old one's end or later."""
    found = lanes_of(
        [
            at(1, a=(None, "c", {"t": "0-1"})),
            at(5, b=(None, "c", {"t": "0-1"})),
            at(7),
            at(9, d=(None, "c", {"t": "0"})),
        ]
    )
    assert stays(found) == [[("a", 1, 5), ("b", 5, 7), ("d", 9, None)]]
    assert owners(found) == {("t", 0): [(0, 1, 7), (0, 9, None)], ("t", 1): [(0, 1, 7)]}
    assert found.slots[0].holdings == [(1, 5, 2), (5, 7, 2), (9, None, 1)]


def test_two_at_one_time_have_two_slots() -> None:
    """Members of one client id and host that are in the group together are never one slot."""
    found = lanes_of(
        [at(1, a=(None, "c", {"t": "0"}), b=(None, "c", {"t": "1"})), at(5, b=(None, "c", {"t": "0-1"}))]
    )
    assert stays(found) == [[("a", 1, 5)], [("b", 1, None)]]
    assert owners(found) == {("t", 0): [(0, 1, 5), (1, 5, None)], ("t", 1): [(1, 1, None)]}


def test_static_members_are_told_apart_by_their_instance_id_alone() -> None:
    """Another client id and host under the same instance id is the same slot."""
    found = lanes_of([at(1, a=("i", "c", {"t": "0"})), at(5, b=("i", "d", {"t": "0"}))])
    assert (stays(found), owners(found)) == ([[("a", 1, 5), ("b", 5, None)]], {("t", 0): [(0, 1, None)]})


def test_a_partition_that_nobody_owns() -> None:
    """It has a gap between its owners."""
    found = lanes_of(
        [
            at(1, a=(None, "c", {"t": "0-1"})),
            at(5, a=(None, "c", {"t": "0"})),
            at(9, a=(None, "c", {"t": "0-1"})),
        ]
    )
    assert owners(found) == {("t", 0): [(0, 1, None)], ("t", 1): [(0, 1, 5), (0, 9, None)]}


def test_members_that_share_partitions() -> None:
    """In a share group: the number of members of each partition, or the one that has it alone."""
    both = {"a": (None, "c", {"t": "0-1"}), "b": (None, "d", {"t": "1"})}
    found = lanes_of([at(1, shared=True, **both), at(5, shared=True, a=both["a"])])
    spans = [(one.slot, one.members, one.since_ms, one.until_ms) for one in found.owners["t", 1]]
    assert spans == [(SHARED, 2, 1, 5), (0, 1, 5, None)]
    assert owners(found)["t", 0] == [(0, 1, None)]


def test_an_assignment_that_cannot_be_read() -> None:
    """The member has a slot and no partitions, and the lanes say so."""
    found = lanes_of([at(1, a=(None, "c", None))])
    assert (found.unread, stays(found), owners(found)) == (True, [[("a", 1, None)]], {})
