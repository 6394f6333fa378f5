"""A coordinator's clock that jumps ahead and comes back: hours later, the group is as if it had not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from groupreplay.state import Group
from groupreplay.state.output.envelope import event_id
from groupreplay.state.policy.rules import GroupRule, Policy
from state.test_clock_setback import after, shifted
from support.histories.builders import CONTEXT
from support.histories.strategies import WrittenLog, histories, logs

HOUR = 3_600_000
DAY = 24 * HOUR
#: Thresholds so small that the conditions come and go inside these histories.
QUICK = Policy(
    thresholds={
        "rebalance.slow": {"threshold_ms": 2_000},
        "rebalance.stuck": {"threshold_ms": 5_000, "wedged_ms": 20_000},
        "rebalance.timeouts": {"times": 1, "window_ms": 90_000},
        "rebalance.storm": {"window_ms": 30_000, "least": 1, "per_slot": 0, "beyond": 1},
        "member.flapping": {"times": 1, "window_ms": 20_000},
        "member.idle": {"rounds": 1, "least_ms": 10_000},
        "static.conflict": {"window_ms": 100_000},
        "static.crash_loop": {"times": 1, "window_ms": 20_000},
        "owner.silent": {"threshold_ms": 30_000, "commits": 1, "repeats": 0.0},
        "rebalance.suspected": {"threshold_ms": 30_000, "commits": 1, "repeats": 0.0},
    },
    # By its history a group is significant when it is a day old, which it seems to be while the clock is ahead.
    groups=(GroupRule(groups="*", matters=True),),
)
LONGEST_WINDOW = 100_000
QUICK_CONTEXT = replace(CONTEXT, policy=QUICK)


def held(group: Group) -> list[tuple[Any, ...]]:
    """The active conditions; those that begin only while others are active depend on what was when."""
    names = ("condition", "topic", "partition", "severity")
    return sorted(
        tuple(str(one.get(name)) for name in names)
        for one in group.describe()["conditions"]
        if one["condition"] not in ("partition.poison", "owner.silent")
    )


@pytest.mark.parametrize(
    "log_of", [histories().map(WrittenLog), logs()], ids=["arbitrary classic", "written by a coordinator"]
)
@given(data=st.data())
def test_two_hours_later_nothing_is_left(log_of: st.SearchStrategy[WrittenLog], data: st.DataObject) -> None:
    """The same conditions hold, the next deadline is nearly the same, and no two events have one id."""
    log = data.draw(log_of)
    assume(len(log.ends) > 1)
    last = data.draw(st.integers(0, len(log.ends) - 2))
    first = data.draw(st.integers(0, last))
    begin, end = log.ends[first - 1] if first else 0, log.ends[last]
    by_ms = data.draw(st.sampled_from([10 * 60_000, HOUR, 5 * HOUR, DAY]))
    records = log.records
    jumped = [shifted(raw, by_ms) if begin <= place < end else raw for place, raw in enumerate(records)]
    assume(records[end].at < jumped[end - 1].at - 60_000)
    end_ms = records[-1].at + 2 * HOUR + 60_000
    plain, _ = after(records, end_ms - records[-1].at, QUICK_CONTEXT)
    back, events = after(jumped, end_ms - jumped[-1].at, QUICK_CONTEXT)
    assert held(back) == held(plain)
    due_ms, expected_ms = back.next_deadline_ms(), plain.next_deadline_ms()
    assert (due_ms is None) == (expected_ms is None)
    if due_ms is not None and expected_ms is not None:
        # The last evaluation may be that at the end of a window that was forgotten.
        assert abs(due_ms - expected_ms) <= records[end].at - records[begin].at + LONGEST_WINDOW
    assert all(one["since_ms"] <= end_ms for one in back.describe()["conditions"])
    ids = [event_id(one, QUICK_CONTEXT) for one in events]
    assert len({*ids}) == len(ids)
