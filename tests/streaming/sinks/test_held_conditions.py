"""What the exporter keeps of a condition: who it is about, in bounded size, whatever a message has."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.streaming.sinks.held_conditions import HeldForm, Holding

MEMBER = {"member_id": "m", "client_id": "pods-7", "client_host": "/10.0.0.7", "instance_id": None}

STUCK, CONFLICT = "rebalance.stuck", "static.conflict"


def held(severity: str = "WARN", **fields: Any) -> Holding:
    """A condition with these fields, as JSON and back."""
    form = {
        "condition": "x",
        "severity": severity,
        "condition_id": "i",
        "since_ms": 5,
        "runbook": "r",
        **fields,
    }
    return msgspec.json.decode(msgspec.json.encode(form), type=HeldForm).holding()


@pytest.mark.parametrize(
    ("fields", "who"),
    [
        ({}, ""),
        (
            {"condition": STUCK, "suspects": [{**MEMBER, "reason": "no_commit_since_start"}]},
            "suspects: pods-7 on 10.0.0.7 (no commit since start)",
        ),
        ({"condition": STUCK, "suspects": [], "blockers": None}, ""),
        (MEMBER, "pods-7 on 10.0.0.7"),
        ({"topic": "orders", "partition": 3}, "orders-3"),
        (
            {"condition": CONFLICT, "instance_id": "i-1", "places": ["a@h1", "a@h2", "a@h1"]},
            "instance i-1: a@h1 and a@h2",
        ),
        ({"condition": STUCK, "suspects": 5}, ""),
        ({"condition": STUCK, "suspects": [5]}, ""),
        ({"condition": CONFLICT, "places": 5}, ""),
    ],
)
def test_who(fields: dict[str, Any], who: str) -> None:
    """Suspects, the member, the partition or the places; nothing of what the job cannot have written."""
    assert held(**fields).who == who


def test_blockers_are_proven() -> None:
    """Members that block are named with what they hold."""
    blocker = {**MEMBER, "revoking": {"orders": "0-3"}, "fenced_at_ms": None}
    assert held(condition=STUCK, blockers=[blocker]).who == "blocked by pods-7 on 10.0.0.7 (holds orders 0-3)"


def test_an_info_is_kept_small() -> None:
    """Any number of groups may have an INFO, and no alert needs its id."""
    assert held("INFO", **MEMBER) == Holding("x", "INFO")


def test_the_size_is_bounded() -> None:
    """Client ids may be 30 000 bytes long."""
    found = held(**{**MEMBER, "client_id": "x" * 30_000}, runbook="y" * 30_000, condition_id="z" * 30_000)
    assert max(map(len, (found.who, found.runbook, found.condition_id))) < 400


@pytest.mark.parametrize("kind", CONDITIONS, ids=lambda kind: kind.NAME)
def test_every_condition_can_be_kept(kind: Any) -> None:
    """The fields of each kind fit, and only conditions of a whole group are about nobody."""
    for example in kind.EXAMPLES:
        fields = msgspec.to_builtins(dict(example.fields))
        found = held(**{"condition": kind.NAME, **fields})
        assert found.condition == kind.NAME
        members = fields.get("blockers") or fields.get("suspects")
        about_one = {"member_id", "topic", "instance_id"} & {*fields} or members
        assert bool(found.who) == bool(about_one)


def test_a_group_that_does_not_matter_raises_no_alert() -> None:
    """Offsets that expire are a warning on its page, and nobody is told of them."""
    assert held("WARN", matters=False) == Holding("x", "WARN")
    assert held("WARN", matters=True).condition_id == "i"
