"""A report as one HTML file: page, scripts and data, without anything from a network."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from groupreplay.app.report.assets import PAGE_SCRIPTS, asset, echarts, source_hash
from groupreplay.timeline.document import TimelineDocument
from groupreplay.timeline.overview import GroupsOverview

_PLACE: Final = re.compile(r"@([A-Z]+)@")
#: Characters that could end the element with the data, or begin a comment in it.
_ESCAPES: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def report_page(document: TimelineDocument | GroupsOverview) -> str:
    """The page of one group or of all groups.

    Its policy allows exactly its own scripts and its own style, by their hashes, and no request.
    """
    style = asset("page.css")
    scripts = {
        "ECHARTS": echarts(),
        "SCRIPTS": "\n".join(asset(name) for name in (*PAGE_SCRIPTS, "page.js")),
    }
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(source_hash, scripts.values()))}",
            f"style-src {source_hash(style)}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    parts = {
        "POLICY": policy,
        "STYLE": style,
        "DATA": data_island(document),
        "GROUP": asset("group.html"),
        **scripts,
    }
    return filled(asset("page.html"), parts)


def filled(template: str, parts: Mapping[str, str]) -> str:
    """A template whose places, such as ``@STYLE@``, are replaced by the parts of these names, once."""
    return _PLACE.sub(lambda match: parts[match[1]], template)


def data_island(document: Any) -> str:
    """The document as JSON that can stand in an element of HTML: in ASCII, without ``<``, ``>`` and ``&``."""
    text = json.dumps(msgspec.to_builtins(document), separators=(",", ":"))
    return text.translate(_ESCAPES)
