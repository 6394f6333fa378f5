"""The pages: shells without data, and the files that they load, from ``web`` of this package and of the report."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Final

from groupreplay.app.report.assets import ECHARTS, PAGE_SCRIPTS, PICTURE_SCRIPTS, asset
from groupreplay.app.report.page import filled

#: Packages with a folder ``web``; a name in the later one wins.
_PACKAGES: Final = ("groupreplay.app.report", "groupreplay.app.serve")
_KINDS: Final = (".js", ".css", ".svg")
#: The policy of both pages: their own files only, and nothing inline.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
#: Scripts in the order in which they are loaded.
_BOARD: Final = (
    PICTURE_SCRIPTS[0],
    "elements.js",
    "strips.js",
    "live.js",
    "knowledge.js",
    "board_parts.js",
    "board.js",
)
_GROUP: Final = (ECHARTS, *PAGE_SCRIPTS, "live.js", "knowledge.js", "group.js")


def board_page() -> str:
    """The page at ``/``."""
    return _shell(_web("board_head.html"), _web("board.html"), _BOARD)


def group_page() -> str:
    """The page at ``/groups/ID``, the same for every group; its view of the group is that of a report."""
    body = filled(_web("group.html"), {"GROUP": asset("group.html")})
    return _shell(_web("group_head.html"), body, _GROUP)


@lru_cache(1)
def static_files() -> dict[str, bytes]:
    """The files below ``/static/`` by name; nothing else is read from disk for a request."""
    found: dict[str, bytes] = {}
    for package in _PACKAGES:
        folder = resources.files(package).joinpath("web")
        if folder.is_dir():
            found.update(
                {one.name: one.read_bytes() for one in folder.iterdir() if one.name.endswith(_KINDS)}
            )
    return found


def _shell(head: str, body: str, scripts: tuple[str, ...]) -> str:
    loaded = "\n".join(f'<script src="/static/{name}"></script>' for name in scripts)
    return filled(_web("frame.html"), {"HEAD": head, "BODY": body, "SCRIPTS": loaded})


def _web(name: str) -> str:
    file = resources.files("groupreplay.app.serve").joinpath("web").joinpath(name)
    return file.read_text("utf-8")
