"""What events say about the trigger of a rebalance, beside the reason that the coordinator had."""

from __future__ import annotations

import pytest

from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from support.simulated.trigger_scores import Matrix, score, table, unknown_share, wrong

QUICK = ("rolling-restart-3-dynamic-eager", "stuck", "flapping", "autoscale", "stuck-kip848", "migration")
COOPERATIVE = "rolling-restart-3-dynamic-cooperative"


def test_no_wrong_answer() -> None:
    """Every certain answer is the reason of the coordinator, and there is one wherever a member came or went."""
    matrix = score((*QUICK, COOPERATIVE), 0.5)
    assert wrong(matrix) == Matrix()
    assert unknown_share(matrix) < 0.05
    assert matrix["cooperative_followup", "cooperative_followup"] > 5
    assert matrix["member_joined", "member_joined"] > 50


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_no_wrong_answer_in_any_scenario() -> None:
    """Two hours of each scenario, as the table in docs/simulations.md."""
    matrix = score(SCENARIOS, 2)
    assert wrong(matrix) == Matrix()
    assert unknown_share(matrix) < 0.05


def test_the_scores() -> None:
    """A wrong answer, an unknown one and one that is right without being the same are told apart."""
    matrix = Matrix(
        {
            ("member_left", "member_left"): 5,
            ("member_left", "members_changed"): 2,
            ("member_left", "unknown"): 1,
            ("member_joined", "member_left"): 2,
            ("cooperative_followup", "unknown"): 9,
        }
    )
    assert wrong(matrix) == Matrix({("member_joined", "member_left"): 2})
    assert unknown_share(matrix) == 0.1
    assert table(matrix).splitlines()[2:] == [
        "| `cooperative_followup` |  |  | 9 |",
        "| `member_joined` | 2 |  |  |",
        "| `member_left` | 5 | 2 | 1 |",
    ]
