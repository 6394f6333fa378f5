"""The log without Spark's Kafka connector: the same groups in bounded batches, and what a lost record leads to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark.sql.streaming.datasource", reason="data sources that bound a batch: Spark 4.2")

from groupreplay.state import Context
from groupreplay.streaming.base.errors import ExitCode, UnreachableError
from groupreplay.streaming.config.settings import Cluster, RunSettings
from groupreplay.streaming.engine.advance import AdvanceResult, advance
from groupreplay.streaming.engine.wire import GROUP_TAG
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.spark.engine import SparkEngine
from groupreplay.streaming.spark.faults import Remedy, known_fault
from groupreplay.streaming.spark.log_source import LogPlan, LogReader, _require_whole, bounded, deal
from groupreplay.streaming.spark.operator import RECORD_COUNTS
from groupreplay.streaming.spark.preflight import check_plan, offsets_topic
from groupreplay.streaming.spark.query import TopicPlan, packed_log
from support.histories.builders import commit, generation, member
from support.job.jobs import interleaved, last_batch, write_log
from support.job.spark_sessions import small_session

if TYPE_CHECKING:
    from groupreplay.streaming.local.broker import EmbeddedBroker

OFFSETS = st.dictionaries(st.integers(0, 60), st.tuples(st.integers(0, 10**12), st.integers(0, 10**7)))
PLAN = LogPlan(servers="h:1", properties={}, topic="__consumer_offsets", partitions=1, max_offsets=7, tasks=2)
SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 10**6), st.integers(1, 10**6)), max_size=60)


@given(OFFSETS, st.integers(1, 10**7))
def test_a_batch_is_bounded(log: dict[int, tuple[int, int]], most: int) -> None:
    """No partition goes back or past its end, each goes on, and the sum is the bound but for one record of each."""
    starts = {number: start for number, (start, _) in log.items()}
    ends = {number: start + left for number, (start, left) in log.items()}
    planned = bounded(starts, ends, most)
    assert planned.keys() == ends.keys()
    assert all(starts[number] <= at <= ends[number] for number, at in planned.items())
    assert all(planned[number] > starts[number] for number in ends if ends[number] > starts[number])
    assert sum(planned[number] - starts[number] for number in ends) <= most + len(ends)
    if sum(left for _, left in log.values()) <= most:
        assert planned == ends


@given(SPANS, st.integers(1, 8))
def test_spans_are_dealt_evenly(spans: list[tuple[int, int, int]], tasks: int) -> None:
    """Every span is in one task, and no task has more than the smallest one and its own last span."""
    spans = [(number, start, start + length) for number, start, length in spans]
    hands = deal(spans, tasks)
    assert Counter(span for hand in hands for span in hand) == Counter(spans)
    assert len(hands) == min(tasks, len(spans))
    sizes = [sum(end - start for _, start, end in hand) for hand in hands]
    for hand, size in zip(hands, sizes, strict=True):
        assert size - (hand[-1][2] - hand[-1][1]) <= min(sizes)


@pytest.mark.parametrize("start", [4, 21])
def test_lost_records_are_an_error(start: int) -> None:
    """A next offset before the begin of the log, or behind its end, cannot be read: the job's state would be wrong."""
    _require_whole("t", {0: 5, 1: 20}, {0: 5, 1: 0}, {0: 5, 1: 20})
    with pytest.raises(ValueError, match="t-0, offset") as caught:
        _require_whole("t", {0: start}, {0: 5}, {0: 20})
    fault = known_fault(str(caught.value))
    assert fault is not None
    assert (fault.what.partition(":")[0], fault.exit_code) == (
        "a part of the log was deleted before it was read",
        ExitCode.DATA,
    )


def test_the_login_is_hidden() -> None:
    """The plan comes back whole from its option, whose name is among those that Spark hides."""
    plan = replace(PLAN, properties={"sasl.jaas.config": "password"}, clock_correction_ms=9)
    assert LogPlan.from_option(plan.to_option()) == plan
    assert "password" not in repr(LogReader(plan).plan)


def test_the_ends_are_asked_for_once_a_batch() -> None:
    """Spark asks for the end of the log behind each batch's own; what is reported is what was planned with."""
    asked: list[str] = []

    def answer(name: str, offsets: dict[int, int]) -> Callable[[str, int], dict[int, int]]:
        def offsets_of(topic: str, partitions: int) -> dict[int, int]:
            asked.append(name)
            return offsets

        return offsets_of

    reader = LogReader(PLAN)
    connection = SimpleNamespace(first_offsets=answer("first", {0: 5}), end_offsets=answer("end", {0: 90}))
    reader.__dict__["_connection"] = connection
    assert reader.reportLatestOffset() == {"__consumer_offsets": {"0": 90}}
    asked.clear()
    assert reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit()) == {
        "__consumer_offsets": {"0": 12}
    }
    assert reader.reportLatestOffset() == {"__consumer_offsets": {"0": 90}}
    assert Counter(asked) == {"first": 2, "end": 1}


def test_brokers_that_are_away_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart of a broker ends no query; after half a minute without an answer the error does."""
    away, clock = UnreachableError("no leader"), [0.0]
    answers: list[dict[int, int] | UnreachableError] = [away, away, {0: 5}]

    def offsets(*_: object) -> dict[int, int]:
        answer = answers.pop(0) if answers else away
        if isinstance(answer, UnreachableError):
            raise answer
        return answer

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    time = SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep)
    monkeypatch.setattr("groupreplay.streaming.spark.log_source.time", time)
    reader = LogReader(PLAN)
    reader.__dict__["_connection"] = SimpleNamespace(first_offsets=offsets)
    assert (reader.initialOffset(), clock) == ({"__consumer_offsets": {"0": 5}}, [1.0])
    with pytest.raises(UnreachableError):
        reader.initialOffset()
    assert 30 < clock[0] - 1.0 <= 31


@pytest.mark.parametrize("log_source", ["auto", "python"])
def test_a_process_that_cannot_be_started_in_time(log_source: str) -> None:
    """The connector, which needs none, reads the log of the next query, unless the other source was asked for."""
    cluster = Cluster(bootstrap_servers="h:1")
    log = TopicPlan(cluster=cluster, topic="__consumer_offsets", partitions=1, by_connector=False)
    engine = SparkEngine(
        spark=MagicMock(),
        settings=RunSettings(source=cluster, checkpoint="c", log_source=log_source),
        location="c",
        log=log,
        probes=replace(log, topic="group-probes", by_connector=True),
        batches=MagicMock(),
    )
    run = MagicMock(create_missing_topics=lambda: None)
    repaired = [engine._repair(run, Remedy.WORKER) for _ in range(2)]
    if log_source == "auto":
        assert repaired == ["Spark's connector reads the log from now on", None]
    else:
        assert repaired == [None, None]
    assert engine.log == replace(log, by_connector=log_source == "auto")


@pytest.mark.broker
@pytest.mark.spark
def test_the_groups_of_the_connector(
    broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Both lead to the same states and messages of every group; this one in batches of 40 offsets.

    Either checkpoint goes on with the other source, and then has what came later.
    """
    cluster = Cluster(bootstrap_servers=broker.bootstrap_servers)
    connection = Connection(cluster)
    partitions = offsets_topic(connection).partitions
    spark = small_session()

    def results(name: str, *, by_connector: bool) -> dict[str, AdvanceResult]:
        plan = TopicPlan(
            cluster=cluster, topic="__consumer_offsets", partitions=partitions, by_connector=by_connector
        )
        check_plan(spark, connection, plan)
        log = packed_log(spark, plan, 40, read_tasks=2, clock_correction_ms=0).drop(RECORD_COUNTS)
        writer = log.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / name))
        query = writer.start(str(tmp_path / f"{name}-rows"))
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        packed: dict[bytes, list[bytes]] = {}
        for row in spark.read.parquet(str(tmp_path / f"{name}-rows")).collect():
            packed.setdefault(bytes(row.key), []).append(bytes(row.packed))
        return {
            group: advance(
                key, None, packed[key], now_ms=0, recorded_ms=None, context=Context(cluster_id="c")
            )
            for group in groups
            if (key := GROUP_TAG + group.encode()) in packed
        }

    groups = [unique(f"g{number}") for number in range(30)]
    history = [
        generation(1, member("a", [0]), at=0),
        *(commit("t", part, part, at=1 + part) for part in range(3)),
    ]
    write_log(
        broker.bootstrap_servers, interleaved(dict.fromkeys(groups, history), partitions, 1_000), partitions
    )
    before = results("ours", by_connector=False)
    assert before == results("theirs", by_connector=True)
    assert list(before) == groups
    assert last_batch(tmp_path / "ours") >= 2
    later = {group: [commit("t", 1, 7, at=0)] for group in groups[:5]}
    write_log(broker.bootstrap_servers, interleaved(later, partitions, 2_000), partitions)
    assert results("ours", by_connector=True) == results("theirs", by_connector=False)
