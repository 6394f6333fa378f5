"""The exporter: a thread that reads the job's topics, and a small HTTP server that says what they come to.

Knows Kafka's topics, threads and HTTP; must not know what a message or a number means.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from typing import TYPE_CHECKING, Any, Final, cast

from groupreplay.state.output.display import safe_text
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.exporter.collector import Limits, is_fresh, measure
from groupreplay.streaming.kafka.clients import REQUEST_SECONDS, Connection
from groupreplay.streaming.sinks.event_topic import consume
from groupreplay.streaming.sinks.topics_snapshot import DAY_MS, TopicsSnapshot

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition
    from prometheus_client.core import Metric

log = logging.getLogger(__name__)

#: Between two attempts to read topics that are not there, or a cluster that does not answer.
_PAUSE_SECONDS: Final = 3.0
#: How often it is looked whether topics have other partitions than before.
_LOOK_SECONDS: Final = 300.0
#: A client that says nothing for so long is let go.
_CLIENT_SECONDS: Final = 10.0
_TEXT: Final = "text/plain; charset=utf-8"


class SinkFeed:
    """Keeps a picture of the topics in a thread of its own. What failed is tried again, for ever.

    When reading has to begin anew, the former picture stays until the new one is whole.
    """

    def __init__(
        self,
        cluster: Cluster,
        topics: TopicNames,
        clock: Callable[[], int],
        *,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        #: Why the topics cannot be read at this moment; empty when they can.
        self.trouble = ""
        self._connection = Connection(cluster)
        self._look_seconds = look_seconds
        self._topics = topics
        self._clock = clock
        self._picture: TopicsSnapshot | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="groupreplay-feed", daemon=True)

    def start(self) -> None:
        """Starts reading."""
        self._thread.start()

    def close(self, seconds: float = 5.0) -> None:
        """Stops reading, within these seconds."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def look(self, measure_: Callable[[TopicsSnapshot | None], Any]) -> Any:
        """What the function says of the picture, which stands still meanwhile."""
        with self._lock:
            return measure_(self._picture)

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._read()
            except Exception as error:  # whatever it is, it may be over at the next attempt
                level = logging.DEBUG if str(error) == self.trouble else logging.WARNING
                log.log(level, "the job's topics cannot be read now, trying on: %s", error)
                self.trouble = str(error)
                self._closed.wait(_PAUSE_SECONDS)

    def _read(self) -> None:
        """Reads from the beginning, and then what comes, as long as the topics have the same partitions.

        Raises:
            GroupReplayError: a topic is missing, was made anew, or may not be read.
        """
        fresh = TopicsSnapshot()
        with closing(self._connection.consumer()) as consumer:
            partitions = self._partitions()
            ahead = set(partitions)
            consumer.assign(self._starts(consumer, partitions))
            looked = time.monotonic()
            while not self._closed.is_set():
                messages = consume(consumer, self._connection, "the job's topics")
                with self._lock:
                    for message in messages:
                        if message.error() is None:
                            self._take(fresh, message)
                ahead -= {(one.topic(), one.partition()) for one in messages if one.error() is not None}
                if not ahead:
                    self._picture, self.trouble = fresh, ""
                if time.monotonic() - looked > self._look_seconds:
                    looked = time.monotonic()
                    if self._partitions() != partitions:
                        return

    def _take(self, picture: TopicsSnapshot, message: Message) -> None:
        topic, key, value = message.topic(), message.key() or b"", message.value()
        if topic == self._topics.states:
            picture.take_state(key, value)
        elif topic == self._topics.job:
            picture.take_job(key, value)
        else:
            picture.take_event(value, message.timestamp()[1])

    def _partitions(self) -> list[tuple[str, int]]:
        topics = (self._topics.states, self._topics.job, self._topics.events)
        counts = {topic: self._connection.identify(topic).partitions for topic in topics}
        return [(topic, number) for topic, count in counts.items() for number in range(count)]

    def _starts(self, consumer: Consumer, partitions: Sequence[tuple[str, int]]) -> list[TopicPartition]:
        """Documents from the beginning, events from the last midnight."""
        from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

        midnight_ms = self._clock() // DAY_MS * DAY_MS
        events = [TopicPartition(topic, number, midnight_ms) for topic, number in partitions]
        events = [place for place in events if place.topic == self._topics.events]
        try:
            found: list[TopicPartition] = consumer.offsets_for_times(events, timeout=REQUEST_SECONDS)
        except KafkaException as error:
            raise self._connection.explain(error, self._topics.events) from None
        documents = (place for place in partitions if place[0] != self._topics.events)
        return [*found, *(TopicPartition(*place, OFFSET_BEGINNING) for place in documents)]


@dataclass(frozen=True, slots=True)
class Page:
    """An answer to a client."""

    status: HTTPStatus
    content_type: str
    body: bytes


class Exporter:
    """What a client gets for each path; the same for every server that asks it."""

    def __init__(self, feed: SinkFeed, limits: Limits, clock: Callable[[], int]) -> None:
        self._feed = feed
        self._limits = limits
        self._clock = clock

    def collect(self) -> list[Metric]:
        """All metrics, of one moment; what ``prometheus_client`` asks of a collector."""
        return cast(
            "list[Metric]", self._feed.look(lambda picture: measure(picture, self._clock(), self._limits))
        )

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
        reason = self._feed.look(self._not_ready)
        if reason is None:
            return _text(HTTPStatus.OK, "ok")
        return _text(HTTPStatus.SERVICE_UNAVAILABLE, reason)

    def _not_ready(self, picture: TopicsSnapshot | None) -> str | None:
        if picture is None:
            reason = f": {safe_text(self._feed.trouble, None)}" if self._feed.trouble else ""
            return f"the job's topics have not been read to their ends yet{reason}"
        if picture.job is None:
            return "the job has written nothing about itself yet"
        if not is_fresh(picture, self._clock(), self._limits):
            return "the job's heartbeat is late"
        return None


def _text(status: HTTPStatus, text: str) -> Page:
    return Page(status, _TEXT, f"{text}\n".encode())


class _Handler(BaseHTTPRequestHandler):
    """Hands a request to the exporter."""

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
        # Without the version of Python, which is nobody's business.
        return "groupreplay"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        log.debug(format, *args)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that goes away in the middle of an answer is no fault of ours.
        log.debug("a request was not answered", exc_info=True)


def open_server(exporter: Exporter, host: str, port: int) -> ThreadingHTTPServer:
    """A server on this address, not yet answering; port 0 takes a free one.

    Raises:
        GroupReplayError: the address is taken, or not of this machine.
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
