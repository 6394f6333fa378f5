"""What a release promises to those who read its output or call it, and what a later state of the code breaks of it.

``python release/contract.py store`` writes ``released_contract.json``, the promise of the next version; there is none
before the first release. The policy is docs/compatibility.md.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

import groupreplay
from groupreplay.app.cli.program import cli
from groupreplay.app.exporter.metric_catalog import METERS
from groupreplay.state.output.envelope import json_schemas
from groupreplay.streaming.base.errors import ExitCode
from groupreplay.timeline.document import timeline_schema

STORED: Final = Path(__file__).with_name("released_contract.json")

Schema = Mapping[str, Any]
#: Keywords of JSON Schema that say nothing about values, or that are compared in another way.
_TEXTS: Final = frozenset({"description", "title", "$schema", "default", "examples"})
_COMPARED: Final = frozenset(
    {"properties", "required", "enum", "anyOf", "items", "$defs", "additionalProperties"}
)


def contract() -> dict[str, Any]:
    """The promise of this state of the code, as JSON."""
    promise = {
        "version": groupreplay.__version__,
        "written": {**json_schemas(), "timeline": timeline_schema()},
        "flags": dict(_flags()),
        "exit_codes": {code.name: code.value for code in ExitCode},
        "metrics": {one.name: list(one.labels) for one in METERS},
    }
    # A default may be a tuple, which the stored promise has as a list.
    return json.loads(json.dumps(promise))  # type: ignore[no-any-return]


def broken_promises(released: Mapping[str, Any], present: Mapping[str, Any]) -> list[str]:
    """One line for each part of a release's promise that the present code does not keep.

    What is written may get fields, and lists of values may grow.
    """
    broken = []
    for name, schema in released["written"].items():
        if name not in present["written"]:
            broken.append(f"{name} is gone")
        else:
            broken += [f"{name}{line}" for line in _changed(schema, present["written"][name])]
    for command, flags in released["flags"].items():
        today = present["flags"].get(command, {})
        broken += [f"{command} {flag} is gone" for flag in flags if flag not in today]
        broken += [
            f"{command} {flag}: {kind} is {today[flag]}"
            for flag, kind in flags.items()
            if flag in today and today[flag] != kind
        ]
    for part in ("exit_codes", "metrics"):
        broken += [
            f"{name}: {value} is {present[part].get(name)}"
            for name, value in released[part].items()
            if present[part].get(name) != value
        ]
    return broken


def _flags() -> Iterator[tuple[str, dict[str, str]]]:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        options = [one for one in command.params if isinstance(one, click.Option)]
        yield (
            name,
            {
                flag: "switch" if one.is_flag else "repeated" if one.multiple else "value"
                for one in options
                for flag in (*one.opts, *one.secondary_opts)
            },
        )


def _changed(released: Schema, present: Schema, path: str = "") -> Iterator[str]:
    """The places below two schemas that differ in a way that the policy does not allow."""
    for word in sorted({*released, *present} - _TEXTS - _COMPARED):
        if released.get(word) != present.get(word):
            yield f"{path}: {word} {released.get(word)} is {present.get(word)}"
    for place in ("properties", "$defs"):
        for name, schema in released.get(place, {}).items():
            below = f"{path}.{name}"
            if name not in present.get(place, {}):
                yield f"{below} is gone"
            else:
                yield from _changed(schema, present[place][name], below)
    yield from _changed_lists(released, present, path)
    for word in ("items", "additionalProperties"):
        before, after = released.get(word), present.get(word)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _changed(before, after, f"{path}[]")
        elif before != after:
            yield f"{path}: {word} is another"


def _changed_lists(released: Schema, present: Schema, path: str) -> Iterator[str]:
    gone = [one for one in released.get("enum", ()) if one not in present.get("enum", ())]
    if gone or ("enum" in present) != ("enum" in released):
        yield f"{path}: values {gone or 'of another kind'} are gone"
    before, after = set(released.get("required", ())), set(present.get("required", ()))
    # A reader of an event counts on its fields.
    for name in sorted(before - after):
        yield f"{path}.{name} is optional"
    kinds, kinds_now = released.get("anyOf", ()), present.get("anyOf", ())
    if [_kind(one) for one in kinds] != [_kind(one) for one in kinds_now]:
        yield f"{path}: {[_kind(one) for one in kinds]} is {[_kind(one) for one in kinds_now]}"
    else:
        for one, other in zip(kinds, kinds_now, strict=True):
            yield from _changed(one, other, path)


def _kind(schema: Schema) -> str:
    return str(schema.get("title") or schema.get("type") or schema.get("$ref") or sorted({*schema} - _TEXTS))


def main() -> None:
    """`store` writes the promise of this version."""
    parser = argparse.ArgumentParser(prog="python release/contract.py", description=main.__doc__)
    parser.add_argument("action", choices=("store",))
    parser.parse_args()
    STORED.write_text(json.dumps(contract(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
