"""What stands before pages and API: the Host header, the token, bodies, rates, and headers of every answer."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from groupreplay.app.exporter.http_server import Rates, client_of
from groupreplay.app.serve.answers import Error
from groupreplay.app.serve.pages import POLICY
from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.base.files import warn_readable

#: Open to everybody who can connect, as with ``--metrics-only``: Prometheus and orchestrators have no token.
OPEN_PATHS: Final = frozenset({"/metrics", "/healthz", "/readyz"})
LEAST_TOKEN: Final = 16
_MOST_TOKEN: Final = 4_096
#: Requests of one client address: so many at once, and so many each second after that.
BURST: Final = 300.0
A_SECOND: Final = 50.0
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]/@\s]+)(?::\d{1,5})?")


def read_token(path: Path) -> str:
    """The token in a file, without white space around it.

    Raises:
        GroupReplayError: the file cannot be read, or what it has is too short to be a secret.
    """
    fix = "write a random token, for example: (umask 077; openssl rand -hex 32 > FILE)"
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise unusable(f"cannot read the token, {why}", path, fix) from None
    warn_readable(path, "token")
    if not LEAST_TOKEN <= len(token) <= _MOST_TOKEN or not token.isprintable() or not token.isascii():
        what = f"the token must have {LEAST_TOKEN} to {_MOST_TOKEN} printable ASCII characters"
        raise unusable(what, path, fix)
    return token


def need_token(host: str, path: Path | None) -> str | None:
    """The token of a file; None without a file, on an address that only this machine reaches.

    Raises:
        GroupReplayError: the file has no token, or other machines could read without one.
    """
    if path is not None:
        return read_token(path)
    if not is_loopback(host):
        fix = "give --auth-token-file FILE, or listen on 127.0.0.1"
        raise unusable("other machines would read everything without a token", host, fix)
    return None


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Guard:
    """An ASGI application before another one.

    ``hosts`` are names that a Host header may have besides addresses and ``localhost``: a page of another site that
    has its name resolved to this machine is refused. With a ``token`` every path below ``/api/`` needs it; the others
    hold no data. ``posts`` are paths that are asked by POST with a body, and in no other way.
    """

    def __init__(
        self,
        application: ASGIApp,
        *,
        token: str | None,
        hosts: Collection[str],
        seconds: Callable[[], float],
        posts: Collection[str] = (),
    ) -> None:
        self._application = application
        self._posts = frozenset(posts)
        self._token = None if token is None else _digest(token.encode())
        self._hosts = frozenset(host.lower().rstrip(".") for host in hosts)
        self._rates = Rates(seconds, burst=BURST, a_second=A_SECOND)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        refused = self._refusal(scope)
        guarded = _with_headers(send)
        if refused is None:
            await self._application(scope, receive, guarded)
        else:
            status, why, more = refused
            headers = {"content-type": "application/json", "cache-control": "no-store", **more}
            body = b"" if scope["method"] == "HEAD" else msgspec.json.encode(Error(why))
            await Response(body, status, headers)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> tuple[int, str, Mapping[str, str]] | None:
        headers = _headers(scope)
        bad_form = _bad_post if scope["path"] in self._posts else _bad_form
        if refused := bad_form(scope, headers):
            return refused
        if scope["path"] in OPEN_PATHS:
            # These routes count by themselves, also with `--metrics-only`.
            return None
        if not self._knows(headers.get("host", "")):
            return 400, "the Host header names another server; --allowed-host NAME allows a name", {}
        if not self._rates.allow(client_of(scope)):
            return 429, "too many requests from this address", {"retry-after": "1"}
        if scope["path"].startswith("/api/") and not self._is_authorised(headers.get("authorization", "")):
            return 401, "a token is needed: Authorization: Bearer TOKEN", {"www-authenticate": "Bearer"}
        return None

    def _knows(self, header: str) -> bool:
        host = _HOST.fullmatch(header)
        if host is None:
            return False
        name = host[1].strip("[]").lower().rstrip(".")
        if name == "localhost" or name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _is_authorised(self, header: str) -> bool:
        if self._token is None:
            return True
        scheme, _, token = header.partition(" ")
        # Digests have one length, so that the comparison takes the same time for every token.
        same = hmac.compare_digest(_digest(token.strip().encode("utf-8", "replace")), self._token)
        return same and scheme.lower() == "bearer"


def _bad_form(scope: Scope, headers: Mapping[str, str]) -> tuple[int, str, Mapping[str, str]] | None:
    if scope["method"] not in ("GET", "HEAD"):
        return 405, "only GET and HEAD are answered", {"allow": "GET, HEAD"}
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        return 413, "a request has no body here", {"connection": "close"}
    return None


def _bad_post(scope: Scope, headers: Mapping[str, str]) -> tuple[int, str, Mapping[str, str]] | None:
    if scope["method"] != "POST":
        return 405, "only POST is answered here", {"allow": "POST"}
    origin = headers.get("origin")
    # A browser sends it with every POST: a page of another site may send one without reading the answer.
    if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
        return 403, "the Origin header names another site", {"connection": "close"}
    return None


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def _headers(scope: Scope) -> dict[str, str]:
    """The headers by name; of several with one name all values, so that none of them goes unseen."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]},{text}" if key in headers else text
    return headers


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, text in _HEADERS.items():
                headers.setdefault(name, text)
        await send(message)

    return sending
