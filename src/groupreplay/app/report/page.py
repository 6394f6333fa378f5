"""A report as one HTML file, without anything from a network: page, scripts and data; its size; its picture as SVG."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from groupreplay.app.report.assets import PAGE_SCRIPTS, PICTURE_SCRIPTS, asset, echarts, source_hash
from groupreplay.streaming.base.errors import unusable
from groupreplay.timeline.document import TimelineDocument
from groupreplay.timeline.limits import TimelineLimits
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
        "SCRIPTS": "\n".join(asset(name) for name in (*PAGE_SCRIPTS, "overview.js", "page.js")),
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


_WIDTH: Final = 1400


def timeline_svg(document: TimelineDocument, *, width: int = _WIDTH, dark: bool = False) -> str:
    """The whole picture with its verdict, ``width`` pixels wide.

    Raises:
        GroupReplayError: the JavaScript engine is not installed.
    """
    try:
        from py_mini_racer import MiniRacer
    except ImportError:
        fix = "install it: pip install 'groupreplay[svg]'; or save the picture from the HTML report"
        raise unusable("SVG needs the package mini-racer", None, fix) from None
    engine = MiniRacer()
    try:
        engine.eval(f"{echarts()};0")
        for name in PICTURE_SCRIPTS:
            engine.eval(f"{asset(name)};0")
        call = f"Picture.svg({data_island(document)}, {json.dumps(width)}, {json.dumps(dark)})"
        return str(engine.eval(call))
    finally:
        engine.close()


#: The size of a page without data: scripts and style.
_SHELL_BYTES: Final = 1_300_000
#: What the data of a page may take, of one group and of all groups: 10 MB and 6 MB with the scripts.
GROUP_BYTES: Final = 10_000_000 - _SHELL_BYTES
ALL_BYTES: Final = 6_000_000 - _SHELL_BYTES
#: The largest and the smallest part of its limits that a document gets in the next attempt.
_NEXT: Final = (0.1, 0.8)
#: A document shrinks less than its limits: what it has fewer of than allowed stays.
_STEEPER: Final = 1.5
#: After so many attempts the limits are at their least.
_ATTEMPTS: Final = 40


def fitted(
    documents: Sequence[TimelineDocument],
    remake: Callable[[int, TimelineLimits], TimelineDocument],
    limits: TimelineLimits,
    most_bytes: int,
) -> list[TimelineDocument]:
    """The documents in so many bytes together; the largest ones are made again with less of everything.

    ``remake`` makes the document with a number again, within limits. One that does not fit at the least limits is
    returned as it is then.
    """
    sizes = [island_bytes(document) for document in documents]
    most = _largest(sizes, most_bytes)
    return [
        document if size <= most else _smaller(document, number, remake, limits, most)
        for number, (document, size) in enumerate(zip(documents, sizes, strict=True))
    ]


def island_bytes(document: object) -> int:
    """The size of a document on a page; it is ASCII there."""
    return len(data_island(document))


def _largest(sizes: Sequence[int], most_bytes: int) -> int:
    """The size above which documents must shrink, so that all fit: small ones leave their share to the others."""
    left, count = most_bytes, len(sizes)
    for size in sorted(sizes):
        if size * count > left:
            return left // count
        left, count = left - size, count - 1
    return most_bytes


def _smaller(
    document: TimelineDocument,
    number: int,
    remake: Callable[[int, TimelineLimits], TimelineDocument],
    limits: TimelineLimits,
    most_bytes: int,
) -> TimelineDocument:
    for _ in range(_ATTEMPTS):
        size = island_bytes(document)
        if size <= most_bytes:
            break
        tighter = limits.scaled(min(max((most_bytes / size) ** _STEEPER, _NEXT[0]), _NEXT[1]))
        if tighter == limits:
            break
        limits = tighter
        document = remake(number, limits)
    return document
