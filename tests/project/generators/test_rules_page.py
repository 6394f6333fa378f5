"""The shipped file of rules and the code agree."""

from __future__ import annotations

import re

from generators.rules_page import page
from groupreplay.state.conditions.registry import DETECTORS
from groupreplay.state.policy.rules import EPHEMERAL, MovedOffsets, Policy
from groupreplay.streaming.config.rules_file import parse_rules


def test_the_file_is_what_holds_without_one() -> None:
    """Every number with its default; those without one stand there as comments; and the rules for groups."""
    policy = parse_rules(page(), "rules.toml")
    judges = (*DETECTORS, MovedOffsets())
    defaults = {one.name: {name: getattr(one, name) for name in one.thresholds()} for one in judges}
    given = {
        condition: {name: value for name, value in thresholds.items() if value is not None}
        for condition, thresholds in defaults.items()
    }
    assert policy.thresholds == {
        condition: thresholds for condition, thresholds in given.items() if thresholds
    }
    assert policy.groups == (*EPHEMERAL, *EPHEMERAL)
    assert policy.runbook == Policy().runbook
    sections = re.findall(r"^\[([a-z_.]+)\]\n(.*?)(?=\n\n)", page(), re.MULTILINE | re.DOTALL)
    commented = {
        (condition, name)
        for condition, body in sections
        for name in re.findall(r"^# (\w+) = ", body, re.MULTILINE)
    }
    assert commented == {
        (condition, name)
        for condition, thresholds in defaults.items()
        for name, value in thresholds.items()
        if value is None
    }


def test_the_comments_are_right() -> None:
    """What is commented out can be taken in as it stands."""
    text = re.sub(
        r"^# (\w+ = .*|\w+\.\w+\.\w+ = .*|\[\[(?:group|window)\]\])$", r"\1", page(), flags=re.MULTILINE
    )
    rules = {rule.groups: rule for rule in parse_rules(text, "rules.toml").groups}
    windows = [one.groups for one in parse_rules(text, "rules.toml").windows]
    assert windows == ["payments-*", "orders-*", "ledger"]
    assert rules["*-test"].ignore
    assert rules["ledger"].thresholds == {"rebalance.stuck": {"threshold_ms": 120_000}}
