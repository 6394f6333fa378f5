"""The coordinator's own log beside a capture: real members leave for known causes, on both coordinators.

What is said is compared with the lines of the log as this test reads them, with what was done to the members, and with
what is said without the log.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from support.departures.plan import CLASSIC_OFTEN, REASONS, Cell, Departure
from support.departures.recorded import SHORTENED, Recording, record
from support.job.captures import GROUPREPLAY, printed_by

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

Json = dict[str, Any]
#: One has a name that looks like a line of the log.
CELLS = (
    Cell("closed in state Stable", CLASSIC_OFTEN, "librdkafka", (Departure("closed-1", "close", 4.0),)),
    Cell("killed", CLASSIC_OFTEN, "librdkafka", (Departure("killed-1", "kill", 4.0),)),
    Cell("static", CLASSIC_OFTEN, "librdkafka", (Departure("static-1", "static close", 4.0, "i1"),)),
)
#: The fields that the log may change.
ADDED = ("evidence", "trigger", "logged", "join_ms_min", "join_ms_max", "duration_ms")


#: A release of each of Kafka's two coordinators; the one between them repeats what 4.4.0 does.
RELEASES = ("3.9.1", pytest.param("4.3.1", marks=pytest.mark.long), "4.4.0")


@pytest.fixture(scope="module", params=RELEASES)
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A broker with either coordinator: its capture, its log, and what was done."""
    folder, settings = (
        tmp_path_factory.mktemp("broker-log"),
        {**SHORTENED, "group.initial.rebalance.delay.ms": 0},
    )
    return record(folder, "few", CELLS, settings, print, seconds=25.0, version=request.param)


def events(recording: Recording, *words: str) -> list[Json]:
    """What ``replay`` prints."""
    source = ("--from-file", recording.capture)
    printed = printed_by("replay", *source, "--member-events", "--output", "jsonl", *words)
    return [json.loads(line) for line in printed.splitlines()]


def named(events: Sequence[Json], name: str) -> list[Json]:
    """The data of the events with this name."""
    return [event["data"] for event in events if event["type"] == f"groupreplay.{name}.v1"]


def prepared(recording: Recording) -> Mapping[tuple[str, int], str]:
    """(group, generation before) -> the reason in the log."""
    pattern = (
        r"Preparing to rebalance group (.+) in state \w+ with old generation (\d+) .*?\(reason: (.*)\)\.?\n"
    )
    found = re.findall(pattern, recording.log.read_text())
    return {(group, int(generation)): reason for group, generation, reason in found}


def test_each_rebalance_has_the_logged_reason(recording: Recording) -> None:
    """All of them; the last word of each is that before its generation, and nothing else of the events changes."""
    plain, logged = events(recording), events(recording, "--broker-log", str(recording.log))
    reasons, rebalances = prepared(recording), named(logged, "rebalance.completed")
    assert {data["evidence"] for data in rebalances} == {"broker_log"}
    for data in rebalances:
        assert data["logged"][-1] == reasons[data["group_id"], data["generation"] - 1]
        assert data["join_ms_min"] == data["join_ms_max"] is not None
    assert [event["id"] for event in plain] == [event["id"] for event in logged]
    for before, after in zip(named(plain, "rebalance.completed"), rebalances, strict=True):
        # Members that are gone have the proven reason, too.
        same = [name for name in before if name not in (*ADDED, "gone")]
        assert {name: after[name] for name in same} == {name: before[name] for name in same}


def test_each_departure_is_what_was_done(recording: Recording) -> None:
    """Killed and static members are proven; of a LeaveGroup of librdkafka the log does not say why it was sent."""
    left = {
        data["client_id"]: data
        for data in named(events(recording, "--broker-log", str(recording.log)), "member.left")
    }
    for done in recording.done:
        departure, expected = left[done.client], REASONS[done.cause]
        if expected == "left":
            assert {one["reason"] for one in departure["candidates"]} <= {"left", "poll_timeout"}
        else:
            assert (departure["reason"], departure["evidence"]) == (expected, "broker_log")


def test_the_log_of_another_cluster(recording: Recording) -> None:
    """The line of the broker's start names the cluster; with another one nothing is printed but the reason."""
    other = recording.log.with_name("other.log")
    text = re.sub(r"in cluster \S+ is now", "in cluster anotherCluster is now", recording.log.read_text())
    # Of Kafka 4.3 the embedded broker does not log this class.
    start = (
        "[BrokerLifecycleManager id=1] Incarnation W of broker 1 in cluster anotherCluster is now STARTING."
    )
    other.write_text(
        f"2026-11-27T09:00:00.000Z [main] INFO kafka.server.BrokerLifecycleManager - {start}\n{text}"
    )
    command = [*GROUPREPLAY, "explain", "--from-file", str(recording.capture), "killed"]
    run = subprocess.run([*command, "--broker-log", str(other)], check=False, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (5, "")
    assert "the log is of the cluster anotherCluster, the records are of" in run.stderr
