"""How long each rebalance lasted, by its bounds and as inferred, against the states of the model's coordinator."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.coordinator.simulation.script import MINUTE_MS, SECOND_MS, Between
from groupreplay.coordinator.simulation.script_steps import Roll, ScriptedEvent
from support.simulated.advised import scripted, simulated, true_lengths

ROLL = Roll(down_ms=Between(5 * SECOND_MS, 15 * SECOND_MS), crash=0.3)
#: Some processes are killed, one of them while it makes the assignment.
CRASHES = scripted(ScriptedEvent(every_ms=10 * MINUTE_MS, steps=(ROLL,)), members=5)


@pytest.mark.parametrize("exact", [False, True], ids=["one-by-one", "together"])
def test_the_bounds_and_the_begin_hold_the_truth(tmp_path: Path, *, exact: bool) -> None:
    """Whether members send heartbeats together or not; several join phases in a row have bounds only."""
    path = tmp_path / "a.parquet"
    histories = simulated(CRASHES.with_group(exact=exact), path, groups=3)
    inferred, outside, chains = 0, 0, 0
    for history in histories:
        truth = true_lengths(path)[history.group_id]
        for each in history.rebalances:
            if each.most_ms == 0:
                continue
            least_ms, most_ms = each.stopped_ms
            assert most_ms is not None
            # A heartbeat is answered, and the member joins, some milliseconds later.
            assert least_ms <= truth[each.at_ms] <= most_ms + 50
            if each.event.number("skipped_generations"):
                chains += 1
                assert each.likely_ms is None
            elif each.likely_ms is not None:
                inferred += 1
                outside += not each.likely_ms.least <= truth[each.at_ms] <= each.likely_ms.most
    assert chains > 0
    assert inferred > 100
    assert outside <= 0.03 * inferred
