"""The JSON Schema (2020-12) of a line of a trace."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from groupreplay.coordinator.trace_entries import AnyEntry

#: Its name beside those of the events.
TRACE_FILE: Final = "trace-file"
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def trace_schema() -> dict[str, Any]:
    """The schema of one line, whose ``kind`` says which fields it has."""
    return {"$schema": _DIALECT, "title": TRACE_FILE, **msgspec.json.schema(AnyEntry)}
