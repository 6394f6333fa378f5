"""The samples of lag: sums by topic, single partitions, and the names of kafka_exporter."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from groupreplay.app.exporter.collector import measure
from groupreplay.app.exporter.feed import Limits
from groupreplay.streaming.contract.messages import JOB_KEY
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from support.job.measured import measured_lags
from support.job.sink_messages import CLUSTER, SINCE_MS, document, job_document, stable

CALM = {"cluster": CLUSTER, "consumergroup": "calm"}
ORDERS = {**CALM, "topic": "orders"}


def samples(limits: Limits, *, later_ms: int = 0, labels: dict[str, str] | None = None) -> list[Any]:
    """Name, labels and value of everything about lag, for one group."""
    snapshot = TopicsSnapshot()
    body = msgspec.json.decode(document(stable()[0], "calm"))
    snapshot.take_state(b"calm", msgspec.json.encode({**body, "labels": labels or {}}))
    snapshot.take_job(JOB_KEY, job_document(SINCE_MS))
    metrics = measure(snapshot, SINCE_MS + later_ms, limits, lags=measured_lags(SINCE_MS))
    return [
        (sample.name, sample.labels, sample.value)
        for metric in metrics
        for sample in metric.samples
        if "group_lag" in sample.name or ("_offset" in sample.name and "job" not in sample.name)
        if ("offsets_exp" not in sample.name and sample.name != "groupreplay_lag_offsets")
        or sample.name.startswith("kafka_consumergroup_lag")
    ]


def test_sums_by_topic() -> None:
    """Records are summed up, the time is that of the partition furthest behind, and unknown ones are counted."""
    assert samples(Limits()) == [
        ("groupreplay_group_lag", ORDERS, 37),
        ("groupreplay_group_lag_seconds", ORDERS, 30),
        ("groupreplay_group_committed_offset", ORDERS, 205),
        ("groupreplay_group_lag_unknown_partitions", ORDERS, 1),
    ]


def test_single_partitions() -> None:
    """The same names with a label, so that sums by topic are right in both cases; what is unknown has no lag."""
    told = [(name, labels["partition"], value) for name, labels, value in samples(Limits(by_partition=True))]
    assert told[:4] == [
        ("groupreplay_group_lag", "0", 7),
        ("groupreplay_group_lag", "1", 30),
        ("groupreplay_group_lag_seconds", "0", 7),
        ("groupreplay_group_lag_seconds", "1", 30),
    ]


def test_names_of_kafka_exporter() -> None:
    """The names and labels of danielqsj/kafka_exporter, in addition."""
    named = {
        (name, labels.get("partition", "")): value
        for name, labels, value in samples(Limits(kafka_exporter_names=True))
        if name.startswith("kafka_consumergroup_")
    }
    prefix = "kafka_consumergroup_"
    assert named == {
        **{(f"{prefix}current_offset", str(n)): value for n, value in enumerate((100, 100, 5))},
        (f"{prefix}current_offset_sum", ""): 205,
        (f"{prefix}lag", "0"): 7,
        (f"{prefix}lag", "1"): 30,
        (f"{prefix}lag_sum", ""): 37,
    }


@pytest.mark.parametrize(("text", "seconds"), [("5m", [300]), ("soon", [])])
def test_objective_of_the_rules(text: str, seconds: list[int]) -> None:
    """The label of the rules as a number; what is no duration is none."""
    told = samples(Limits(), labels={"lag_objective": text})
    assert [value for name, _, value in told if name.endswith("objective_seconds")] == seconds


def test_old_ends_show_nothing() -> None:
    """After five minutes without recorded ends there is no lag, rather than an old one."""
    assert samples(Limits(), later_ms=300_000) == []
