"""A leader of a real broker's group that takes eight seconds for its assignment: every form says so, and names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.captures import printed_by
from support.kafka.clients import make_topics
from support.kafka.kafka_classes import Jvm, broker_jars
from support.kafka.sleepy_leader import SOURCE as SLEEPY_LEADER
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker

SLEPT_MS = 8_000


def test_a_slow_leader(broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path) -> None:
    """A second member joins, and the leader sleeps in its assignor: event, flag, lane, history and verdict agree."""
    server, topic, group = broker.bootstrap_servers, unique("t"), unique("g")
    make_topics(server, {topic: 4})
    with Jvm(broker_jars()) as jvm:
        leader = jvm.make(SLEEPY_LEADER, "SleepyLeader")
        leader.join(server, group, "sleepy-a", topic, 60_000)
        wait_until(lambda: leader.owned("sleepy-a") == 4)
        leader.sleep(SLEPT_MS)
        leader.join(server, group, "sleepy-b", topic, 60_000)
        wait_until(lambda: (leader.owned("sleepy-a"), leader.owned("sleepy-b")) == (2, 2))
        where = ("--bootstrap-server", server, "--group", group)
        path = tmp_path / "slow.json"
        printed_by("report", *where, "-o", path)
        rows = json.loads(printed_by("describe", *where, "--history", "-o", "json"))
        leader.stop()
    document = json.loads(path.read_text(encoding="utf-8"))
    (slow,) = [flag for flag in document["generations"] if flag["slow_leader"]]
    assert slow["slow_leader"] == "sleepy-a on 127.0.0.1"
    assert document["slots"][slow["leader_slot"]]["name"] == "sleepy-a"
    assert slow["least_ms"] >= slow["sync_ms"] >= SLEPT_MS
    (lane,) = [
        bar for bar in document["states"] if bar["until_ms"] == slow["at_ms"] and bar["generation"] > 1
    ]
    assert (lane["state"], lane["until_ms"] - lane["since_ms"]) == ("CompletingRebalance", slow["sync_ms"])
    seconds = f"{slow['sync_ms'] / 1000:.1f} s"
    waited = f"waited {seconds} for the assignment of the leader, sleepy-a on 127.0.0.1"
    text = document["events"][slow["event"]]["text"]
    assert (slow["took"] in text, waited in text) == (True, True)
    assert [row["generation"] for row in rows if waited in str(row["why"])] == [slow["generation"]]
    first = document["verdict"][0]
    assert first["tone"] == "info"
    assert first["text"].startswith(
        "The group waited once for the assignment of its leader, sleepy-a on 127.0.0.1"
    )
    assert first["until_ms"] - first["since_ms"] == slow["sync_ms"]
