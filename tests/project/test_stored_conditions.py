"""A condition that holds over an update of the job is read by the new release."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from groupreplay.state.conditions.registry import KINDS
from support.histories.samples import one_of_each, written
from support.stored.conditions import Json, form, load, with_new_forms

PRESENT = with_new_forms([], map(written, one_of_each()))


@pytest.mark.parametrize("stored", [*load(), *PRESENT], ids=lambda stored: stored["condition"])
def test_every_form_that_was_ever_stored_is_read(stored: Json) -> None:
    """A field that a condition has got since has a default; what was stored is kept.

    Otherwise the group would be quarantined at the first batch of the new release.
    """
    kind = KINDS[stored["condition"]]
    read = msgspec.to_builtins(msgspec.json.decode(json.dumps(stored["data"]), type=kind))
    assert set(read) & set(stored["data"]) >= {
        "status",
        "condition_id",
        "since_ms",
        "threshold_ms",
        "runbook",
    }
    own = {name: value for name, value in stored["data"].items() if name in read}
    assert _cut_to(own, read) == own


def test_a_form_is_stored_once() -> None:
    """A release adds the forms that are new, and no other event than conditions."""
    assert {stored["condition"] for stored in PRESENT} == {*KINDS}
    assert with_new_forms(PRESENT, map(written, one_of_each())) == PRESENT
    assert with_new_forms(PRESENT[1:], map(written, one_of_each())) == [*PRESENT[1:], PRESENT[0]]


def test_forms_differ_by_names_at_every_depth() -> None:
    """A field of an element of a list makes another form; another value does not."""
    assert form({"a": [{"b": 1}, {"b": 2}], "c": None}) == form({"c": "x", "a": [{"b": 3}]})
    assert form({"a": [{"b": 1}]}) != form({"a": [{"b": 1, "d": 2}]})
    assert form({"a": 1}) != form({"a": 1, "b": 1})


def _cut_to(stored: Any, read: Any) -> Any:
    """What was read, without the fields that were not stored, at every depth."""
    if isinstance(stored, dict):
        return {name: _cut_to(value, read[name]) for name, value in stored.items()}
    if isinstance(stored, list):
        return [_cut_to(*both) for both in zip(stored, read, strict=True)]
    return read
