"""The JSON Schema of scenario files: the golden one, every built-in scenario, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from groupreplay.app.simulate.scenario_files import built_in_names, built_in_text
from groupreplay.coordinator.simulation.scenario_file import STEPS
from groupreplay.coordinator.simulation.scenario_schema import scenario_schema
from groupreplay.coordinator.simulation.settings_table import BROKER_SETTINGS, CLIENT_SETTINGS
from support.paths import ROOT

VALIDATOR = Draft202012Validator(scenario_schema())


def test_the_schema_is_the_golden_one() -> None:
    """A change is meant, and changes the golden file (``python -m golden.refresh``)."""
    golden = json.loads((ROOT / "tests" / "golden" / "scenario_file_schema.json").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(scenario_schema())) == golden
    Draft202012Validator.check_schema(golden)


@pytest.mark.parametrize("name", built_in_names())
def test_a_built_in_scenario_is_valid(name: str) -> None:
    """So an editor that knows the schema finds no mistake."""
    VALIDATOR.validate(msgspec.toml.decode(built_in_text(name)))


def test_the_schema_has_every_setting_and_every_step() -> None:
    """By Kafka's names, and by the words behind ``do``."""
    definitions = scenario_schema()["$defs"]
    file = definitions["ScenarioFile"]["properties"]
    for table, settings in (("broker", BROKER_SETTINGS), ("client", CLIENT_SETTINGS)):
        assert list(file[table]["properties"]) == list(settings)
    steps = definitions["ScriptedEvent"]["properties"]["steps"]["items"]["discriminator"]["mapping"]
    assert list(steps) == [one.__struct_config__.tag for one in STEPS]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"title": "t", "brokr": {}},
        {"title": "t", "broker": {"group.max.size": 0}},
        {"title": "t", "broker": {"session.timeout.ms": 6_000}},
        {"title": "t", "client": {"group.protocol": "streams"}},
        {"title": "t", "client": {"group.protocol": {"one-of": ["streams"]}}},
        {"title": "t", "group": {"members": "three"}},
        {"title": "t", "event": [{"steps": [{"do": "start"}]}]},
        {"title": "t", "event": [{"after": "soon", "steps": []}]},
        {"title": "t", "mixture": [{"weight": 1}]},
    ],
)
def test_a_file_with_a_mistake_is_not_valid(wrong: dict[str, Any]) -> None:
    """Names, bounds, words, types, times, and what is missing."""
    assert not VALIDATOR.is_valid(wrong)
