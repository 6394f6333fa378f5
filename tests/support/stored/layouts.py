"""What stands where in a stored state: the fields of every struct in it, by kind of state.

The golden file has one entry for each reader that a release has had; the last one is the present layout.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args, get_type_hints

import msgspec

from groupreplay.state.job import bad_records, job_state
from groupreplay.state.snapshot import group_snapshot
from groupreplay.state.snapshot.commit_intervals import RHYTHM
from groupreplay.state.snapshot.offsets import COMMITTED, MOVED
from groupreplay.state.stored_form import StoredForm
from groupreplay.streaming.engine import quarantine
from support.paths import ROOT

FILE = ROOT / "tests" / "golden" / "stored_layouts.json"
FORMS: tuple[StoredForm[Any], ...] = (group_snapshot.FORM, job_state.FORM, bad_records.FORM, quarantine.FORM)
#: Tables that a snapshot has as bytes.
_TABLES = {"COMMITTED": COMMITTED, "MOVED": MOVED, "RHYTHM": RHYTHM}

#: Fields by struct, in their order.
Layout = dict[str, list[str]]
Json = dict[str, Any]


def layout(form: StoredForm[Any]) -> Layout:
    """The layout of a kind of state: structs and tuples with ``name: type``, enumerations with their values."""
    found: Layout = {}
    for kind in _kinds(form.kind, set()):
        if issubclass(kind, Enum):
            found[kind.__name__] = [str(one.value) for one in kind]
        else:
            found[kind.__name__] = [f"{name}: {_annotation(kind, name)}" for name in _fields(kind)]
    if form is group_snapshot.FORM:
        tables = {
            name: [f"{field}: {dtype[field].str}" for field in dtype.names or ()]
            for name, dtype in _TABLES.items()
        }
        found |= tables
    return found


def _fields(kind: type) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(kind, "__struct_fields__", ()) or getattr(kind, "_fields", ())
    return names


def _annotation(kind: type, name: str) -> str:
    """The type of a field as it is written, also of one that is inherited."""
    return next(str(one.__annotations__[name]) for one in kind.__mro__ if name in one.__annotations__)


def _kinds(annotation: Any, seen: set[type]) -> Iterator[type]:
    """The structs, named tuples and enumerations in an annotation, and those in their fields."""
    for inner in get_args(annotation):
        yield from _kinds(inner, seen)
    stored = isinstance(annotation, type) and (
        issubclass(annotation, msgspec.Struct | Enum) or hasattr(annotation, "_fields")
    )
    if stored and annotation not in seen:
        seen.add(annotation)
        yield annotation
        if not issubclass(annotation, Enum):
            for hint in get_type_hints(annotation).values():
                yield from _kinds(hint, seen)


def load() -> dict[str, list[Json]]:
    """The entries by kind of state: ``version``, ``reader`` and ``layout``."""
    stored: dict[str, list[Json]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return stored


def entry(form: StoredForm[Any]) -> Json:
    """The present entry of a kind of state."""
    return {"version": form.version, "reader": form.reader, "layout": layout(form)}


def lost_places(before: Layout, after: Layout) -> list[str]:
    """Fields that do not stand where a former layout has them, or that a reader of it would take for another."""
    return [
        f"{struct}.{old}"
        for struct, fields in before.items()
        for place, old in enumerate(fields)
        if after.get(struct, [])[place : place + 1] != [old]
    ]
