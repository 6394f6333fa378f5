"""The JSON Schema (2020-12) of scenario files, made from their structure and from the table of settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from groupreplay.coordinator.simulation.scenario_file import Choice, MixturePart, ScenarioFile
from groupreplay.coordinator.simulation.settings_table import BROKER_SETTINGS, CLIENT_SETTINGS, Setting

#: Its name on the command line.
SCENARIO_FILE: Final = "scenario-file"


def scenario_schema() -> dict[str, Any]:
    """The schema of a scenario file; the values of Kafka's settings have the types and bounds of the table."""
    (whole,), components = msgspec.json.schema_components([ScenarioFile])
    file = components[ScenarioFile.__name__]["properties"]
    file["broker"] = _settings(BROKER_SETTINGS, drawn=False)
    file["client"] = _settings(CLIENT_SETTINGS, drawn=True)
    components[MixturePart.__name__]["properties"]["client"] = file["client"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:groupreplay:schema:scenario-file:v1",
        **whole,
        "$defs": {name: _described(component) for name, component in components.items()},
    }


def _described(schema: Any) -> Any:
    """A schema whose descriptions are one line each, since they come from docstrings.

    Null is the last alternative, where newer releases of msgspec have it.
    """
    if isinstance(schema, list | tuple):
        return [_described(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _described(value) for name, value in schema.items()}
    if isinstance(found.get("description"), str):
        found["description"] = " ".join(found["description"].split())
    if "anyOf" in found:
        found["anyOf"].sort(key=lambda one: one.get("type") == "null")
    return found


def _settings(table: Mapping[str, Setting], *, drawn: bool) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: _property(one, drawn=drawn) for name, one in table.items()},
        "additionalProperties": False,
        "default": {},
    }


def _property(one: Setting, *, drawn: bool) -> dict[str, Any]:
    value = _value(one)
    about = {"description": one.doc, "default": one.default}
    if not drawn:
        return {**value, **about}
    weights = {"type": "array", "items": {"type": "number", "minimum": 0}}
    choice = {
        "title": Choice.__name__,
        "type": "object",
        "properties": {"one-of": {"type": "array", "items": value, "minItems": 1}, "weights": weights},
        "required": ["one-of"],
        "additionalProperties": False,
    }
    return {"anyOf": [value, choice], **about}


def _value(one: Setting) -> dict[str, Any]:
    if isinstance(one.default, int):
        return {"type": "integer", "minimum": one.least, "maximum": one.most}
    word = {"type": "string", "enum": list(one.words)} if one.words else {"type": "string"}
    if isinstance(one.default, str):
        return word
    several = {"type": "array", "items": word, "minItems": 1, "uniqueItems": True}
    return {"anyOf": [{"type": "string"}, several]}
