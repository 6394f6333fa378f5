"""The programs of docs/tables.md, killed while their input is written; other programs then read each event once."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

import groupreplay
from groupreplay.api.sources import open_log
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import write_log
from support.kafka.clients import make_topics
from support.kafka.waiting import in_background
from support.tables.killed_query import KilledQuery
from support.tables.table_formats import FORMATS, LINE, TableFormat, blocks

pytestmark = [pytest.mark.broker, pytest.mark.spark]
#: The first parts of the programs.
FROM_EVENTS, FROM_LOG = 0, 3
FEW_KILLS, MANY_KILLS = 3, 20
#: Partitions of the offsets topic.
PARTITIONS = 2
#: After each part of the input, so that the query has something to do until its last kill.
PAUSE_SECONDS = 0.5
#: So many parts are written a second time, some time later: what a killed job writes again.
REPEATED = 0.3
DELTA, ICEBERG = (
    pytest.param(
        FORMATS[name],
        id=name,
        marks=pytest.mark.skipif(LINE not in FORMATS[name].lines, reason=f"no {name} for Spark {LINE}"),
    )
    for name in ("delta", "iceberg")
)


@pytest.mark.line
@pytest.mark.parametrize("table_format", [DELTA, ICEBERG])
def test_a_query_of_the_events_that_is_killed(tmp_path: Path, table_format: TableFormat) -> None:
    """Until a kill hits a batch, while events are written, some of them twice."""
    killed_on_events(tmp_path, table_format, FEW_KILLS)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("table_format", [DELTA, ICEBERG])
def test_a_query_of_the_events_that_is_killed_many_times(tmp_path: Path, table_format: TableFormat) -> None:
    """Twenty times."""
    killed_on_events(tmp_path, table_format, MANY_KILLS)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("table_format", [DELTA, ICEBERG])
def test_a_query_of_the_log_that_is_killed(tmp_path: Path, table_format: TableFormat) -> None:
    """``group_events`` on the records of a broker: the ids of a replay, each once."""
    killed_on_the_log(tmp_path, table_format, FEW_KILLS)


def killed_on_events(folder: Path, table_format: TableFormat, kills: int) -> None:
    """The table has every event once, with its columns."""
    events = [json.loads(event.json) for event in groupreplay.replay(simulated(folder), member_events=True)]
    expected = {event["id"]: columns(event) for event in events}
    assert len(expected) == len(events)
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        servers = broker.bootstrap_servers
        make_topics(servers, {"group-events": 2})
        query = KilledQuery(
            folder, table_format, blocks("python")[FROM_EVENTS].replace("broker:9092", servers)
        )

        def write(killed: threading.Event) -> None:
            producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
            for number, event in enumerate(events):
                emit(producer, event)
                if random.random() < REPEATED:
                    emit(producer, events[random.randint(max(0, number - 20), number)])
                killed.wait(PAUSE_SECONDS)
            while not killed.wait(PAUSE_SECONDS):
                emit(producer, random.choice(events))
            assert producer.flush(60) == 0

        rows = rows_of_killed(query, write, kills, lambda: expected.keys())
    assert {row["event_id"]: {name: row[name] for name in columns(events[0])} for row in rows} == expected


def killed_on_the_log(folder: Path, table_format: TableFormat, kills: int) -> None:
    """The table has every event of a replay that a record caused, and none that a replay has not."""
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        servers = broker.bootstrap_servers
        opened = open_log(groupreplay.topic(servers), None, None)
        text = blocks("python")[FROM_LOG].replace("broker:9092", servers)
        text = text.replace("range(50)", f"range({PARTITIONS})")
        text = text.replace('"my-cluster"', f'"{opened.rows.cluster_id}", topic_id="{opened.rows.era}"')
        parts = list(simulated_log(folder))

        def write(killed: threading.Event) -> None:
            for part in parts:
                write_log(servers, part, PARTITIONS)
                killed.wait(PAUSE_SECONDS)

        def replayed(*, caused: bool) -> set[str]:
            events = groupreplay.replay(groupreplay.topic(servers))
            return {event.id for event in events if event.data["cause"] is not None or not caused}

        rows = rows_of_killed(
            KilledQuery(folder, table_format, text), write, kills, lambda: replayed(caused=True)
        )
        assert {row["event_id"] for row in rows} <= replayed(caused=False)


def rows_of_killed(
    query: KilledQuery,
    write: Callable[[threading.Event], None],
    kills: int,
    expected: Callable[[], Collection[str]],
) -> list[dict[str, Any]]:
    """Kills the query while the input is written; the rows as soon as the expected ids are there, each id once.

    Of few kills one that leaves a batch unfinished is enough.
    """
    with query:
        with in_background(write):
            for _ in range(kills):
                query.kill()
                if kills == FEW_KILLS and query.unfinished:
                    break
        wanted = set(expected())
        query.wait_until(lambda: wanted <= {row["event_id"] for row in query.rows()})
        query.wait_idle()
        rows = query.rows()
    repeated = {name: times for name, times in Counter(row["event_id"] for row in rows).items() if times > 1}
    assert repeated == {}
    assert query.unfinished > 0, "no kill hit a batch"
    return rows


def simulated(folder: Path) -> Path:
    """A capture of groups that rebalance all the time."""
    path = folder / "flapping.parquet"
    partitions = {"offsets.topic.num.partitions": str(PARTITIONS)}
    groupreplay.simulate("flapping", path, groups=10, seconds=7200, probe_interval=0, brokers=partitions)
    return path


def simulated_log(folder: Path) -> Iterator[list[tuple[int, bytes, bytes | None, int]]]:
    """Its records by time, in parts, as ``write_log`` takes them."""
    table = pq.read_table(simulated(folder), columns=["timestamp", "partition", "offset", "key", "value"])
    rows = table.sort_by([("timestamp", "ascending"), ("partition", "ascending"), ("offset", "ascending")])
    for batch in rows.to_batches(max_chunksize=100):
        yield [(row["partition"], row["key"], row["value"], row["timestamp"]) for row in batch.to_pylist()]


def emit(producer: Producer, event: dict[str, Any]) -> None:
    """As a job that emits it now."""
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    value = json.dumps({**event, "recordedtime": now})
    producer.produce("group-events", value, event["data"]["group_id"])


def columns(event: dict[str, Any]) -> dict[str, Any]:
    """The columns of an event but the document, whose time of emission differs in its repeats."""
    cause = event["data"]["cause"] or {}
    return {
        "event_id": event["id"],
        "time": datetime.fromisoformat(event["time"].replace("Z", "+00:00")),
        "type": event["type"],
        "severity": event["severitytext"],
        "severity_number": event["severitynumber"],
        "group_id": event["data"]["group_id"],
        **{name: cause.get(name) for name in ("topic", "partition", "offset")},
    }
