"""The policy of groups: which thresholds, labels and caps hold for whom."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from groupreplay.state.events.event import Severity
from groupreplay.state.policy.rules import GroupRule, Policy, Rules


def test_without_rules_the_defaults_hold() -> None:
    """An ordinary group has no thresholds of its own, no cap and no labels."""
    assert asdict(Policy().of("payments")) == asdict(Rules())


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
        thresholds={"rebalance.slow": {"least_ms": 1, "beyond_session_ms": 2}},
        groups=(
            GroupRule(groups="pay*", labels={"team": "a", "tier": "1"}, severity_cap=Severity.INFO),
            GroupRule(groups="*-test", ignore=True, thresholds={"rebalance.slow": {"least_ms": 3}}),
            GroupRule(groups="pay-*", labels={"team": "b"}, severity_cap=Severity.WARN, matters=True),
        ),
    )
    assert asdict(policy.of("pay-test")) == {
        "thresholds": {"rebalance.slow": {"least_ms": 3, "beyond_session_ms": 2}},
        "ignore": True,
        "severity_cap": Severity.WARN,
        "matters": True,
        "labels": {"team": "b", "tier": "1"},
        "windows": (),
    }
    assert asdict(policy.of("other")) == asdict(Rules(thresholds=policy.thresholds))


def test_groups_that_the_same_rules_match_share_them() -> None:
    """What is derived from rules is cached by their identity: one object for all such groups."""
    policy = Policy(groups=(GroupRule(groups="a*"), GroupRule(groups="*c")))
    assert policy.of("ab") is policy.of("abb")
    assert len({policy.of(name) for name in ("ab", "abc", "c", "d")}) == 4
