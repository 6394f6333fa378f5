"""A site over HTTP on a free port of this machine, and its streams of events."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from groupreplay.app.exporter.http_server import open_server
from groupreplay.app.serve.application import serve_application
from groupreplay.app.serve.watched_cluster import WatchedCluster


@contextmanager
def served_over_http(now_ms: int, *clusters: WatchedCluster, **more: Any) -> Iterator[int]:
    """Its port."""
    server = open_server(serve_application(clusters, lambda: now_ms, **more), "127.0.0.1", 0)
    server.start()
    try:
        yield int(server.address.rpartition(":")[2])
    finally:
        for cluster in clusters:
            cluster.streams.close()
        server.close()


class FollowedStream:
    """One stream of events; ``frames`` are read from the connection as they are asked for."""

    def __init__(
        self,
        port: int,
        query: str = "",
        last: str | None = None,
        seconds: float = 20,
        source: str = "127.0.0.1",
    ) -> None:
        self._connection = http.client.HTTPConnection(
            "127.0.0.1", port, timeout=seconds, source_address=(source, 0)
        )
        headers = {} if last is None else {"Last-Event-ID": last}
        self._connection.request("GET", f"/api/events/stream?{query}", headers=headers)
        self.answer = self._connection.getresponse()
        #: Of the last frame that had one.
        self.place = ""

    def __enter__(self) -> FollowedStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def frame(self) -> dict[str, str]:
        """The next frame: its fields; a comment has the field ``""``."""
        fields: dict[str, str] = {}
        while line := self.answer.readline().decode():
            if line == "\n":
                self.place = fields.get("id", self.place)
                return fields
            name, _, text = line.rstrip("\n").partition(": ")
            fields[name] = text
        raise EOFError

    def event(self) -> dict[str, Any]:
        """The next event, without comments and resets."""
        while True:
            frame = self.frame()
            if "data" in frame and "event" not in frame:
                found: dict[str, Any] = json.loads(frame["data"])
                return found


def asked(port: int, path: str, **headers: str) -> tuple[int, bytes]:
    """Status and body of an answer."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
