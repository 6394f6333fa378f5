"""The log without Spark's Kafka connector: the same groups in bounded batches, and what a lost record leads to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="data sources that bound a batch: Spark 4.2")

from groupreplay.state import OFFSETS_TOPIC, Context
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import ExitCode, UnreachableError
from groupreplay.streaming.config.settings import Cluster, RunSettings
from groupreplay.streaming.engine.advance import AdvanceResult, advance
from groupreplay.streaming.engine.wire import GROUP_TAG
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.spark.checkpoint import Checkpoint
from groupreplay.streaming.spark.engine import SparkEngine
from groupreplay.streaming.spark.faults import Remedy, known_fault
from groupreplay.streaming.spark.log_source import LogPlan, LogReader, _require_whole
from groupreplay.streaming.spark.operator import RECORD_COUNTS
from groupreplay.streaming.spark.preflight import check_plan, offsets_topic
from groupreplay.streaming.spark.query import TopicPlan, packed_log
from support.histories.builders import Raw, commit, generation, member
from support.job.jobs import interleaved, last_batch, write_log
from support.job.spark_sessions import small_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from groupreplay.streaming.local.broker import EmbeddedBroker

PLAN = LogPlan(servers="h:1", properties={}, topic="__consumer_offsets", partitions=1, max_offsets=7, tasks=2)


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


@pytest.mark.parametrize(("log_source", "is_ahead"), [("auto", False), ("auto", True), ("python", False)])
def test_a_process_that_cannot_be_started_in_time(
    log_source: str, is_ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connector, which needs none, reads the log of the next query; not if the other source was asked for.

    Nor if that alone can go on, because some groups were read ahead of the others.
    """
    monkeypatch.setattr(Checkpoint, "is_ahead", lambda _: is_ahead)
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
    changes = log_source == "auto" and not is_ahead
    if changes:
        assert repaired == ["Spark's connector reads the log from now on", None]
    else:
        assert repaired == [None, None]
    assert engine.log == replace(log, by_connector=changes)


@dataclass(frozen=True)
class LogQuery:
    """Queries that pack the log of a broker, each on a checkpoint of its own, in batches of 40 offsets."""

    spark: SparkSession
    cluster: Cluster
    folder: Path

    def results(
        self, name: str, groups: Sequence[str], *, by_connector: bool, long_log: int | None = None
    ) -> dict[str, AdvanceResult]:
        """What the groups have come to, after one more query on the checkpoint with this name."""
        connection = Connection(self.cluster)
        plan = TopicPlan(
            cluster=self.cluster,
            topic="__consumer_offsets",
            partitions=offsets_topic(connection).partitions,
            by_connector=by_connector,
            long_log=long_log,
        )
        check_plan(self.spark, connection, plan)
        log = packed_log(self.spark, plan, 40, read_tasks=2, clock_correction_ms=0).drop(RECORD_COUNTS)
        writer = log.writeStream.format("parquet").option("checkpointLocation", str(self.folder / name))
        query = writer.start(str(self.folder / f"{name}-rows"))
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        packed: dict[bytes, list[bytes]] = {}
        for row in self.spark.read.parquet(str(self.folder / f"{name}-rows")).collect():
            packed.setdefault(bytes(row.key), []).append(bytes(row.packed))
        return {
            group: advance(
                key, None, packed[key], now_ms=0, recorded_ms=None, context=Context(cluster_id="c")
            )
            for group in groups
            if (key := GROUP_TAG + group.encode()) in packed
        }

    def groups_in_batch(self, name: str, number: int) -> set[str]:
        """The groups that a batch has handed on."""
        written = self.folder / f"{name}-rows" / "_spark_metadata" / str(number)
        paths = [json.loads(line)["path"] for line in written.read_text().splitlines()[1:]]
        keys = [bytes(row.key) for row in self.spark.read.parquet(*paths).collect()]
        return {key[len(GROUP_TAG) :].decode() for key in keys if key.startswith(GROUP_TAG)}

    def offsets(self, name: str) -> list[dict[str, Any]]:
        """Those of each batch."""
        files = sorted((self.folder / name / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        return [json.loads(file.read_text().splitlines()[-1]) for file in files]


@pytest.fixture
def log_query(broker: EmbeddedBroker, tmp_path: Path) -> LogQuery:
    """Queries on the shared broker."""
    return LogQuery(small_session(), Cluster(bootstrap_servers=broker.bootstrap_servers), tmp_path)


def history(at_ms: int = 0) -> list[Raw]:
    """A group with three offsets."""
    joined = generation(1, member("a", [0]), at=at_ms)
    return [joined, *(commit("t", part, part, at=at_ms + 1 + part) for part in range(3))]


def write(log_query: LogQuery, histories: dict[str, Sequence[Raw]], start_ms: int) -> None:
    """Adds the records of these groups to the log."""
    servers = log_query.cluster.bootstrap_servers
    partitions = offsets_topic(Connection(log_query.cluster)).partitions
    write_log(servers, interleaved(histories, partitions, start_ms), partitions)


@pytest.mark.broker
@pytest.mark.spark
def test_the_groups_of_the_connector(log_query: LogQuery, unique: Callable[[str], str]) -> None:
    """Both lead to the same states and messages of every group; this one in batches of 40 offsets.

    Either checkpoint goes on with the other source, and then has what came later.
    """
    groups = [unique(f"g{number}") for number in range(30)]
    write(log_query, dict.fromkeys(groups, history()), 1_000)
    before = log_query.results("ours", groups, by_connector=False)
    assert before == log_query.results("theirs", groups, by_connector=True)
    assert list(before) == groups
    assert last_batch(log_query.folder / "ours") >= 2
    write(log_query, {group: [commit("t", 1, 7, at=0)] for group in groups[:5]}, 2_000)
    ours = log_query.results("ours", groups, by_connector=True)
    assert ours == log_query.results("theirs", groups, by_connector=False)


@pytest.mark.broker
@pytest.mark.spark
def test_active_groups_are_read_ahead(log_query: LogQuery, unique: Callable[[str], str]) -> None:
    """The first batch has those with a record of now and no other group; in the end each has all of its records."""
    resting = [unique(f"g{number}") for number in range(60)]
    active = unique("active")
    write(log_query, dict.fromkeys([active, *resting], history(now_ms() - 3_600_000)), 0)
    write(log_query, {active: history(now_ms())}, 0)
    ours = log_query.results("ahead", [*resting, active], by_connector=False, long_log=50)
    first, *_, last = log_query.offsets("ahead")
    assert first["ahead"] == last[OFFSETS_TOPIC]
    assert first[OFFSETS_TOPIC] != last[OFFSETS_TOPIC]
    assert last.keys() == {OFFSETS_TOPIC}
    assert log_query.groups_in_batch("ahead", 0) == {active}
    assert ours == log_query.results("theirs", [*resting, active], by_connector=True)
