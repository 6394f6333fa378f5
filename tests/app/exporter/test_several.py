"""The pages of several clusters as those of one."""

from __future__ import annotations

from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from groupreplay.app.exporter.collector import measure
from groupreplay.app.exporter.freshness import Limits
from groupreplay.app.exporter.several import SeveralExporters, joined
from groupreplay.streaming.contract.job_document import JOB_KEY
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from support.job.sink_messages import SINCE_MS, document, job_document, stuck
from support.tools.prometheus_tools import promtool


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
    found = {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}
    assert found == {
        ("groupreplay_exporter_ready",): 0,
        ("groupreplay_exporter_unreadable_total",): 5,
        ("groupreplay_job_up", "a"): 1,
        ("groupreplay_job_up", "b"): 0,
        ("groupreplay_build_info", "exporter"): 1,
    }
    assert len(families) == 4


def test_pages() -> None:
    """Healthy when all are, ready when one is; else the clusters that are not, by name."""
    well = _Fixed(alive=True, missing=None, groupreplay_exporter_ready=1)
    ill = _Fixed(alive=False, missing="the job's heartbeat is late", groupreplay_exporter_ready=0)
    assert [_several(a=well, b=well).page(path, "").status for path in ("/healthz", "/readyz")] == [200, 200]
    both = _several(a=well, b=ill)
    assert [both.page(path, "").status for path in ("/healthz", "/readyz")] == [503, 200]
    none = _several(b=ill, c=_Fixed(alive=True, missing="no broker answers")).page("/readyz", "")
    assert (none.status, none.body) == (503, b"b: the job's heartbeat is late; c: no broker answers\n")
    text = both.page("/metrics", "").body.decode()
    assert [one.samples[0].value for one in text_string_to_metric_families(text)] == [0]
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
