"""What the prober's answers show of the begin of a classic rebalance, and of the length of its join phase."""

from __future__ import annotations

import pytest
from msgspec import structs

from groupreplay.codecs import MemberMetadata
from groupreplay.state.events.group_events import RebalanceCompleted
from groupreplay.state.snapshot.observations import Probe
from support.histories.builders import Raw, asked_for, check, emptied, facts, generation, member
from support.histories.probed import MINUTE, START, TWO, probe, told

BEGAN = START + 5 * MINUTE
BOTH = (member("a", [0]), member("b", [1]))


def test_the_bounds_of_the_begin() -> None:
    """Between the group's last record, or the round before if that is later, and the answer; also of a condition."""
    for after, unseen_ms, earliest in (
        (7_000, 10_000, START),
        (30_000, 10_000, START + 20_000),
        (30_000, 25_000, START + 5_000),
        (30_000, -1, START),
    ):
        first = structs.replace(probe(START + after, "PreparingRebalance"), unseen_ms=unseen_ms)
        until = START + after + 75_000
        group, events = told([asked_for(at=START)], [first], until)
        document = group.describe()
        (condition,) = document["conditions"]
        for one in (document, condition):
            assert (one["since_ms"], one["since_ms_earliest"]) == (START + after, earliest)
        check(facts(events)[-1], since_ms=START + after, since_ms_earliest=earliest, elapsed_ms=75_000)
    group, _ = told([], [structs.replace(first, unseen_ms=-1)], START + MINUTE)
    assert group.describe()["since_ms_earliest"] is None


def answered(*states: str, brokers: str = "") -> list[Probe]:
    """An answer every ten seconds, by its first letter; of broker 1 or of those given."""
    names = {"P": "PreparingRebalance", "C": "CompletingRebalance"}
    found = [probe(BEGAN + 10_000 * place, names[one], "a", "b") for place, one in enumerate(states)]
    return [
        structs.replace(one, broker=int(brokers[place : place + 1] or 1)) for place, one in enumerate(found)
    ]


def completed(number: int, ended_ms: int) -> Raw:
    """The record of a generation; its join phase ended so long after ``BEGAN``, and a second before the record."""
    return generation(number, *BOTH, at=BEGAN + ended_ms + 1_000, since=BEGAN + ended_ms)


@pytest.mark.parametrize(
    ("history", "answers", "expected"),
    [
        ([completed(7, 5_000)], answered("P"), (5_000, 15_000)),
        # It was over before the first answer.
        ([completed(7, -2_000)], answered("C"), None),
        ([completed(7, -500)], answered("C"), (0, 9_500)),
        ([completed(7, 12_000)], answered("P", "P", "C"), (12_000, 22_000)),
        # Two join phases: the last one began after the answer between them.
        ([completed(8, 25_000)], answered("P", "C", "P"), (5_000, 15_000)),
        # Two, and nothing shows where one ended.
        ([completed(8, 25_000)], answered("P", "P", "P"), None),
        # One, and the clocks contradict each other.
        ([completed(7, 25_000)], answered("P", "C", "P"), None),
        # The coordinator moved: it began anew.
        ([completed(7, 25_000)], answered("P", "P", "P", brokers="112"), (5_000, 15_000)),
        # The coordinator's clock is behind: the answer is later than the end that it wrote.
        ([generation(7, *BOTH, at=BEGAN + 10_500, since=BEGAN + 8_500)], answered("P", "P"), (8_500, 20_000)),
        # The group was empty in between: another one.
        ([emptied(7, at=BEGAN + 3_000), completed(8, 12_000)], answered("P", "P"), (2_000, 9_000)),
        ([emptied(7, at=BEGAN + 3_000), completed(8, 8_000)], answered("P"), None),
        ([completed(7, 5_000)], [], None),
    ],
)
def test_the_join_phase(history: list[Raw], answers: list[Probe], expected: tuple[int, int] | None) -> None:
    """Its length has bounds, where the answers show this join phase and no other one."""
    _, events = told([TWO, generation(6, *BOTH, at=START + MINUTE), *history], answers, BEGAN + 10 * MINUTE)
    last = [fact for fact in facts(events) if isinstance(fact, RebalanceCompleted)][-1]
    found = None if last.join_ms_max is None else (last.join_ms_min, last.join_ms_max)
    assert found == expected


@pytest.mark.parametrize(
    ("seen", "new", "expected"),
    [
        (("a", "b", "c"), (member("a", [0]), member("c", [1])), "member_joined"),
        (("a",), (member("a", [0]), member("c", [1])), "member_left"),
        # Both had happened by then.
        (("a", "c"), (member("a", [0]), member("c", [1])), "members_changed"),
        # It had gone again before the generation.
        (("a", "b", "c"), (member("a", [0, 1]),), "member_joined"),
        (("a", "b"), (member("a", [0, 1]),), "member_left"),
    ],
)
def test_the_members_in_the_first_answer(
    seen: tuple[str, ...], new: tuple[MemberMetadata, ...], expected: str
) -> None:
    """They show what was first, of the events of the rebalance and of its begin."""
    record = generation(6, *new, at=BEGAN + 15_000)
    answers = [probe(BEGAN, "PreparingRebalance", *seen), probe(BEGAN + 10_000, "PreparingRebalance", "x")]
    _, events = told([TWO, record], answers, BEGAN + 10 * MINUTE)
    triggers = {fact.NAME: fact.trigger for fact in facts(events) if hasattr(fact, "trigger")}
    known = {"members_changed": "unknown"}.get(expected, expected)
    assert triggers["rebalance.completed"] == expected
    assert triggers["rebalance.started"] == ("unknown" if seen == ("a", "b") else known)
