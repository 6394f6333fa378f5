"""Translates ``msgspec``'s messages about a scenario file for the author of the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from groupreplay.coordinator.simulation.scenario_file import STEPS, ScenarioFile
from groupreplay.streaming.base.errors import GroupReplayError, did_you_mean, unusable

HELP: Final = "docs/simulations.md describes the format; groupreplay simulate --show NAME prints an example"
#: ``msgspec``'s names of types -> words.
_TYPES: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
_ACTIONS: Final = tuple(str(one.__struct_config__.tag) for one in STEPS)
_MOST_SHOWN: Final = 80


def translated(message: str, raw: dict[str, Any], where: str) -> GroupReplayError:
    """The error for a message such as ``Invalid value 'hagn' - at `$.event[0].steps[0].do```."""
    what, _, path = message.partition(" - at `$")
    tokens = [name or int(index) for name, index in re.findall(r"([\w-]+)|\[(\d+)\]", path.rstrip("`"))]
    name = re.findall(r"`([^`]*)`", what)
    if what.startswith("Object contains unknown field"):
        place = _place(tokens)
        return _unknown(name[0], _known(raw, tokens), f"{where}, {place}" if place else where)
    if what.startswith("Object missing required field"):
        place = _place(tokens)
        return unusable(f"{name[0]} is missing", f"{where}, {place}" if place else where, HELP)
    value = str(_value(raw, tokens))[:_MOST_SHOWN]
    place = f"{where}, {_place(tokens[:-1])}" if len(tokens) > 1 else where
    return unusable(f"{_last(tokens)} = {value}: {_allowed(what, raw, tokens)}", place, HELP)


def _unknown(name: str, known: tuple[str, ...], where: str) -> GroupReplayError:
    return unusable(
        f"unknown key {name!r}", where, f"{did_you_mean(name, known)}known here: {', '.join(known)}"
    )


def _allowed(what: str, raw: dict[str, Any], tokens: list[str | int]) -> str:
    """What is allowed in a place, from the first half of a message."""
    if "matching regex" in what:
        return "not a time; write 500ms, 90s, 20m, 1h or 2d"
    words = _ACTIONS if tokens and tokens[-1] == "do" else tuple(_words(_annotation(raw, tokens)))
    invalid = re.match(r"Invalid (?:enum )?value (.*)", what)
    if invalid and words:
        near = did_you_mean(invalid[1].strip("'"), words)
        return f"{near}allowed: {', '.join(words)}"
    text = re.sub(
        r"`([^`]*)`", lambda found: " or ".join(_TYPES.get(one, one) for one in found[1].split(" | ")), what
    )
    return text[:1].lower() + text[1:]


def _place(tokens: list[str | int]) -> str:
    """``[[event]] 1, steps 2``."""
    parts: list[str] = []
    for token in tokens:
        if isinstance(token, int):
            parts[-1] += f" {token + 1}"
        elif not parts:
            parts.append(f"[[{token}]]" if token in ("event", "mixture") else f"[{token}]")
        else:
            parts.append(token)
    return ", ".join(parts)


def _last(tokens: list[str | int]) -> str:
    if not tokens:
        return "the file"
    return _place(tokens[-2:]) if isinstance(tokens[-1], int) else str(tokens[-1])


def _value(raw: Any, tokens: list[str | int]) -> Any:
    for token in tokens:
        raw = raw[token]
    return raw


def _known(raw: dict[str, Any], tokens: list[str | int]) -> tuple[str, ...]:
    """The keys of the table in a place."""
    table = _table(_value(raw, tokens), ScenarioFile if not tokens else _annotation(raw, tokens))
    fields = () if table is None else table.__struct_encode_fields__
    return ("do", *fields) if table in STEPS else fields


def _annotation(raw: dict[str, Any], tokens: list[str | int]) -> Any:
    """The type of a place in the file."""
    found: Any = ScenarioFile
    value: Any = raw
    for token in tokens:
        if isinstance(token, str):
            table = _table(value, found)
            if table is None:
                return Any
            names = dict(zip(table.__struct_encode_fields__, table.__struct_fields__, strict=True))
            found = get_type_hints(table, include_extras=True).get(names.get(token, ""), Any)
        value = _value(value, [token])
    return found


def _table(value: Any, annotation: Any) -> type[msgspec.Struct] | None:
    """The struct for a table; the word behind ``do`` chooses one of several."""
    tables = list(_structs(annotation))
    if len(tables) > 1 and isinstance(value, dict):
        tables = [one for one in tables if one.__struct_config__.tag == value.get("do")]
    return tables[0] if tables else None


def _structs(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
    for part in get_args(annotation):
        yield from _structs(part)


def _words(annotation: Any) -> Iterator[str]:
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
        return
    for part in get_args(annotation):
        yield from _words(part)
