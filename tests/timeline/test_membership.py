"""The members after each operation, of classic groups and of the newer kinds."""

from __future__ import annotations

from groupreplay.state.policy.redaction import Redaction
from groupreplay.timeline.membership import Membership, Place, memberships
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
