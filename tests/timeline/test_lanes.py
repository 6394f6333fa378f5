"""The members after each operation, of classic groups and of the newer kinds."""

from __future__ import annotations

from groupreplay.state.policy.context import Redaction
from groupreplay.timeline.document import SHARED
from groupreplay.timeline.lanes import Holder, Lanes, Membership, Place, lanes_of, memberships
from support.histories.builders import Raw, emptied, generation, gone, group_record, member, placed
from support.histories.modern_builders import (
    TOPIC,
    UNRELEASED,
    UNREVOKED,
    current,
    described,
    first_join,
    group_epoch,
    left,
    operation,
    target,
    target_epoch,
)

NAMES = {TOPIC: "t"}


def history(records: list[Raw], redaction: Redaction | None = None) -> list[Membership]:
    """The memberships of these records."""
    return list(memberships([group_record(one) for one in placed(records)], NAMES, redaction))


def held(found: list[Membership]) -> list[tuple[int, dict[str, dict[str, str] | None]]]:
    """What each member holds, by time."""
    return [
        (
            one.at_ms,
            {
                name: None if who.partitions is None else dict(who.partitions)
                for name, who in one.holders.items()
            },
        )
        for one in found
    ]


def test_a_classic_group() -> None:
    """Each record has all members with their assignments; none after the last one left, and after the tombstone."""
    found = history(
        [
            generation(1, member("a", (0, 1)), at=1),
            generation(2, member("a", (0,)), member("b", (1,)), at=2),
            emptied(3, at=3),
            gone(at=4),
        ]
    )
    assert held(found) == [
        (1, {"a": {"t": "0-1"}}),
        (2, {"a": {"t": "0"}, "b": {"t": "1"}}),
        (3, {}),
        (4, {}),
    ]
    assert found[1].holders["a"].place == Place(None, "client-a", "/10.0.0.1")


def test_a_member_holds_what_it_has_not_revoked() -> None:
    """A KIP-848 group, one operation after another: A keeps partition 1 until it has given it up."""
    found = history(
        [
            *first_join(),
            *operation(
                5_000,
                described("b"),
                group_epoch(3),
                target("a", [0]),
                target("b", [1]),
                target_epoch(3),
                current("b", 3, [], state=UNRELEASED),
            ),
            *operation(5_100, current("a", 2, [0], state=UNREVOKED, previous=2, revoking=[1])),
            *operation(5_300, current("a", 3, [0], previous=2)),
            *operation(5_500, current("b", 3, [1], previous=3)),
            *operation(6_000, *left("b")),
        ]
    )
    assert held(found)[-5:] == [
        (5_000, {"a": {"t": "0-1"}, "b": {}}),
        (5_100, {"a": {"t": "0-1"}, "b": {}}),
        (5_300, {"a": {"t": "0"}, "b": {}}),
        (5_500, {"a": {"t": "0"}, "b": {"t": "1"}}),
        (6_000, {"a": {"t": "0"}}),
    ]


def test_members_that_did_not_change_are_the_same_object() -> None:
    """So that a group of a thousand members costs only what changes."""
    one, two = history(
        [generation(1, member("a", (0,)), at=1), generation(2, member("a", (0,)), member("b", (1,)), at=2)]
    )
    assert one.holders["a"] is two.holders["a"]


def test_hidden_names() -> None:
    """The member id, the client id and the host are hashed, as in events."""
    redaction = Redaction(frozenset({"hosts", "client-id"}), b"0123456789abcdef")
    (found,) = history([generation(1, member("a", (0,)), at=1)], redaction)
    assert {name: who.place for name, who in found.holders.items()} == {
        redaction.hide("a"): Place(None, redaction.hide("client-a"), redaction.hide("/10.0.0.1"))
    }


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
