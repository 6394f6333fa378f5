"""Every block of docs/reading.md, run on a topic in which each event stands twice."""

from __future__ import annotations

import json
import re
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from groupreplay.state import Event, Group, Observations
from groupreplay.state.snapshot.observations import Probe
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.histories.builders import observed, placed
from support.histories.probed import PROBING, TWO, probe, rounds
from support.job.captures import invoke
from support.job.replays import named
from support.job.sink_messages import SINCE_MS, events
from support.job.spark_sessions import small_session
from support.kafka.clients import make_topics, produce
from support.kafka.waiting import wait_until
from support.paths import ROOT

pytestmark = pytest.mark.broker

PAGE = (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")
TOPIC = "reading-events"
#: Said more than a minute late: nobody is called for it.
LATE = "late"


def block(language: str, number: int = 0) -> str:
    """A block of the page."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[number]


@pytest.fixture(scope="module")
def server(broker: EmbeddedBroker) -> str:
    """A topic with the events of four groups, every one twice, as after a kill."""
    make_topics(broker.bootstrap_servers, {TOPIC: 2})
    keyed = [(json.loads(value)["data"]["group_id"].encode(), value) for value in written()]
    produce(broker.bootstrap_servers, TOPIC, keyed * 2)
    return broker.bootstrap_servers


def written() -> list[bytes]:
    """The events of a group at rest, one that was stuck for 210 seconds, and two that still are; by time."""
    until = SINCE_MS + 210_000
    stuck = rounds(SINCE_MS, until - 1)
    values = events(said_of("calm", [], until), "calm")
    values += events(said_of("ended", [*stuck, probe(until, "Stable", "a", "b")], until), "ended")
    values += events(said_of("g", stuck, until), "g")
    return values + events(said_of(LATE, stuck, until), LATE, late_ms=3_600_000)


def said_of(group_id: str, probes: list[Probe], until: int) -> list[Event]:
    """What is said of a group of two members that the prober sees like this."""
    group = Group(group_id, PROBING)
    seen = observed(placed([TWO]))
    said = group.apply(Observations(items=seen.items, seen_to=seen.seen_to, probes=probes), 0)
    return said + group.expire(until)


def action(event: dict[str, Any]) -> str:
    """What the consumer of the page does about an event."""
    return "OVER" if event["data"].get("status") == "resolved" else "PAGE"


def here(text: str, server: str) -> str:
    """A block with this broker and this topic in it."""
    return text.replace("broker:9092", server).replace("group-events", TOPIC)


def test_the_consumer(server: str, tmp_path: Path) -> None:
    """Pages for what is WARN or worse and not late, each once; the end of a condition is over and no page."""
    with GuardedProcess(
        [sys.executable, "-c", here(block("python"), server)], tmp_path / "lines"
    ) as consumer:
        expected = sorted(
            f"{action(event)} {event['time']} {event['severitytext']} {event['data']['group_id']} {event['type']}"
            for event in map(json.loads, written())
            if event["severitynumber"] >= 13 and event["data"]["group_id"] != LATE
        )
        wait_until(lambda: len(consumer.tail(100).splitlines()) >= len(expected) or consumer.exit_code)
        # A repeat would have come before the other partition's events, or among them.
        assert sorted(consumer.tail(100).splitlines()) == expected
    # Both groups become slow, then stuck; one recovers from both.
    assert [line.split()[0] for line in expected] == ["OVER"] * 2 + ["PAGE"] * 4
    ended = {line.split()[4] for line in expected if line.startswith("OVER")}
    assert ended == {"groupreplay.rebalance.slow.v1", "groupreplay.rebalance.stuck.v1"}


@pytest.mark.spark
def test_the_spark_query(server: str) -> None:
    """Counts are those of the events, although each stands in the topic twice."""
    names: dict[str, Any] = {"spark": small_session()}
    exec(here(block("python", 1), server), names)
    found = {
        (row.hour, row.group_id): (row.rebalances, row.longest_sync_ms)
        for row in names["rebalances"].collect()
    }
    sync_ms: dict[tuple[datetime, str], list[int]] = {}
    for event in named(list(map(json.loads, written())), "rebalance.completed"):
        at = hour(event["time"]), event["data"]["group_id"]
        sync_ms.setdefault(at, []).append(event["data"]["sync_ms"])
    assert found == {one: (len(spans), max(spans)) for one, spans in sync_ms.items()}


def hour(time: str) -> datetime:
    """The hour of an event's time, as Spark gives it to Python."""
    at = datetime.fromisoformat(time.replace("Z", "+00:00")).replace(minute=0, second=0, microsecond=0)
    return at.astimezone().replace(tzinfo=None)


def test_the_duckdb_query(server: str, tmp_path: Path) -> None:
    """The export has each event once, and the query pairs the two ends of each condition."""
    _, name, *flags = here(block("sh"), server).split(" > ")[0].split()
    result = invoke(name, *flags, "--events-topic", TOPIC)
    lines = result.stdout.splitlines()
    assert sorted(json.loads(line)["id"] for line in lines) == sorted(
        json.loads(value)["id"] for value in written()
    )
    file = tmp_path / "events.jsonl"
    file.write_text(result.stdout, encoding="utf-8")
    rows = duckdb.sql(block("sql").replace("events.jsonl", str(file))).fetchall()
    since, lasted = datetime(1970, 1, 1) + timedelta(milliseconds=SINCE_MS), timedelta(seconds=210)
    assert rows == [
        (group_id, f"rebalance.{name}", severity, since, lasted if group_id == "ended" else None)
        for group_id in ("ended", "g", LATE)
        for name, severity in (("slow", "WARN"), ("stuck", "ERROR"))
    ]
