"""The policy of groups: which numbers, labels and caps hold for whom."""

from __future__ import annotations

import pytest

from groupreplay.state.conditions.rebalances import RebalanceSlowDetector, RebalanceStuckDetector
from groupreplay.state.events.event import Severity
from groupreplay.state.policy.rules import DETECTORS, GroupRule, Policy, Rules, numbers_of


def detector(rules: Rules, name: str) -> object:
    """The one of this name."""
    (found,) = (one for one in rules.detectors if name == one.NAME)
    return found


def test_without_rules_the_defaults_hold() -> None:
    """An ordinary group has every detector as it is, no cap and no labels."""
    assert Policy().of("payments") == Rules()


@pytest.mark.parametrize(
    ("group_id", "matters"),
    [
        ("console-consumer-123", False),
        ("spark-kafka-source-x", False),
        ("anonymous.0a1b2c3d", False),
        ("worker-0123abcd-0123-4567-89ab-0123456789ab", False),
        ("worker-0123abcd-0123-4567-89ab-0123456789ag", None),
        ("my-console-consumer-1", None),
    ],
)
def test_ephemeral_groups_do_not_matter(group_id: str, matters: bool | None) -> None:
    """Groups that tools make by the thousand; others are left to their history."""
    assert Policy().of(group_id).matters is matters


def test_later_rules_win() -> None:
    """All rules that match count, in their order, and labels are merged by name."""
    policy = Policy(
        numbers={"rebalance.slow": {"least_ms": 1, "beyond_session_ms": 2}},
        groups=(
            GroupRule(groups="pay*", labels={"team": "a", "tier": "1"}, severity_cap=Severity.INFO),
            GroupRule(groups="*-test", ignore=True, numbers={"rebalance.slow": {"least_ms": 3}}),
            GroupRule(groups="pay-*", labels={"team": "b"}, severity_cap=Severity.WARN, matters=True),
        ),
    )
    assert policy.of("pay-test") == Rules(
        detectors=policy.of("pay-test").detectors,
        ignore=True,
        severity_cap=Severity.WARN,
        matters=True,
        labels={"team": "b", "tier": "1"},
    )
    assert detector(policy.of("pay-test"), "rebalance.slow") == RebalanceSlowDetector(
        least_ms=3, beyond_session_ms=2
    )
    assert detector(policy.of("other"), "rebalance.slow") == RebalanceSlowDetector(
        least_ms=1, beyond_session_ms=2
    )


def test_numbers_of_a_part_reach_the_whole() -> None:
    """The stuck rule asks the slow rule for its bound: with the slow rule of the same group."""
    policy = Policy(groups=(GroupRule(groups="g", numbers={"rebalance.slow": {"threshold_ms": 7}}),))
    assert detector(policy.of("g"), "rebalance.stuck") == RebalanceStuckDetector(
        slow=RebalanceSlowDetector(threshold_ms=7)
    )


def test_numbers_have_types() -> None:
    """What may be set, and as what: never another detector."""
    for one in DETECTORS:
        assert set(numbers_of(one).values()) <= {int, int | None, float, float | None, bool}
