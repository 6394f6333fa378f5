"""A change of what is stored is a change that earlier releases must know of."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.stored_form import VERSIONS, SnapshotError, StoredForm, sealed
from support.stored.layouts import FORMS, entry, layout, load, lost_places

STORED = load()


class Part(msgspec.Struct, array_like=True):
    """A part of a state."""

    one: int = 1


class State(msgspec.Struct, array_like=True):
    """A state with parts."""

    parts: dict[str, tuple[Part, ...]] = {}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.what)
def test_the_present_layout_is_on_record(form: StoredForm[Any]) -> None:
    """Otherwise raise ``reader`` in the FORM, and run ``cd tests && python -m golden.refresh_stored_layouts``.

    CONTRIBUTING.md has the rule. Without it an earlier release would read the state and write it back without the
    new field.
    """
    assert entry(form) == STORED[form.what][-1]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.what)
def test_fields_are_added_at_the_end_only(form: StoredForm[Any]) -> None:
    """Within one version every field stays at its place, and readers rise from one layout to the next."""
    entries = STORED[form.what]
    for before, after in pairwise(entries):
        if before["version"] == after["version"]:
            assert before["reader"] < after["reader"]
            assert lost_places(before["layout"], after["layout"]) == []


def test_no_flipped_bit_leads_to_a_state_without_a_checksum() -> None:
    """The version of each kind of state differs in two bits from all others, those of other kinds included."""
    for form in FORMS:
        others = {other.version for other in FORMS} - {form.version}
        near = [(form.what, version) for version in others if (form.version ^ version).bit_count() < 2]
        assert near == []
    assert {form.version for form in FORMS} == VERSIONS


def test_every_struct_is_seen() -> None:
    """The layout has the structs inside lists, maps and unions, and the tables that are stored as bytes."""
    assert layout(StoredForm("x", version=1, reader=1, kind=State)) == {
        "State": ["parts: dict[str, tuple[Part, ...]]"],
        "Part": ["one: int"],
    }
    found = next(layout(form) for form in FORMS if form.kind is GroupSnapshot)
    assert {"Member", "Modern", "Lost", "Probe", "ConditionKey", "Phase", "COMMITTED", "RHYTHM"} <= set(found)


@pytest.mark.parametrize(
    ("after", "lost"),
    [
        ({"A": ["x: int", "y: str"], "B": []}, []),
        ({"A": ["y: str", "x: int"]}, ["A.x: int"]),
        ({"A": ["x: str"]}, ["A.x: int"]),
        ({"A": []}, ["A.x: int"]),
        ({}, ["A.x: int"]),
    ],
)
def test_a_field_that_moves_is_found(after: dict[str, list[str]], lost: list[str]) -> None:
    """A new field at the end is none; one before others, of another type or removed is."""
    assert lost_places({"A": ["x: int"]}, after) == lost


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.what)
def test_a_later_reader_is_demanded(form: StoredForm[Any]) -> None:
    """What the next release marks as its own is refused with both numbers, and never read without its fields."""
    blob = sealed(form.version, form.reader + 1, msgspec.msgpack.encode([]))
    with pytest.raises(
        SnapshotError, match=f"for readers from {form.reader + 1} on, this release is reader {form.reader}"
    ):
        form.read(blob)
