"""``owner.silent``: a member that stops committing while others do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupreplay.state import Severity
from groupreplay.state.policy.context import OwnSettings
from support.histories.builders import GROUP, Raw, check, commit, generation, member
from support.histories.commit_lives import BEGIN, HOUR, START, beat, live, of
from support.histories.group_writer import GroupWriter
from support.histories.modern_builders import TOPIC
from support.histories.probed import MINUTE, PROBING


def test_an_owner_that_falls_silent_while_others_commit() -> None:
    """After ten usual gaps; it ends with the member's next commit."""
    history = [*BEGIN, *beat((0, 1), 5_000, 2 * MINUTE), *beat((0,), 2 * MINUTE, 20 * MINUTE)]
    sign = START + 115_000
    events = live(history, START + 20 * MINUTE, PROBING)
    assert of(events, "owner.silent") == [("owner.silent", "firing", sign + 81_921)]
    fact: Any = events[0].fact
    check(fact, member_id="b", partitions={"t": "1"}, lag=None, usual_gap_ms=8_192, since_ms=sign)
    assert events[0].severity is Severity.WARN
    events = live([*history, *beat((0, 1), 20 * MINUTE, 20 * MINUTE + 1)], START + HOUR, PROBING)
    assert of(events, "owner.silent")[1:] == [("owner.silent", "resolved", START + 20 * MINUTE + 1)]


def test_a_round_ends_the_silence_of_an_owner() -> None:
    """What it owned belongs to somebody else, or it has begun anew."""
    history = [*BEGIN, *beat((0, 1), 5_000, 2 * MINUTE), *beat((0,), 2 * MINUTE, 5 * MINUTE)]
    history.append(generation(2, member("a", [0, 1]), at=START + 6 * MINUTE))
    assert of(live(history, START + HOUR, PROBING), "owner.silent")[1:] == [
        ("owner.silent", "resolved", START + 6 * MINUTE)
    ]


def test_silence_of_all_is_no_owners_fault() -> None:
    """Nobody commits: then none of them is told from the others."""
    history = [*BEGIN, *beat((0, 1), 5_000, 5 * MINUTE)]
    assert of(live(history, START + HOUR, PROBING), "owner.silent") == []


def test_an_owner_of_quiet_partitions_in_a_group_that_commits_on_change() -> None:
    """Nothing new came into its partitions: that is all there is to it."""
    both, one = beat((0, 1), 5_000, 2 * MINUTE, moves=True), beat((0,), 2 * MINUTE, 10 * MINUTE, moves=True)
    assert of(live([*BEGIN, *both, *one], START + HOUR, PROBING), "owner.silent") == []


@pytest.mark.parametrize("pause_s", [45, 60, 95, 140, 400, 4_000])
def test_whoever_comes_back_later_after_a_pause_of_all_was_not_silent(pause_s: int) -> None:
    """All members pause, for as long as a coordinator loads; half a minute passes until the last one commits again."""
    back = 5 * MINUTE + pause_s * 1_000
    before = [*BEGIN, *beat((0, 1), 5_000, 5 * MINUTE)]
    both = beat((0, 1), back + 30_000, back + 10 * MINUTE)
    history = [*before, *beat((0,), back, back + 30_000), *both]
    assert of(live(history, START + back + 10 * MINUTE, PROBING), "owner.silent") == []


@pytest.mark.parametrize("pause_s", [45, 60, 95, 140, 400, 4_000])
def test_whoever_does_not_come_back_after_a_pause_of_all_is_silent(pause_s: int) -> None:
    """From the first commit of the others on, beside whom it is: not from the begin of the pause."""
    back = 5 * MINUTE + pause_s * 1_000
    history = [*BEGIN, *beat((0, 1), 5_000, 5 * MINUTE), *beat((0,), back, back + 10 * MINUTE)]
    events = live(history, START + back + 10 * MINUTE, PROBING)
    assert of(events, "owner.silent") == [("owner.silent", "firing", START + back + 81_921)]
    check(next(one.fact for one in events if one.fact.NAME == "owner.silent"), since_ms=START + back)


def test_a_silence_goes_on_when_the_others_pause() -> None:
    """Neither their pause nor its end is a commit of the silent member."""
    history = [*BEGIN, *beat((0, 1), 5_000, 2 * MINUTE), *beat((0,), 2 * MINUTE, 5 * MINUTE)]
    history += [*beat((0,), 9 * MINUTE, 20 * MINUTE), *beat((0, 1), 20 * MINUTE, 20 * MINUTE + 1)]
    assert of(live(history, START + 20 * MINUTE + 1_000, PROBING), "owner.silent") == [
        ("owner.silent", "firing", START + 115_000 + 81_921),
        ("owner.silent", "resolved", START + 20 * MINUTE + 1),
    ]


def test_others_that_hardly_work_prove_no_silence() -> None:
    """Each commit of theirs comes after a pause of the whole group."""
    history = [*BEGIN, *beat((0, 1), 5_000, 5 * MINUTE), *beat((0,), 5 * MINUTE, 9 * MINUTE, every=60_000)]
    history += beat((0, 1), 9 * MINUTE, 15 * MINUTE)
    assert of(live(history, START + 15 * MINUTE, PROBING), "owner.silent") == []


@pytest.mark.parametrize("session_ms", [100_000, 300_000])
def test_an_owner_in_a_group_with_a_session_of_its_own(session_ms: int) -> None:
    """A member of KIP-848 may be gone for so long before the coordinator removes it: the group's own number counts."""
    life = GroupWriter(partitions=2)
    life.join("a")
    life.join("b")
    life.settle()
    begun_ms = life.at

    def beats(places: tuple[int, ...], from_ms: int, until_ms: int) -> list[Raw]:
        times = range(from_ms, until_ms, 5_000)
        return [commit("t", place, 7, at=begun_ms + at_ms) for at_ms in times for place in places]

    history = [*life.log, *beats((0, 1), 5_000, 2 * MINUTE), *beats((0,), 2 * MINUTE, 20 * MINUTE)]
    own = OwnSettings({GROUP: {"consumer.session.timeout.ms": session_ms}})
    context = replace(PROBING, topic_names={TOPIC: "t"}, own_settings=own)
    events = of(live(history, begun_ms + 20 * MINUTE, context), "owner.silent")
    assert events == [("owner.silent", "firing", begun_ms + 115_000 + session_ms + 1)]
