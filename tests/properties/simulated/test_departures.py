"""What events say about why members left, beside what the model of the coordinator did."""

from __future__ import annotations

import pytest

from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from support.simulated.leave_scores import leave_scores

#: Members that stop, are killed in a roll-out, hang until their client gives up, and scale down.
QUICK = ("rollout-kill", "stuck", "timeouts", "autoscale", "rolling-restart-3-dynamic-cooperative")


def test_no_wrong_reason() -> None:
    """Every reason that is stated is the coordinator's; an unknown one has it among its candidates."""
    probed, alone = leave_scores(QUICK, 3)
    for scores in (probed, alone):
        assert (scores.wrong, scores.lost) == ([], [])
        assert scores.said["left"] > 100
    assert probed.said["session_timeout"] >= 3
    assert probed.said["poll_timeout"] >= 20
    # Without answers nobody knows how long the others had waited for a member.
    assert alone.said["session_timeout"] < 3
    assert alone.said["poll_timeout"] < 20


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_no_wrong_reason_in_any_scenario() -> None:
    """Eight hours of each scenario: at most one stated reason of a hundred is wrong, no unknown one lacks the truth."""
    for scores in leave_scores(SCENARIOS, 8):
        assert scores.lost == []
        assert len(scores.wrong) <= 0.01 * (scores.said.total() - scores.said["unknown"]), scores.wrong[:5]
