"""``rebalance.suspected``: a group that stops committing."""

from __future__ import annotations

import pytest

from groupreplay.state import Context, Evidence, Severity
from support.histories import builders
from support.histories.builders import check
from support.histories.commit_lives import BEGIN, HOUR, START, beat, live, of, poisoned
from support.histories.probed import MINUTE, PROBING, told


def test_a_group_that_falls_silent_without_a_prober() -> None:
    """After its rebalance and session timeout, by the usual gap; a commit ends it."""
    silent = beat((0, 1), 5_000, MINUTE)
    sign = START + 55_000
    events = live([*BEGIN, *silent], START + HOUR)
    assert of(events, "rebalance.suspected") == [("rebalance.suspected", "firing", sign + 345_001)]
    (fact,) = [one.fact for one in events if one.fact.NAME == "rebalance.suspected"]
    check(fact, since_ms=sign, threshold_ms=345_000, usual_gap_ms=8_192, silent_ms=345_001)
    (event,) = [one for one in events if one.fact is fact]
    assert (event.severity, event.evidence) == (Severity.INFO, Evidence.INFERRED)
    events = live([*BEGIN, *silent, *beat((0,), 20 * MINUTE, 20 * MINUTE + 1)], START + 21 * MINUTE)
    assert of(events, "rebalance.suspected")[1:] == [("rebalance.suspected", "resolved", START + 20 * MINUTE)]


@pytest.mark.parametrize(
    ("history", "context"),
    [
        pytest.param([*BEGIN, *beat((0, 1), 5_000, MINUTE)], PROBING, id="a prober knows better"),
        pytest.param(
            [*BEGIN, *beat((0, 1), 5_000, MINUTE, moves=True)], builders.CONTEXT, id="commits on change only"
        ),
        pytest.param([*BEGIN, *beat((0, 1), 5_000, 14_000)], builders.CONTEXT, id="four commits"),
        pytest.param(beat((0, 1), 5_000, MINUTE), builders.CONTEXT, id="nobody is a member"),
        pytest.param(
            [*BEGIN, *beat((0, 1), 5_000, MINUTE), builders.emptied(2, at=START + 2 * MINUTE)],
            builders.CONTEXT,
            id="it is empty",
        ),
    ],
)
def test_silence_that_is_not_suspected(history: list[builders.Raw], context: Context) -> None:
    """Where commits cannot tell, or need not."""
    assert of(live(history, START + HOUR, context), "rebalance.suspected") == []


def test_five_commits_are_a_habit() -> None:
    """Four gaps, however many partitions they belong to."""
    assert len(of(live([*BEGIN, *beat((0,), 5_000, 29_000)], START + HOUR), "rebalance.suspected")) == 1
    assert of(live([*BEGIN, *beat((0,), 5_000, 24_000)], START + HOUR), "rebalance.suspected") == []


def test_read_in_one_go() -> None:
    """What rounds say is the same, and so is a silence that was over when it was read."""
    history = [*BEGIN, *beat((0, 1), 5_000, MINUTE), *beat((0, 1), 20 * MINUTE, 20 * MINUTE + 60_000)]
    _, events = told(history, [], START + 22 * MINUTE, builders.CONTEXT)
    assert len(of(events, "rebalance.suspected")) == 2
    assert of(events, "rebalance.suspected") == of(live(history, START + 22 * MINUTE), "rebalance.suspected")
    _, events = told(poisoned(4), [], START + HOUR, PROBING)
    assert of(events, "partition.poison") == of(live(poisoned(4), START + HOUR, PROBING), "partition.poison")
