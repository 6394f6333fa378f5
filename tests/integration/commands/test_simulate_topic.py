"""A simulation in the topics of a real broker: what is replayed from there is what a capture of it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.job.captures import invoke, printed_by
from support.kafka.blank_brokers import blank_broker

pytestmark = pytest.mark.broker

PARTITIONS = 4
#: With transactions: a topic has neither the aborted ones nor markers, so offsets are others than in the capture.
SIMULATION = [
    *("--groups", "4", "--seconds", "1200", "--scenario", "mixed", "--seed", "3"),
    *("--partitions", str(PARTITIONS)),
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A broker whose offsets topic nobody else writes to."""
    with blank_broker(PARTITIONS) as broker:
        yield broker.bootstrap_servers


def told(*words: object) -> list[tuple[str, str, str]]:
    """Time, kind and group of every event of a replay."""
    events = map(json.loads, printed_by("replay", "-o", "jsonl", *words).splitlines())
    return sorted((one["time"], one["type"], str(one["data"].get("group_id"))) for one in events)


def test_the_offsets_topic_is_refused_and_then_replayed(server: str, tmp_path: Path) -> None:
    """Only with the flag that says so; then replay finds there what it finds in the capture."""
    capture, truth = tmp_path / "a.parquet", tmp_path / "truth.jsonl"
    there = ["--bootstrap-server", server]
    into = ["simulate", *SIMULATION, *there, "--to-topic", "__consumer_offsets", "--truth-file", truth]
    refused = invoke(*into)
    assert (refused.exit_code, truth.exists()) == (2, False)
    assert "--into-offsets-topic" in refused.stderr
    printed_by(*into, "--into-offsets-topic")
    printed_by("simulate", *SIMULATION, "-o", capture)
    assert truth.read_bytes() == capture.with_suffix(".truth.jsonl").read_bytes()
    retention = ("--retention-minutes", "10080")
    assert told(*retention, *there) == told(*retention, "--from-file", capture)


def test_another_topic_is_made(server: str, tmp_path: Path) -> None:
    """It must have as many partitions as are simulated."""
    there = ["--bootstrap-server", server, "--to-topic", "scratch", "--probes-topic", "scratch-probes"]
    truth = ["--truth-file", tmp_path / "truth.jsonl"]
    printed_by("simulate", *SIMULATION, *there, *truth)
    other = invoke("simulate", *SIMULATION[:-1], "5", *there, *truth, "--force")
    assert other.exit_code == 2
    assert "the topic has 4 partitions, not 5" in other.stderr
