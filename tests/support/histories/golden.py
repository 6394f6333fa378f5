"""The golden events and schemas: what all of them have in common is stored once, and what each has of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from support.paths import ROOT

Json = dict[str, Any]
EVENTS_FILE: Final = ROOT / "tests" / "golden" / "events.json"
SCHEMAS_FILE: Final = ROOT / "tests" / "golden" / "schemas.json"
#: Stands for the name of the event in what the schemas have in common.
_NAME: Final = "EVENT"


def load_events() -> dict[str, list[Json]]:
    """The events by name."""
    stored = json.loads(EVENTS_FILE.read_text(encoding="utf-8"))
    return {
        name: [_joined(stored["common"], event) for event in events]
        for name, events in stored["events"].items()
    }


def load_schemas() -> dict[str, Json]:
    """The schemas by name of the event."""
    stored = json.loads(SCHEMAS_FILE.read_text(encoding="utf-8"))
    return {name: _schema(name, stored["common"], own) for name, own in stored["events"].items()}


def write_events(events: Mapping[str, list[Json]]) -> None:
    """Write the events, one in a line."""
    every = [event for named in events.values() for event in named]
    common = {**_common(every), "data": _common(event["data"] for event in every)}
    own = {name: [_without(common, event) for event in named] for name, named in events.items()}
    _write(EVENTS_FILE, common, own)


def write_schemas(schemas: Mapping[str, Json]) -> None:
    """Write the schemas: the envelope once, and the fields of each event. They must differ in nothing else."""
    data = {name: schema["properties"]["data"] for name, schema in schemas.items()}
    shared = _common(one["properties"] for one in data.values())
    own = {
        name: {
            "description": schema["description"],
            "properties": {
                field: value for field, value in data[name]["properties"].items() if field not in shared
            },
            "required": [field for field in data[name]["required"] if field not in shared],
        }
        for name, schema in schemas.items()
    }
    first, schema = next(iter(schemas.items()))
    envelope = json.loads(json.dumps(schema).replace(first, _NAME))
    envelope["properties"]["data"] |= {
        "properties": shared,
        "required": [field for field in data[first]["required"] if field in shared],
    }
    assert all(_schema(name, envelope, own[name]) == schema for name, schema in schemas.items())
    _write(SCHEMAS_FILE, envelope, own)


def _schema(name: str, common: Json, own: Json) -> Json:
    schema: Json = json.loads(json.dumps(common).replace(_NAME, name))
    data = schema["properties"]["data"]
    data["properties"] |= own["properties"]
    data["required"] += own["required"]
    return {**schema, "description": own["description"]}


def _common(parts: Iterable[Json]) -> Json:
    """The fields that all have with the same value."""
    first, *others = parts
    return {
        name: value
        for name, value in first.items()
        if all(name in other and other[name] == value for other in others)
    }


def _without(common: Json, event: Json) -> Json:
    own = {name: value for name, value in event.items() if name not in common}
    return {
        **own,
        "data": {name: value for name, value in event["data"].items() if name not in common["data"]},
    }


def _joined(common: Json, event: Json) -> Json:
    return {**common, **event, "data": {**common["data"], **event["data"]}}


def _write(file: Path, common: Json, own: Mapping[str, Any]) -> None:
    """Write what is common, and below it a line for each event or for each part and field of a schema."""
    text = json.dumps({"common": common, "events": {name: [] for name in own}}, indent=1, ensure_ascii=False)
    for name, parts in own.items():
        text = text.replace(f'"{name}": []', f'"{name}": {_lines(parts)}')
    file.write_text(text + "\n", encoding="utf-8")


def _lines(parts: Json | list[Json]) -> str:
    if isinstance(parts, list):
        return "[\n   " + ",\n   ".join(json.dumps(part, ensure_ascii=False) for part in parts) + "\n  ]"
    fields = ",\n    ".join(
        f"{json.dumps(field)}: {json.dumps(value, ensure_ascii=False)}"
        for field, value in parts["properties"].items()
    )
    others = json.dumps({**parts, "properties": {}}, ensure_ascii=False)
    return others.replace('"properties": {}', f'\n   "properties": {{\n    {fields}\n   }}')
