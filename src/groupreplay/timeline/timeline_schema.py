"""The JSON Schema (2020-12) of the timeline document."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from groupreplay.timeline.document import TIMELINE_FORM, TimelineDocument

#: Its name beside those of the events.
TIMELINE: Final = "timeline"
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def timeline_schema() -> dict[str, Any]:
    """The schema of a document, with ``form`` as its constant."""
    # msgspec leaves defaults as they are: a tuple is no JSON.
    schema = msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(TimelineDocument)))
    schema["$defs"][TimelineDocument.__name__]["properties"]["form"] = {"const": TIMELINE_FORM}
    return {"$schema": _DIALECT, "title": TIMELINE, **schema}
