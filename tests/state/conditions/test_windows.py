"""Conditions that count in windows: their thresholds, and what the slot history counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.state.conditions.member_flapping import MemberFlappingDetector
from groupreplay.state.conditions.rebalance_storm import RebalanceStormDetector
from groupreplay.state.conditions.static_conflict import StaticConflictDetector
from groupreplay.state.policy.rules import GroupRule, Policy
from groupreplay.state.replay.slot_history import KEPT_MS, MOST_TIMES
from support.histories.builders import CONTEXT, member
from support.histories.probed import MINUTE
from support.histories.slot_lives import HOUR, START, life, returns, said


def test_numbers_are_settings() -> None:
    """Other thresholds for a group; such as reach beyond the memory are refused."""
    thresholds = {"member.flapping": {"times": 2, "window_ms": 5 * MINUTE}}
    context = replace(CONTEXT, policy=Policy(groups=(GroupRule(groups="g", thresholds=thresholds),)))
    found, _ = said(returns(1 * MINUTE, 2 * MINUTE), "member.flapping", context=context)
    assert [at for _, _, at in found] == [START + 2 * MINUTE, START + 6 * MINUTE]
    for wrong in ({"window_ms": KEPT_MS + 1}, {"window_ms": 0}, {"times": 0}, {"times": MOST_TIMES + 1}):
        with pytest.raises(ValueError, match=r"member\.flapping"):
            MemberFlappingDetector(**wrong)
    with pytest.raises(ValueError, match=r"rebalance\.storm"):
        RebalanceStormDetector(windows=13)
    with pytest.raises(ValueError, match=r"static\.conflict"):
        StaticConflictDetector(window_ms=-1)


def test_the_memory_counts_from_before_the_first_start() -> None:
    """Nothing is said of the time before; what then still holds is said then, with its real start."""
    context = replace(CONTEXT, emit_since_ms=START + 5 * MINUTE)
    found, events = said(returns(1 * MINUTE, 2 * MINUTE, 3 * MINUTE), "member.flapping", context=context)
    assert [at for _, _, at in found] == [START + 5 * MINUTE, START + 16 * MINUTE]
    assert events[0].fact.since_ms == START + 3 * MINUTE  # type: ignore[attr-defined]
    old = [member("a", [0]), member("b", [1])]
    history = life((0, old), *((HOUR + number * 10_000, old) for number in range(1, 14)))
    context = replace(CONTEXT, emit_since_ms=START + HOUR + 3 * MINUTE)
    found, events = said(history, "rebalance.storm", context=context)
    assert found[0][2] == START + HOUR + 3 * MINUTE
    assert events[0].fact.since_ms == START + HOUR + 110_000  # type: ignore[attr-defined]
