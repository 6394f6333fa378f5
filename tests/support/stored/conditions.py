"""Conditions as releases have stored them: one of each form that a kind has had.

A form is the names of the fields at every depth. An active condition stays stored as the release has reported it, so
every later release must read it. Before the first release there is none but the present forms, in the golden events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from support.job.replays import event_name
from support.paths import ROOT

FILE = ROOT / "tests" / "golden" / "stored_conditions.json"

Json = dict[str, Any]


def form(data: Any) -> Any:
    """The names of the fields at every depth, as a value that can be compared; a list is the set of its forms."""
    if isinstance(data, Mapping):
        return tuple(sorted((name, form(value)) for name, value in data.items()))
    if isinstance(data, list):
        return tuple(sorted({repr(form(value)) for value in data}))
    return ()


def load() -> list[Json]:
    """``condition`` (its name) and ``data``, the earliest first."""
    stored: list[Json] = json.loads(FILE.read_text()) if FILE.exists() else []
    return stored


def with_new_forms(stored: Iterable[Json], events: Iterable[Json]) -> list[Json]:
    """The list, and behind it the conditions among the events whose form is not in it."""
    found = [*stored]
    known = {(one["condition"], form(one["data"])) for one in found}
    for event in events:
        name, data = event_name(event), event["data"]
        if "condition_id" in data and (name, form(data)) not in known:
            known.add((name, form(data)))
            found.append({"condition": name, "data": data})
    return found
