"""Live pages in a browser, and sites that a test can end and start again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupreplay.app.exporter.feed import SinkFeed
from groupreplay.app.exporter.http_server import HttpServer, open_server
from groupreplay.app.serve.application import serve_application
from groupreplay.app.serve.watched_cluster import WatchedCluster
from groupreplay.streaming.contract.messages import JOB_KEY
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from support.job.sink_messages import SINCE_MS, document, events, job_document, stable, stuck
from support.pictures.report_pages import OpenedPage, new_page
from support.serve.written_clusters import messages, served_cluster, states, take

if TYPE_CHECKING:
    from playwright.sync_api import Browser


#: The conditions of a stuck group hold by then.
STUCK_MS = SINCE_MS + 400_000


@dataclass(slots=True)
class RunningTime:
    """A clock that begins at a moment and goes on as real time does."""

    begin_ms: int
    _begun: float = 0.0

    def __post_init__(self) -> None:
        self._begun = time.monotonic()

    def __call__(self) -> int:
        """The present, in milliseconds since 1970."""
        return self.begin_ms + int((time.monotonic() - self._begun) * 1000)


class LiveSite:
    """A site of clusters without Kafka. ``write`` is what the feed of the job's topics does."""

    def __init__(self, folder: Path, clusters: Sequence[WatchedCluster], clock: RunningTime) -> None:
        self.folder, self.clusters, self.clock = folder, clusters, clock
        self._sent = 0
        self._documents: list[dict[str, bytes | None]] = [{} for _ in clusters]
        self._beating: dict[int, dict[str, Any]] = {}
        self._ended = threading.Event()
        self._heart = threading.Thread(target=self._beat_on, daemon=True)
        self._heart.start()
        self._server: HttpServer | None = None
        self.port = 0
        self.token: str | None = None

    def start(self, token: str | None = None) -> None:
        """Begins to answer, on the same port as before."""
        self.token = token
        self._server = open_server(
            serve_application(self.clusters, self.clock, token=token), "127.0.0.1", self.port
        )
        self._server.start()
        self.port = int(self._server.address.rpartition(":")[2])

    def stop(self) -> None:
        """Ends all connections."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def url(self, path: str = "/") -> str:
        """The address of a page."""
        return f"http://127.0.0.1:{self.port}{path}"

    def write(
        self, events: Sequence[bytes] = (), documents: Sequence[tuple[str, bytes | None]] = (), at: int = 0
    ) -> None:
        """New documents and events of a cluster, by its number."""
        cluster, now = self.clusters[at], self.clock()
        take(cluster, states(documents), now)
        self._documents[at].update(documents)
        for first in range(0, len(events), 500):
            some = events[first : first + 500]
            take(cluster, messages(some, now, self._sent), now)
            self._sent += len(some)

    def close(self) -> None:
        """Ends the site and the heartbeats."""
        self._ended.set()
        self._heart.join()
        self.stop()

    def silence(self, at: int = 0) -> None:
        """The job of a cluster writes no more heartbeats."""
        self._beating.pop(at, None)

    def _beat_on(self) -> None:
        while not self._ended.wait(2):
            for at, changes in list(self._beating.items()):
                self.beat(at, **changes)

    def beat(self, at: int = 0, **changes: Any) -> None:
        """A heartbeat of a cluster's job; from now on there is one every two seconds."""
        self._beating[at] = changes
        snapshot, now = TopicsSnapshot(), self.clock()
        for group, value in list(self._documents[at].items()):
            snapshot.take_state(group.encode("utf-8", "surrogatepass"), value)
        snapshot.take_job(JOB_KEY, job_document(now, **changes), now)
        feed = self.clusters[at].feed
        assert isinstance(feed, SinkFeed)
        with feed._lock:
            feed._snapshot = snapshot


@contextmanager
def live_site(
    folder: Path, begin_ms: int, names: Sequence[str] = ("kafka",), token: str | None = None
) -> Iterator[LiveSite]:
    """A site of these clusters, without anything in them."""
    from contextlib import ExitStack

    clock = RunningTime(begin_ms)
    with ExitStack() as stack:
        clusters = [stack.enter_context(served_cluster(folder, clock, name)) for name in names]
        site = LiveSite(folder, clusters, clock)
        site.start(token)
        try:
            yield site
        finally:
            for cluster in clusters:
                cluster.streams.close()
            site.close()


@contextmanager
def stuck_site(folder: Path, group_id: str, **heartbeat: Any) -> Iterator[LiveSite]:
    """A site with a group that is stuck, whose job has written a heartbeat with these fields."""
    with live_site(folder, STUCK_MS) as site:
        group, emitted = stuck()
        site.write(events(emitted, group_id), [(group_id, document(group, group_id))])
        site.beat(**heartbeat)
        yield site


@contextmanager
def two_groups_site(folder: Path, sick: str, calm: str) -> Iterator[LiveSite]:
    """The same with a group that is well beside it."""
    with stuck_site(folder, sick) as site:
        group, emitted = stable()
        site.write(events(emitted, calm), [(calm, document(group, calm))])
        site.beat()
        yield site


@contextmanager
def live_page(browser: Browser, url: str, **settings: Any) -> Iterator[OpenedPage]:
    """A page of a site; ``problems`` are errors, messages of the console, requests for other hosts."""
    given = {"viewport": {"width": 1280, "height": 900}, **settings}
    home = url.split("/", 3)[2]
    with new_page(browser, lambda other: other.split("/", 3)[2] == home, **given) as opened:
        opened.page.goto(url)
        yield opened


def shown(page: OpenedPage) -> OpenedPage:
    """The page, when it has its data."""
    page.page.wait_for_selector("html[data-ready]", state="attached")
    return page
