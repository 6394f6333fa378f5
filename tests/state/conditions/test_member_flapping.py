"""``member.flapping``: at exactly its number of returns, until its window has moved on."""

from __future__ import annotations

from typing import Any

from groupreplay.codecs import MemberMetadata
from groupreplay.state import Severity
from support.histories.builders import check, emptied, gone, member
from support.histories.probed import MINUTE
from support.histories.slot_lives import START, life, pod, returns, said


def test_flapping_at_the_third_return() -> None:
    """Not at the second; it ends a quarter of an hour after the first of the three."""
    assert said(returns(1 * MINUTE, 2 * MINUTE), "member.flapping")[0] == []
    found, events = said(returns(1 * MINUTE, 2 * MINUTE, 3 * MINUTE), "member.flapping")
    assert found == [
        ("member.flapping", "firing", START + 3 * MINUTE),
        ("member.flapping", "resolved", START + 16 * MINUTE),
    ]
    fact: Any = events[0].fact
    check(fact, member_id="c-3", client_id="c", client_host="/h", threshold_ms=15 * MINUTE)
    times = (START + 1 * MINUTE, START + 2 * MINUTE, START + 3 * MINUTE)
    check(fact, since_ms=times[-1], returned_ms=times)
    assert [event.severity for event in events] == [Severity.WARN, Severity.WARN]


def test_returns_too_far_apart_are_no_flapping() -> None:
    """The first is exactly a quarter of an hour old when the third comes."""
    assert said(returns(1 * MINUTE, 2 * MINUTE, 16 * MINUTE), "member.flapping")[0] == []
    assert len(said(returns(1 * MINUTE, 2 * MINUTE, 16 * MINUTE - 1), "member.flapping")[0]) == 2


def test_a_slot_that_leaves_and_comes_back_returns() -> None:
    """A round without it lies between; a single consumer leaves the group empty each time."""
    history: list[tuple[int, list[MemberMetadata]]] = [(0, [pod(0)])]
    for number in (1, 2, 3):
        history += [(number * MINUTE, []), (number * MINUTE + 1_000, [pod(number)])]
    found, _ = said(life(*history), "member.flapping")
    assert found[0] == ("member.flapping", "firing", START + 3 * MINUTE + 1_000)


def test_tasks_of_a_connect_sink_do_not_flap() -> None:
    """They come back whenever the workers rebalance; a member of another name in the same rounds does flap."""
    client = "connector-consumer-files-0"
    rounds = [(n * MINUTE, [pod(n), member(f"task-{n}", [1], client_id=client, host="/h")]) for n in range(4)]
    _, events = said(life(*rounds), "member.flapping")
    facts: list[Any] = [event.fact for event in events]
    assert [fact.client_id for fact in facts] == ["c", "c"]


def test_members_that_share_a_place_have_no_slot() -> None:
    """Two consumers of one host and client id: a new one may be anybody."""
    twin = member("twin", [1], client_id="c", host="/h")
    history = life((0, [pod(0), twin]), *((n * MINUTE, [pod(n), twin]) for n in range(1, 6)))
    assert said(history, "member.flapping")[0] == []


def test_a_group_that_is_deleted_resolves_all() -> None:
    """With the group its habits are gone."""
    history = [*returns(1 * MINUTE, 2 * MINUTE, 3 * MINUTE)]
    history += [emptied(5, at=START + 4 * MINUTE), gone(at=START + 5 * MINUTE)]
    found, _ = said(history, "member.flapping")
    assert found[-1] == ("member.flapping", "resolved", START + 5 * MINUTE)
