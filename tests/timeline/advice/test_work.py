"""Members without work, uneven shares, members that differ, slow leaders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from groupreplay.codecs import MemberMetadata
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.timeline.advice.finding import Kind
from groupreplay.timeline.advice.inputs import AdviceInput
from support.histories.builders import commit, generation, member
from support.pictures.timelines import BEGIN, MINUTE
from support.simulated.advised import found, saved, simulated, small

_MEMBERS = (Kind.UNEVEN_ASSIGNMENT, Kind.DIFFERING_MEMBERS)


def lasting(*members: MemberMetadata) -> AdviceInput:
    """A group with these members for an hour."""
    commits = [commit("t", 0, number, at=BEGIN + number * 10 * MINUTE) for number in range(1, 7)]
    return small([generation(1, *members, at=BEGIN), *commits])


def test_members_that_own_nothing(tmp_path: Path) -> None:
    """Five members for three partitions: two are too many; in a healthy group none is."""
    for history in simulated(SCENARIOS["idle"], tmp_path / "a.parquet", groups=2, hours=1):
        assert saved(found(history, Kind.MEMBERS_WITHOUT_WORK), "members") == (2, 2)
    for history in simulated(SCENARIOS["steady"], tmp_path / "b.parquet", groups=2, hours=1):
        assert found(history, Kind.MEMBERS_WITHOUT_WORK) is None


def test_one_member_owns_twice_its_share() -> None:
    """Eight partitions where four are its share; one more than an even share is no finding."""
    uneven = found(
        lasting(member("a", range(8)), member("b", (8,)), member("c", (9,))), Kind.UNEVEN_ASSIGNMENT
    )
    assert uneven is not None
    assert (saved(uneven, "partitions"), "owns 8 of 10 partitions" in uneven.text) == ((4, 4), True)
    assert [found(lasting(member("a", (0, 1)), member("b", (2,))), kind) for kind in _MEMBERS] == [None, None]


def test_members_that_differ() -> None:
    """Another topic, another session: the members that are not as most are, and in what."""
    odd = member("c", (4,), subscribed=("t", "u"), session_ms=10_000)
    finding = found(lasting(member("a", (0, 1)), member("b", (2, 3)), odd), Kind.DIFFERING_MEMBERS)
    assert finding is not None
    assert saved(finding, "members") == (1, 1)
    assert finding.text == (
        "client-c on 10.0.0.1 differs from the other members: 2 sets of topics; "
        "session.timeout.ms 10.0 s, 45.0 s"
    )


def test_what_is_not_known_of_a_member_is_no_difference() -> None:
    """In a group of both protocols the broker has the sessions of some: these do not differ from the others."""
    members = [member(name, (place,)) for place, name in enumerate("abc")]
    history = lasting(*members, member("d", (3,), subscribed=("t", "u")))
    described = dict(history.use.described)
    described["members"] = [
        {**each, "session_timeout_ms": None} if each["member_id"] == "a" else each
        for each in described["members"]
    ]
    mixed = replace(history, use=replace(history.use, described=described))
    finding = found(mixed, Kind.DIFFERING_MEMBERS)
    assert (saved(finding, "members"), finding.text) == (
        (1, 1),
        "client-d on 10.0.0.1 differs from the other members: 2 sets of topics",
    )


def test_a_leader_that_needs_long() -> None:
    """Four rebalances waited for its assignment, of which the first one stopped nobody; two are chance."""

    def waits(count: int) -> AdviceInput:
        members = member("a", (0,)), member("b", (1,))
        at = [BEGIN + number * 10 * MINUTE for number in range(1, count + 1)]
        return small(
            [generation(number, *members, at=time, since=time - 5_000) for number, time in enumerate(at, 1)]
        )

    finding = found(waits(4), Kind.SLOW_LEADER)
    assert finding is not None
    assert saved(finding, "stopped_ms") == (12_000, 15_000)
    assert found(waits(2), Kind.SLOW_LEADER) is None
