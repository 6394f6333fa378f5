"""The HTTP server of the exporter: metrics, health and readiness."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from typing import TYPE_CHECKING, Any, Final, cast

from groupreplay.state.display.phrases import timestamp
from groupreplay.state.display.safe_text import safe_text
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.exporter.collector import measure
from groupreplay.streaming.exporter.feed import SinkFeed
from groupreplay.streaming.exporter.freshness import Limits, is_fresh
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot

if TYPE_CHECKING:
    from prometheus_client.core import Metric

log = logging.getLogger(__name__)

#: A client that sends nothing for this long is disconnected.
_CLIENT_SECONDS: Final = 10.0
_TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Page:
    """An answer to a client."""

    status: HTTPStatus
    content_type: str
    body: bytes


class Exporter:
    """The pages by path; they do not depend on the HTTP server."""

    def __init__(self, feed: SinkFeed, limits: Limits, clock: Callable[[], int]) -> None:
        self._feed = feed
        self._limits = limits
        self._clock = clock

    def collect(self) -> list[Metric]:
        """All metrics at one moment: the method that ``prometheus_client`` calls on a collector."""
        return self._feed.evaluate(lambda snapshot: measure(snapshot, self._clock(), self._limits))

    def page(self, path: str, accept: str) -> Page:
        """The page at a path."""
        pages: dict[str, Callable[[], Page]] = {
            "/metrics": lambda: self._metrics(accept),
            "/healthz": self._health,
            "/readyz": self._readiness,
            "/": lambda: _text(HTTPStatus.OK, "groupreplay: /metrics /healthz /readyz"),
        }
        page = pages.get(path.partition("?")[0])
        return (
            _text(HTTPStatus.NOT_FOUND, "there are /metrics, /healthz and /readyz")
            if page is None
            else page()
        )

    def _metrics(self, accept: str) -> Page:
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(accept)
        return Page(HTTPStatus.OK, content_type, encode(cast("Any", self)))

    def _health(self) -> Page:
        if self._feed.alive:
            return _text(HTTPStatus.OK, "ok")
        return _text(HTTPStatus.SERVICE_UNAVAILABLE, "the thread that reads the topics has ended")

    def _readiness(self) -> Page:
        reason = self._feed.evaluate(self._not_ready)
        if reason is None:
            return _text(HTTPStatus.OK, "ok")
        return _text(HTTPStatus.SERVICE_UNAVAILABLE, reason)

    def _not_ready(self, snapshot: TopicsSnapshot | None) -> str | None:
        if snapshot is None:
            reason = f": {safe_text(self._feed.trouble, None)}" if self._feed.trouble else ""
            return f"the job's topics have not been read to their ends yet{reason}"
        if snapshot.job is None:
            return "the job has written nothing about itself yet"
        if not is_fresh(snapshot, self._clock(), self._limits):
            if snapshot.job.once:
                return "no single run has caught up for too long"
            return "the job's heartbeat is late"
        query = snapshot.job.query
        if not query.running:
            since = "" if query.since_ms is None else f" since {timestamp(query.since_ms)}"
            return f"the query has been stopped{since}: {safe_text(query.error or 'it finishes no batch')}"
        return None


def _text(status: HTTPStatus, text: str) -> Page:
    return Page(status, _TEXT, f"{text}\n".encode())


class _Handler(BaseHTTPRequestHandler):
    """Passes a request to the exporter."""

    timeout = _CLIENT_SECONDS
    exporter: Exporter

    def do_GET(self) -> None:
        page = self.exporter.page(self.path, self.headers.get("Accept", ""))
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    do_HEAD = do_GET  # noqa: N815 - the library's name

    def version_string(self) -> str:
        # Without the version of Python, which helps only an attacker.
        return "groupreplay"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        log.debug(format, *args)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Clients may disconnect in the middle of an answer.
        log.debug("a request was not answered", exc_info=True)


def open_server(exporter: Exporter, host: str, port: int) -> ThreadingHTTPServer:
    """A server bound to this address that does not serve yet; port 0 takes a free port.

    Raises:
        GroupReplayError: the address is in use, or does not belong to this machine.
    """
    handler = type("_BoundHandler", (_Handler,), {"exporter": exporter})
    kind = type("_BoundServer", (_Server,), {"address_family": AF_INET6 if ":" in host else AF_INET})
    try:
        return cast("ThreadingHTTPServer", kind((host, port), handler))
    except (OSError, OverflowError) as error:
        raise GroupReplayError(
            f"cannot listen: {getattr(error, 'strerror', None) or error}",
            where=f"{host}:{port}",
            fix="choose an address of this machine and a free port with --listen HOST:PORT",
            exit_code=ExitCode.USAGE,
        ) from None
