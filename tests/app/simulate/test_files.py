"""Simulations as files: an error for each mistake, the same bytes for the same seed, a replay that finds the truth.

As rows: one partition of probes by time, and the ends of a log with transactions.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from groupreplay.app.simulate.files import (
    CLUSTER_ID,
    ERA,
    RowTarget,
    SimulatedRow,
    check_broker,
    check_clients,
    checked_properties,
    scenario_named,
    simulated_rows,
    trace_path,
    truth_path,
    write_simulation,
)
from groupreplay.coordinator.requests import Settings
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.settings_table import BROKER_SETTINGS, CLIENT_SETTINGS
from groupreplay.coordinator.simulation.simulation import BEGIN_MS, BROKERS, SimulationPlan
from groupreplay.coordinator.trace_entries import trace_schema
from groupreplay.state import Context
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.contract.log import no_progress
from groupreplay.streaming.contract.probe_messages import GroupAnswer, RoundSummary, decode_message
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.sources.capture import read_captures


def test_a_scenario_that_is_not_there() -> None:
    """The error has the nearest one, and where the others are."""
    assert scenario_named("storm").name == "storm"
    with pytest.raises(GroupReplayError) as caught:
        scenario_named("storn")
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.what == "there is no scenario 'storn'"
    assert "did you mean storm? groupreplay simulate --list prints all" in (caught.value.fix or "")


def test_clients_that_would_not_start() -> None:
    """The scenario with the settings of the flags is checked."""
    wrong = scenario_named("mixed").with_client({"heartbeat.interval.ms": 45_000})
    with pytest.raises(GroupReplayError, match=r"a client does not start with these settings, .* \(flag\)"):
        check_clients(wrong, "flag")


def test_settings_of_flags() -> None:
    """Text becomes numbers and lists; a mistake names the flag."""
    flags = {"group.max.size": "2", "group.consumer.assignors": "range"}
    assert checked_properties(BROKER_SETTINGS, flags, "--broker-property") == {
        "group.max.size": 2,
        "group.consumer.assignors": ("range",),
    }
    for name, text, sentence in (
        (
            "sesion.timeout.ms",
            "1",
            "unknown setting 'sesion.timeout.ms' (--client-property): did you mean session.timeout.ms? known here: ",
        ),
        (
            "group.max.size",
            "1",
            "group.max.size is a setting of the broker (--client-property): give it with --broker-property",
        ),
        (
            "session.timeout.ms",
            "10s",
            "session.timeout.ms must be a whole number, 1 or more, not 10s (--client-property): "
            "docs/simulations.md lists the settings",
        ),
    ):
        with pytest.raises(GroupReplayError) as caught:
            checked_properties(CLIENT_SETTINGS, {name: text}, "--client-property")
        assert str(caught.value).startswith(sentence)
        assert caught.value.exit_code is ExitCode.USAGE


def test_a_broker_that_would_not_start() -> None:
    """The flags and the file together are checked."""
    check_broker({"group.min.session.timeout.ms": 1, "group.max.session.timeout.ms": 1}, "flag")
    with pytest.raises(GroupReplayError, match=r"a broker does not start with these settings, .* \(flag\)"):
        check_broker({"group.min.session.timeout.ms": 2, "group.max.session.timeout.ms": 1}, "flag")


def test_a_broker_that_does_not_know_a_setting() -> None:
    """The versions of records follow from a setting that Kafka 4 does not have."""
    old = {"inter.broker.protocol.version": "1.1"}
    check_broker(old, "flag", scala=True)
    with pytest.raises(
        GroupReplayError, match=r"brokers since 4.0 do not know inter.broker.* \(flag\): add --scala"
    ):
        check_broker(old, "flag", scala=False)


MINUTE_MS = 60_000


def made(
    scenario: str, target: RowTarget, minutes: int = 20, *, scala: bool = False
) -> tuple[list[SimulatedRow], list[SimulatedRow], list[dict[str, Any]]]:
    """Records, probes and truth of a simulation with two partitions."""
    plan = SimulationPlan(
        scenario=SCENARIOS[scenario],
        groups=6,
        duration_ms=minutes * MINUTE_MS,
        seed=5,
        partitions=2,
        settings=Settings(scala=scala),
    )
    truth = io.StringIO()
    rows = list(simulated_rows(plan, target, truth, no_progress))
    records = [row for row in rows if row[0] == target.topic]
    probes = [row for row in rows if row[0] == target.probes_topic]
    return records, probes, [json.loads(line) for line in truth.getvalue().splitlines()]


def decoded(probes: list[SimulatedRow]) -> list[GroupAnswer | RoundSummary]:
    """The messages of the prober; each of them is an answer or a summary."""
    messages = [decode_message(row[5], row[6]) for row in probes]
    found = [message for message in messages if isinstance(message, GroupAnswer | RoundSummary)]
    assert found == messages
    return found


def summaries(probes: list[SimulatedRow]) -> list[RoundSummary]:
    """The rounds of the prober."""
    return [one for one in decoded(probes) if isinstance(one, RoundSummary)]


@pytest.mark.parametrize("spill_bytes", [32 * 1024 * 1024, 500])
def test_probes_are_one_partition_by_time(monkeypatch: pytest.MonkeyPatch, spill_bytes: int) -> None:
    """A round's answers and its summary behind them, also when they have waited in files."""
    monkeypatch.setattr("groupreplay.app.simulate.prober_messages._SPILL_BYTES", spill_bytes)
    _, probes, _ = made("stuck", RowTarget(cluster_id="c"))
    assert {row[1] for row in probes} == {0}
    assert [row[2] for row in probes] == list(range(len(probes)))
    order = [(one.taken_ms, isinstance(one, RoundSummary)) for one in decoded(probes)]
    assert order == sorted(order)
    assert {is_summary for _, is_summary in order} == {False, True}


def test_an_open_transaction_holds_the_stable_end_back() -> None:
    """In a capture; a topic that counts by itself has only what is committed, behind what it had."""
    records, probes, _ = made("transactions", RowTarget(cluster_id="c"), 60)
    ends = [pair for summary in summaries(probes) for pair in summary.partitions.values()]
    assert any(stable < high for high, stable in ends)
    assert all(stable <= high for high, stable in ends)
    assert max(row[2] for row in records) + 1 > len(records) / 2
    mine = RowTarget(cluster_id="c", first_offsets={0: 100, 1: 7})
    records, probes, _ = made("transactions", mine)
    last = summaries(probes)[-1].partitions
    written = {number: sum(row[1] == number for row in records) for number in (0, 1)}
    assert all(high == stable for high, stable in last.values())
    assert 100 < last[0][0] <= 100 + written[0]
    assert 7 < last[1][0] <= 7 + written[1]


def test_a_group_that_mixes_commits_is_in_the_truth() -> None:
    """The older coordinator warns of it in the broker's log, which no record tells of."""
    _, _, truth = made("transactions", RowTarget(cluster_id="c"), 60, scala=True)
    warned = next(line for line in truth if "warning" in line)
    assert set(warned) == {"time_ms", "group_id", "warning"}
    assert "Mixing both types" in warned["warning"]


def test_a_broker_that_is_restarted_is_not_in_the_round() -> None:
    """Each in its turn, while it is away."""
    _, probes, _ = made("cluster-restart", RowTarget(cluster_id="c"), minutes=25)
    away = [(summary.taken_ms - BEGIN_MS, {*BROKERS} - {*summary.brokers}) for summary in summaries(probes)]
    assert {tuple(gone) for _, gone in away} == {(), *((broker,) for broker in BROKERS)}
    assert min(at_ms for at_ms, gone in away if gone) >= 15 * MINUTE_MS


def test_a_broker_that_loads_does_not_list_its_groups() -> None:
    """The summary of a round has its error, and no answer of that round is about one of its groups."""
    _, probes, _ = made("loading", RowTarget(cluster_id="c"), 60)
    rounds = summaries(probes)
    loading = {one.taken_ms: [broker for broker, error in one.brokers.items() if error] for one in rounds}
    errors = {error for one in rounds for error in one.brokers.values()}
    assert errors == {None, "COORDINATOR_LOAD_IN_PROGRESS"}
    answers = [one for one in decoded(probes) if isinstance(one, GroupAnswer)]
    assert answers
    assert not [answer for answer in answers if answer.broker in loading[answer.taken_ms]]


HOUR_MS = 3_600_000


def written(folder: Path, scenario: str, groups: int, duration_ms: int, seed: int = 1) -> Path:
    """A simulation in few partitions."""
    path = folder / f"{scenario}.parquet"
    plan = SimulationPlan(
        scenario=SCENARIOS[scenario], groups=groups, duration_ms=duration_ms, seed=seed, partitions=3
    )
    write_simulation(plan, path)
    return path


def events(path: Path) -> list[dict[str, Any]]:
    """What the job would say."""
    driver = Replay(Context(cluster_id=CLUSTER_ID, era=ERA, probing=True, complete_since_ms=0), None)
    said = [json.loads(event) for event in events_in_order(driver.feed(read_captures([path])), Filter())]
    assert driver.dead_letters == 0
    return said


def truth(path: Path) -> list[dict[str, Any]]:
    """What really happened."""
    return [json.loads(line) for line in truth_path(path).read_text().splitlines()]


def test_a_replay_finds_the_truth(tmp_path: Path) -> None:
    """Each generation, each group's beginning and end; of rebalances it says those that a prober has met."""
    path = written(tmp_path, "mixed", 12, HOUR_MS // 2)
    told, happened = defaultdict(list), defaultdict(list)
    for event in events(path):
        data = event["data"]
        told[event["type"].split(".", 1)[1]].append((data["group_id"], data.get("generation") or 0))
    for change in truth(path):
        step = change.get("before"), change.get("after")
        happened[step].append((change["group_id"], change.get("generation")))
    for name, step in {
        "rebalance.completed.v1": ("CompletingRebalance", "Stable"),
        "group.created.v1": ("Dead", "Empty"),
        "group.emptied.v1": ("PreparingRebalance", "Empty"),
    }.items():
        assert sorted(told[name]) == sorted(happened[step])
    begun = {at for (_, after), all_ in happened.items() if after == "PreparingRebalance" for at, _ in all_}
    assert set() < {group_id for group_id, _ in told["rebalance.started.v1"]} <= begun


def test_one_seed_gives_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    """Whatever Python's hash of texts is."""
    command = [sys.executable, "-m", "groupreplay", "simulate", "--scenario", "mixed", "--seed", "4"]
    command += ["--groups", "5", "--seconds", "300", "-o"]
    written = set()
    for number in (1, 2):
        path = tmp_path / f"{number}.parquet"
        environment = {**os.environ, "PYTHONHASHSEED": str(number)}
        subprocess.run([*command, str(path)], check=True, env=environment, cwd=tmp_path)
        written.add(path.read_bytes() + truth_path(path).read_bytes())
    assert len(written) == 1


@pytest.mark.parametrize(
    "scenario", ["mixed", "migration", "stuck-kip848", "transactions", "cluster-restart"]
)
def test_a_trace_of_every_step(tmp_path: Path, scenario: str) -> None:
    """The capture is the same with it; each line is as the schema says; answers and timers belong together."""
    plain = written(tmp_path, scenario, 4, HOUR_MS // 2).read_bytes()
    plan = SimulationPlan(
        scenario=SCENARIOS[scenario], groups=4, duration_ms=HOUR_MS // 2, seed=1, partitions=3, traced=True
    )
    path = tmp_path / f"{scenario}.parquet"
    write_simulation(plan, path, trace=trace_path(path), force=True)
    assert path.read_bytes() == plain
    told = [json.loads(line) for line in trace_path(path).read_text().splitlines()]
    schema = Draft202012Validator(trace_schema())
    assert [line for line in told if not schema.is_valid(line)] == []
    happened = [(one["time_ms"], one["group_id"], one["after"]) for one in truth(path) if "after" in one]
    states = [(one["time_ms"], one["group_id"], one["after"]) for one in told if one["kind"] == "state"]
    assert sorted(states) == sorted(happened)
    assert left_over(told) == []


def left_over(told: list[dict[str, Any]]) -> list[str]:
    """What does not fit: answers without a request, times that go back, timers that fire without being due."""
    asked, due, latest = set(), {}, defaultdict(int)
    wrong = []
    for one in told:
        group, kind = one["group_id"], one["kind"]
        if one["time_ms"] < latest[group]:
            wrong.append(f"earlier than the step before: {one}")
        latest[group] = one["time_ms"]
        if kind == "request":
            asked.add((group, one["request"]))
        elif kind == "answer" and (group, one["request"]) not in asked:
            wrong.append(f"nobody has asked: {one}")
        elif kind == "timer":
            key = (group, one["timer"], one["member_id"])
            known = due.pop(key, None)
            if one["change"] in ("set", "extended"):
                due[key] = one["due_ms"]
                known_before = one["was_due_ms"]
            else:
                known_before = one["due_ms"]
            if known != known_before:
                wrong.append(f"another timer than the one that was set, due at {known}: {one}")
            if one["change"] == "fired" and one["time_ms"] != known:
                wrong.append(f"fired at another time than {known}: {one}")
    return wrong


def test_nothing_is_left_of_a_simulation_that_cannot_be_written(tmp_path: Path) -> None:
    """The folder is not there."""
    plan = SimulationPlan(scenario=SCENARIOS["mixed"], groups=1, duration_ms=1_000, seed=0)
    with pytest.raises(GroupReplayError, match="No such file or directory"):
        write_simulation(plan, tmp_path / "nowhere" / "a.parquet")
    assert list(tmp_path.iterdir()) == []
