"""The pages: shells without data, and the files that they load, from ``web`` of this package and of the report."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import resources
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from groupreplay.app.report.assets import ECHARTS, PAGE_SCRIPTS, PICTURE_SCRIPTS, asset
from groupreplay.app.report.page import filled
from groupreplay.app.serve.requests import RequestError

#: Packages with a folder ``web``; a name in the later one wins.
_PACKAGES: Final = ("groupreplay.app.report", "groupreplay.app.serve")
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_KINDS: Final = (".js", ".css", ".svg")
_LEAST_COMPRESSED: Final = 1_000
_NAMED: Final = re.compile(r"/static/([\w.-]+)")
#: The policy of both pages: their own files only, and nothing inline.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_web: Final = partial(asset, package="groupreplay.app.serve")
#: Scripts in the order in which they are loaded.
_BOARD: Final = (
    PICTURE_SCRIPTS[0],
    "address.js",
    "elements.js",
    "strips.js",
    "live.js",
    "knowledge.js",
    "board_parts.js",
    "board.js",
)
_INCIDENTS: Final = (*_BOARD[:-1], "incidents.js")
#: The picture's library is larger than all else together: behind what asks for the data.
_GROUP: Final = (*PAGE_SCRIPTS, "live.js", "knowledge.js", "group.js", ECHARTS)


def board_page() -> str:
    """The page at ``/``."""
    return _page(_web("board_head.html"), _web("board.html"), _BOARD)


def incidents_page() -> str:
    """The page at ``/incidents``."""
    return _page(_web("incidents_head.html"), _web("incidents.html"), _INCIDENTS)


def group_page() -> str:
    """The page at ``/groups/ID``, the same for every group; its view of the group is that of a report."""
    body = filled(_web("group.html"), {"GROUP": asset("group.html")})
    return _page(_web("group_head.html"), body, _GROUP)


@lru_cache(1)
def static_files() -> dict[str, bytes]:
    """The files below ``/static/`` by name; nothing else is read from disk for a request."""
    files: dict[str, bytes] = {}
    for package in _PACKAGES:
        folder = resources.files(package).joinpath("web")
        if folder.is_dir():
            files.update(
                {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(_KINDS)}
            )
    return files


def _page(head: str, body: str, scripts: tuple[str, ...]) -> str:
    loaded = "\n".join(f'<script src="/static/{name}"></script>' for name in scripts)
    page = filled(_web("frame.html"), {"HEAD": head, "BODY": body, "SCRIPTS": loaded})
    # Another release has other addresses, so that a browser never asks for a file that it has.
    return _NAMED.sub(lambda name: f"{name[0]}?v={_files()[name[1]].version}", page)


def shell_endpoint(page: Callable[[], str]) -> Callable[[Request], Any]:
    """A page without data, the same for everybody."""
    file = _file("shell.html", page().encode())

    async def answer(request: Request) -> Response:
        return _answer(request, file)

    return answer


async def static_endpoint(request: Request) -> Response:
    """A file of ``static_files``.

    Raises:
        RequestError: there is none of this name.
    """
    file = _files().get(request.path_params["name"])
    if file is None:
        raise RequestError(404, "there is no such file")
    return _answer(request, file)


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    #: The same by gzip, once for all requests; None: too small for that.
    packed: bytes | None
    kind: str
    version: str


@lru_cache(1)
def _files() -> dict[str, _File]:
    return {name: _file(name, body) for name, body in static_files().items()}


def _file(name: str, body: bytes) -> _File:
    packed = gzip.compress(body, mtime=0) if len(body) >= _LEAST_COMPRESSED else None
    return _File(body, packed, _TYPES[name[name.rfind(".") :]], hashlib.sha256(body).hexdigest()[:32])


def _answer(request: Request, file: _File) -> Response:
    is_named = request.query_params.get("v") == file.version
    etag = f'"{file.version}"'
    # A browser asks each time for all else, and gets nothing again that it has.
    kept = "private, max-age=31536000, immutable" if is_named else "no-cache"
    headers = {"ETag": etag, "Cache-Control": kept}
    tags = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if etag in tags or "*" in tags:
        return Response(status_code=304, headers=headers)
    headers["Content-Type"] = file.kind
    if file.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(
            file.packed, headers={**headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        )
    return Response(file.body, headers=headers)
