"""What was promised is kept: events and documents gain fields only, and flags, exit codes and metrics stay."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from contract import STORED, broken_promises, contract
from support.histories.golden import load_events
from support.paths import ROOT

#: Before the first release: what it would promise now.
RELEASED = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else contract()
PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")


@pytest.mark.skipif(not STORED.exists(), reason="no release has promised anything")
def test_nothing_that_was_promised_is_gone() -> None:
    """The present code keeps the stored promise; docs/compatibility.md says what to do if it cannot."""
    assert broken_promises(RELEASED, contract()) == []


def test_a_reader_of_the_release_reads_the_events_of_today() -> None:
    """Today's golden events follow the released schemas, once those allow fields that were added later."""
    events = load_events()
    for name, schema in RELEASED["written"].items():
        validator = Draft202012Validator(_open(schema))
        found = [error.message for event in events.get(name, ()) for error in validator.iter_errors(event)]
        assert found == [], name


def _open(schema: Any) -> Any:
    """The schema without closed objects and lists of values, which may grow."""
    if isinstance(schema, dict):
        return {
            word: _open(value)
            for word, value in schema.items()
            if word != "enum" and (word, value) != ("additionalProperties", False)
        }
    return [_open(one) for one in schema] if isinstance(schema, list) else schema


def later(**parts: Any) -> dict[str, Any]:
    """A small promise."""
    event = {
        "type": "object",
        "properties": {
            "reason": {"enum": ["left", "kicked"], "description": "Why."},
            "members": {"type": "array", "items": {"$ref": "#/$defs/Member"}},
            "since_ms": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["reason"],
        "$defs": {
            "Member": {"type": "object", "properties": {"host": {"type": "string"}}, "required": ["host"]}
        },
    }
    base: dict[str, Any] = {
        "written": {"e": event},
        "flags": {"run": {"--once": "switch", "--trigger": "value"}},
        "exit_codes": {"OK": 0},
        "metrics": {"up": ["group"]},
    }
    return base | parts


def changed(part: str, *path: str | int, to: Any = None) -> dict[str, Any]:
    """The small promise with another value at a place, or without that place."""
    found = copy.deepcopy(later())
    place = found[part]
    for step in path[:-1]:
        place = place[step]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return found


OF_EVENT = ("written", "e")
REASON = (*OF_EVENT, "properties", "reason")


@pytest.mark.parametrize(
    "present",
    [
        changed(*OF_EVENT, "properties", "more", to={"type": "string"}),
        changed(*OF_EVENT, "required", to=["reason", "members"]),
        changed(*REASON, "enum", to=["left", "kicked", "fenced"]),
        changed(*REASON, "description", to="Another text."),
        changed(*OF_EVENT, "$defs", "Member", "properties", "rack", to={"type": "string"}),
        changed("written", "another", to={"type": "object"}),
        changed("flags", "run", "--new", to="value"),
        changed("exit_codes", "NEW", to=7),
        changed("metrics", "another", to=[]),
    ],
)
def test_what_may_change(present: dict[str, Any]) -> None:
    """Events, fields, values, flags, codes and metrics may be added; what is written may become certain."""
    assert broken_promises(later(), present) == []


@pytest.mark.parametrize(
    ("present", "line"),
    [
        (changed("written", "e"), "e is gone"),
        (changed(*REASON), "e.reason is gone"),
        (changed(*REASON, "enum", to=["left"]), "e.reason: values ['kicked'] are gone"),
        (changed(*OF_EVENT, "required", to=[]), "e.reason is optional"),
        (changed(*OF_EVENT, "properties", "members", "type", to="object"), "e.members: type array is object"),
        (changed(*OF_EVENT, "$defs", "Member", "properties", "host"), "e.Member.host is gone"),
        (
            changed(*OF_EVENT, "properties", "since_ms", "anyOf", to=[{"type": "integer"}]),
            "e.since_ms: ['integer', 'null'] is ['integer']",
        ),
        (
            changed(*OF_EVENT, "properties", "since_ms", "anyOf", to=[{"type": "string"}, {"type": "null"}]),
            "e.since_ms: ['integer', 'null'] is ['string', 'null']",
        ),
        (changed("flags", "run", "--once"), "run --once is gone"),
        (changed("flags", "run", "--once", to="value"), "run --once: switch is value"),
        (changed("flags", "run"), "run --once is gone"),
        (changed("exit_codes", "OK", to=1), "OK: 0 is 1"),
        (changed("metrics", "up", to=["group", "topic"]), "up: ['group'] is ['group', 'topic']"),
        (changed("metrics", "up"), "up: ['group'] is None"),
    ],
)
def test_what_may_not_change(present: dict[str, Any], line: str) -> None:
    """Each change that breaks a reader or a caller is named with its place."""
    assert line in broken_promises(later(), present)


def test_the_page_has_the_parts_of_the_contract() -> None:
    """docs/compatibility.md has a section for everything that is compared, and for what is stored."""
    for heading in (
        "Events",
        "Files that it reads",
        "Commands and flags",
        "Exit codes",
        "Metrics",
        "Stored state",
    ):
        assert f"\n## {heading}\n" in PAGE
