"""The pages of the exporter, over HTTP."""

from __future__ import annotations

import http.client
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from groupreplay.app.exporter.collector import measure
from groupreplay.app.exporter.feed import Limits, SinkFeed
from groupreplay.app.exporter.http_server import open_server
from groupreplay.app.exporter.server import BURST, Exporter, SeveralExporters, exporter_application, joined
from groupreplay.streaming.contract.messages import JOB_KEY
from groupreplay.streaming.sinks.known_groups import Holding
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from support.job.sink_messages import SINCE_MS, document, job_document, stuck
from support.tools.prometheus_tools import promtool

NOW = SINCE_MS + 200_000


class Still:
    """A feed that shows one snapshot."""

    def __init__(self, snapshot: TopicsSnapshot | None, *, alive: bool = True, trouble: str = "") -> None:
        self.snapshot, self.alive, self.trouble = snapshot, alive, trouble

    def evaluate(self, measure: Callable[[TopicsSnapshot | None], Any]) -> Any:
        """The result of the function on it."""
        return measure(self.snapshot)


def exporter(snapshot: TopicsSnapshot | None, unanswered: str | None = None, **feed: Any) -> Exporter:
    """One that shows this snapshot."""
    return Exporter(cast("SinkFeed", Still(snapshot, **feed)), Limits(), lambda: NOW, lambda: unanswered)


def snapshot(heartbeat_ms: int | None = NOW) -> TopicsSnapshot:
    """A group that is stuck, and the job."""
    made = TopicsSnapshot()
    made.take_state(b"g", document(stuck()[0]))
    if heartbeat_ms is not None:
        made.take_job(JOB_KEY, job_document(heartbeat_ms))
    return made


def stopped(since_ms: int | None, error: str | None) -> TopicsSnapshot:
    """The job, whose query is stopped."""
    made = snapshot(None)
    made.take_job(JOB_KEY, job_document(NOW, query={"running": False, "since_ms": since_ms, "error": error}))
    return made


def single_run(caught_up_ms: int | None) -> TopicsSnapshot:
    """The job between two single runs."""
    made = snapshot(None)
    made.take_job(JOB_KEY, job_document(NOW, once=True, phase="stopped", caught_up_ms=caught_up_ms))
    return made


@contextmanager
def served(shown: Exporter) -> Iterator[Callable[..., http.client.HTTPResponse]]:
    """Asks a server on a free port of this machine."""
    server = open_server(exporter_application(shown), "127.0.0.1", 0)
    server.start()

    def ask(path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(server.address, timeout=30)
        connection.request(method, path, headers=headers)
        return connection.getresponse()

    try:
        yield ask
    finally:
        server.close()


def values(text: str) -> dict[str, float]:
    """The samples of metrics about groups, by name and group."""
    return {
        f"{sample.name} {sample.labels['consumergroup']}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "consumergroup" in sample.labels
    }


@pytest.mark.parametrize(
    ("shown", "path", "status", "says"),
    [
        (exporter(snapshot()), "/healthz", 200, "ok"),
        (exporter(snapshot(), alive=False), "/healthz", 503, "the thread that reads the topics has ended"),
        (exporter(snapshot()), "/readyz", 200, "ok"),
        (exporter(None), "/readyz", 503, "the job's topics have not been read to their ends yet"),
        (
            exporter(None, trouble="no topic 'x\x1b'"),
            "/readyz",
            503,
            r"the job's topics have not been read to their ends yet: no topic 'x\u{1b}'",
        ),
        (exporter(snapshot(None)), "/readyz", 503, "the job has written nothing about itself yet"),
        (exporter(snapshot(NOW - 31_000)), "/readyz", 503, "the job's heartbeat is late"),
        (
            exporter(snapshot(NOW - 31_000), unanswered="no broker"),
            "/readyz",
            503,
            "the job's topics cannot be read now: no broker",
        ),
        (exporter(single_run(NOW - 7_200_000)), "/readyz", 200, "ok"),
        (exporter(single_run(None)), "/readyz", 503, "no single run has caught up for too long"),
        (
            exporter(stopped(1_700_000_000_000, "disk full \x1b[2J")),
            "/readyz",
            503,
            r"the query has been stopped since 2023-11-14T22:13:20.000Z: disk full \u{1b}[2J",
        ),
        (exporter(stopped(None, None)), "/readyz", 503, "the query has been stopped: it finishes no batch"),
        (exporter(None), "/", 200, "groupreplay: /metrics /healthz /readyz"),
        (exporter(None), "/metrics/x", 404, "there are /metrics, /healthz and /readyz"),
    ],
)
def test_pages(shown: Exporter, path: str, status: int, says: str) -> None:
    """Each names what is missing."""
    page = shown.page(path, "")
    assert (page.status, page.content_type, page.body.decode()) == (
        status,
        "text/plain; charset=utf-8",
        f"{says}\n",
    )


def test_a_job_whose_query_is_stopped_is_not_up() -> None:
    """Its heartbeat is fresh, and nothing is known of the groups; what it says about itself holds."""
    shown = stopped(1, None)
    shown.job_conditions = [Holding("job.blind", "ERROR", what="query_stopped")]
    found = {sample.name: sample.value for metric in exporter(shown).collect() for sample in metric.samples}
    names = ("job_up", "query_up", "condition")
    assert [found[f"groupreplay_{name}"] for name in names] == [0, 0, 1]
    assert math.isnan(found["kafka_consumergroup_group_state"])
    assert math.isnan(found["groupreplay_groups"])


@pytest.mark.parametrize(
    ("shown", "up"),
    [
        (exporter(snapshot()), 1),
        (exporter(snapshot(), unanswered="no broker"), 0),
        (exporter(snapshot(), trouble="no topic"), 0),
        (exporter(None, unanswered="no broker"), 0),
    ],
)
def test_whether_the_topics_can_be_read(shown: Exporter, up: int) -> None:
    """An alert tells a job that is down from one that nobody can see."""
    samples = {sample.name: sample.value for metric in shown.collect() for sample in metric.samples}
    assert samples["groupreplay_exporter_topics_up"] == up


def test_metrics_over_http() -> None:
    """In the format that is asked for; a HEAD has no body; what is posted is refused."""
    with served(exporter(snapshot())) as ask:
        plain = ask("/metrics?x=1")
        assert (plain.status, plain.getheader("Server")) == (200, "groupreplay")
        assert str(plain.getheader("Content-Type")).startswith("text/plain; version=0.0.4")
        assert values(plain.read().decode())["kafka_consumergroup_group_state g"] == 1
        open_metrics = ask("/metrics", Accept="application/openmetrics-text; version=1.0.0")
        assert str(open_metrics.getheader("Content-Type")).startswith("application/openmetrics-text")
        assert open_metrics.read().endswith(b"# EOF\n")
        head = ask("/metrics", "HEAD")
        assert (head.status, head.read()) == (200, b"")
        assert int(str(head.getheader("Content-Length"))) > 0
        assert ask("/metrics", "POST").status == 405
        assert ask("/healthz").read() == b"ok\n"
        assert (ask("/").status, ask("/api/clusters").status, ask("/readyz").status) == (200, 404, 200)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_open_paths_have_a_rate(path: str) -> None:
    """429 with a time to wait; each path has its own, so that requests for one of them do not close the others."""
    with served(exporter(snapshot())) as ask:
        answers = [ask(path) for _ in range(int(BURST) + 60)]
        refused = next(answer for answer in answers if answer.status == 429)
        assert (refused.getheader("Retry-After"), refused.read()) == (
            "1",
            b"too many requests from this address\n",
        )
        assert [answer.status for answer in answers[: int(BURST)]] == [200] * int(BURST)
        others = {"/healthz", "/readyz", "/metrics"} - {path}
        assert {ask(other).status for other in others} == {200}


class _Fixed:
    """An exporter with these answers."""

    def __init__(self, *, alive: bool, missing: str | None, **samples: float) -> None:
        self._alive, self._missing, self._samples = alive, missing, samples

    def alive(self) -> bool:
        """As it was made."""
        return self._alive

    def not_ready(self) -> str | None:
        """As it was made."""
        return self._missing

    def collect(self) -> list[Metric]:
        """One sample of each name."""
        return [_metric(name, value) for name, value in self._samples.items()]


def _metric(name: str, value: float, **labels: str) -> Metric:
    metric = Metric(name.removesuffix("_total"), "Text.", "counter" if name.endswith("_total") else "gauge")
    metric.add_sample(name, labels, value)
    return metric


def _several(**by_name: _Fixed) -> SeveralExporters:
    return SeveralExporters(by_name)  # type: ignore[arg-type]


def test_each_sample_once() -> None:
    """Of samples with the same labels: ready is the least, numbers of things are added; labels keep others apart."""
    families = joined(
        [
            _metric("groupreplay_exporter_ready", 1),
            _metric("groupreplay_exporter_unreadable_total", 2),
            _metric("groupreplay_job_up", 1, cluster="a"),
            _metric("groupreplay_build_info", 1, component="exporter"),
            _metric("groupreplay_exporter_ready", 0),
            _metric("groupreplay_exporter_unreadable_total", 3),
            _metric("groupreplay_job_up", 0, cluster="b"),
            _metric("groupreplay_build_info", 1, component="exporter"),
        ]
    )
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }
    assert found == {
        ("groupreplay_exporter_ready",): 0,
        ("groupreplay_exporter_unreadable_total",): 5,
        ("groupreplay_job_up", "a"): 1,
        ("groupreplay_job_up", "b"): 0,
        ("groupreplay_build_info", "exporter"): 1,
    }
    assert len(families) == 4


def test_pages_of_several_clusters() -> None:
    """Healthy when all are, ready when one is; else the clusters that are not, by name."""
    well = _Fixed(alive=True, missing=None, groupreplay_exporter_ready=1)
    ill = _Fixed(alive=False, missing="the job's heartbeat is late", groupreplay_exporter_ready=0)
    assert [_several(a=well, b=well).page(path, "").status for path in ("/healthz", "/readyz")] == [200, 200]
    both = _several(a=well, b=ill)
    assert [both.page(path, "").status for path in ("/healthz", "/readyz")] == [503, 200]
    none = _several(b=ill, c=_Fixed(alive=True, missing="no broker answers")).page("/readyz", "")
    assert (none.status, none.body) == (503, b"b: the job's heartbeat is late; c: no broker answers\n")
    text = both.page("/metrics", "").body.decode()
    assert [family.samples[0].value for family in text_string_to_metric_families(text)] == [0]
    assert generate_latest(both) == text.encode()  # type: ignore[arg-type]


def test_promtool_accepts_the_metrics_of_two_clusters() -> None:
    """Each name, its help and its type once."""
    snapshots = {}
    for name in ("east", "west"):
        made = TopicsSnapshot()
        made.take_state(b"g", document(stuck()[0]))
        made.take_job(JOB_KEY, job_document(SINCE_MS, cluster_id=name))
        snapshots[name] = measure(made, SINCE_MS, Limits())
    both = [metric for metrics in snapshots.values() for metric in metrics]

    class Both:
        """What the library asks for metrics."""

        def collect(self) -> list[Metric]:
            """Of both."""
            return joined(both)

    assert promtool("check", "metrics", stdin=generate_latest(Both())) == ""  # type: ignore[arg-type]
