"""The pages of the exporter: metrics, health and readiness, of one cluster or of several."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from groupreplay.app.exporter.collector import measure
from groupreplay.app.exporter.feed import Feed, Limits, is_fresh
from groupreplay.app.exporter.http_server import Rates, client_of
from groupreplay.app.exporter.lag_watch import MeasuredLags
from groupreplay.state.phrases import safe_text, timestamp
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

#: Scrapes that are computed at once.
_MOST_SCRAPES: Final = 2
#: Requests of one client for one of the open paths: so many at once, and so many each second after that. Each path has
#: its own: whoever asks for metrics all the time keeps no probe of the same address from its answer.
BURST: Final = 60.0
A_SECOND: Final = 5.0
_TEXT: Final = "text/plain; charset=utf-8"
#: Metrics of which several clusters may have the same series -> how these are joined. Others have the largest value.
_JOINED: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "groupreplay_exporter_ready": min,
    "groupreplay_exporter_topics_up": min,
    "groupreplay_exporter_groups_left_out": sum,
    "groupreplay_exporter_conditions_left_out": sum,
    "groupreplay_exporter_counters_forgotten_total": sum,
    "groupreplay_exporter_unreadable_total": sum,
}


@dataclass(frozen=True, slots=True)
class Page:
    """An answer to a client."""

    status: HTTPStatus
    content_type: str
    body: bytes


class Exporter:
    """The pages by path; they do not depend on the HTTP server.

    ``unanswered``: why Kafka does not answer now, None when it does. The feed itself may wait for minutes, as if nobody
    wrote anything. ``lags``: the lag of the groups as it was measured last, None: it is not measured.
    """

    def __init__(
        self,
        feed: Feed,
        limits: Limits,
        clock: Callable[[], int],
        unanswered: Callable[[], str | None] = lambda: None,
        lags: Callable[[], MeasuredLags | None] = lambda: None,
    ) -> None:
        self._lags = lags
        self._feed = feed
        self._limits = limits
        self._clock = clock
        self._unanswered = unanswered

    def collect(self) -> list[Metric]:
        """All metrics at one moment: the method that ``prometheus_client`` calls on a collector."""
        topics_up = not self._trouble()
        return self._feed.evaluate(
            lambda snapshot: measure(
                snapshot, self._clock(), self._limits, topics_up=topics_up, lags=self._lags()
            )
        )

    def _trouble(self) -> str:
        """Why the topics cannot be read now; empty when they can."""
        return self._unanswered() or self._feed.trouble

    def page(self, path: str, accept: str) -> Page:
        """The page at a path."""
        pages: dict[str, Callable[[], Page]] = {
            "/metrics": lambda: self._metrics(accept),
            "/healthz": lambda: _state(
                None if self.alive() else "the thread that reads the topics has ended"
            ),
            "/readyz": lambda: _state(self.not_ready()),
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

    def alive(self) -> bool:
        """Whether the thread that reads the topics runs."""
        return self._feed.alive

    def not_ready(self) -> str | None:
        """Why the metrics show nothing, or nothing new; None when they do."""
        return self._feed.evaluate(self._missing)

    def _missing(self, snapshot: TopicsSnapshot | None) -> str | None:
        trouble = self._trouble()
        if snapshot is None:
            reason = f": {safe_text(trouble, None)}" if trouble else ""
            return f"the job's topics have not been read to their ends yet{reason}"
        if snapshot.job is None:
            return "the job has written nothing about itself yet"
        if not is_fresh(snapshot, self._clock(), self._limits):
            # While the topics cannot be read nobody knows whether it writes.
            unread = trouble and f"the job's topics cannot be read now: {trouble}"
            late = (
                "no single run has caught up for too long"
                if snapshot.job.once
                else "the job's heartbeat is late"
            )
            return safe_text(unread, None) if unread else late
        query = snapshot.job.query
        if not query.running:
            since = "" if query.since_ms is None else f" since {timestamp(query.since_ms)}"
            return f"the query has been stopped{since}: {safe_text(query.error or 'it finishes no batch')}"
        return None


class SeveralExporters(Exporter):
    """The exporters of several clusters by name as one: each sample once, ready when one of them is."""

    def __init__(self, by_name: Mapping[str, Exporter]) -> None:
        self._by_name = dict(by_name)

    def collect(self) -> list[Metric]:
        """All metrics at one moment; a name occurs once, as Prometheus demands."""
        return joined(metric for exporter in self._by_name.values() for metric in exporter.collect())

    def alive(self) -> bool:
        """Whether the threads of all clusters run."""
        return all(exporter.alive() for exporter in self._by_name.values())

    def not_ready(self) -> str | None:
        """Why no cluster is ready; None when one is.

        A balancer that asks must not take the pages of all clusters away because one of them cannot be reached.
        """
        reasons = []
        for name, exporter in self._by_name.items():
            reason = exporter.not_ready()
            if reason is None:
                return None
            reasons.append(f"{safe_text(name)}: {reason}")
        return "; ".join(reasons)


def exporter_of(by_name: Mapping[str, Exporter]) -> Exporter:
    """The exporter of all these clusters; with one cluster its own, which need not join samples."""
    exporters = [*by_name.values()]
    return exporters[0] if len(exporters) == 1 else SeveralExporters(by_name)


def joined(metrics: Iterable[Metric]) -> list[Metric]:
    """The metrics with each name once, and each set of labels once."""
    from prometheus_client.core import Metric

    families: dict[str, Metric] = {}
    values: dict[str, dict[tuple[tuple[str, str], ...], list[float]]] = {}
    for metric in metrics:
        families.setdefault(metric.name, metric)
        for sample in metric.samples:
            labels = tuple(sample.labels.items())
            values.setdefault(sample.name, {}).setdefault(labels, []).append(sample.value)
    wholes = []
    for family in families.values():
        name = family.samples[0].name
        whole = Metric(family.name, family.documentation, family.type)
        for labels, samples in values[name].items():
            whole.add_sample(name, dict(labels), _JOINED.get(name, max)(samples))
        wholes.append(whole)
    return wholes


def _text(status: HTTPStatus, text: str) -> Page:
    return Page(status, _TEXT, f"{text}\n".encode())


def _state(reason: str | None) -> Page:
    return _text(HTTPStatus.OK, "ok") if reason is None else _text(HTTPStatus.SERVICE_UNAVAILABLE, reason)


def exporter_routes(exporter: Exporter, seconds: Callable[[], float] = time.monotonic) -> list[Route]:
    """Metrics, health and readiness as routes; the pages are computed in threads, a few at a time.

    ``seconds`` is a clock that nobody can set.
    """
    from anyio import CapacityLimiter, to_thread
    from starlette.routing import Route

    # A scrape of many groups needs the processor: many at once would only slow each other down.
    few = CapacityLimiter(_MOST_SCRAPES)
    rates = Rates(seconds, burst=BURST, a_second=A_SECOND)

    async def answer(request: Request) -> Response:
        accept = request.headers.get("accept", "")
        path = request.url.path
        if not rates.allow(f"{path} {client_of(request.scope)}"):
            page = _text(HTTPStatus.TOO_MANY_REQUESTS, "too many requests from this address")
            return response(page, {"Retry-After": "1"})
        if path == "/healthz":
            # Asks nothing that could wait: no thread has to be free for it.
            return response(exporter.page(path, accept))
        limiter = few if path == "/metrics" else None
        page = await to_thread.run_sync(exporter.page, path, accept, limiter=limiter)
        return response(page)

    return [Route(path, answer) for path in ("/metrics", "/healthz", "/readyz")]


def exporter_application(exporter: Exporter) -> Starlette:
    """The application of ``serve --metrics-only``: those routes, and a page that names them."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    async def overview(request: Request) -> Response:
        return response(exporter.page(request.url.path, ""))

    async def missing(request: Request, _: Exception) -> Response:
        return response(exporter.page("/missing", ""))

    routes = [*exporter_routes(exporter), Route("/", overview)]
    return Starlette(routes=routes, exception_handlers={404: missing})


def response(page: Page, headers: Mapping[str, str] | None = None) -> Response:
    """The page as an answer of Starlette, which leaves out the body for HEAD."""
    from starlette.responses import Response

    # As a header, not as media_type: Starlette would append a charset.
    return Response(page.body, page.status, {"Content-Type": page.content_type, **(headers or {})})
