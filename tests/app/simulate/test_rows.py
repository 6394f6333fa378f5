"""A simulation as rows: one partition of probes by time, and the ends of a log with transactions."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from groupreplay.app.simulate import rows
from groupreplay.app.simulate.rows import RowTarget, SimulatedRow, simulated_rows
from groupreplay.coordinator.requests import Settings
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.simulation import BEGIN_MS, BROKERS, SimulationPlan
from groupreplay.streaming.contract.probe_messages import GroupAnswer, RoundSummary, decode_message
from groupreplay.streaming.contract.rows import no_progress

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
    found = [one for one in messages if isinstance(one, GroupAnswer | RoundSummary)]
    assert found == messages
    return found


def summaries(probes: list[SimulatedRow]) -> list[RoundSummary]:
    """The rounds of the prober."""
    return [one for one in decoded(probes) if isinstance(one, RoundSummary)]


@pytest.mark.parametrize("spill_bytes", [32 * 1024 * 1024, 500])
def test_probes_are_one_partition_by_time(monkeypatch: pytest.MonkeyPatch, spill_bytes: int) -> None:
    """A round's answers and its summary behind them, also when they have waited in files."""
    monkeypatch.setattr(rows, "_SPILL_BYTES", spill_bytes)
    _, probes, _ = made("stuck", RowTarget(cluster_id="c"))
    assert {row[1] for row in probes} == {0}
    assert [row[2] for row in probes] == list(range(len(probes)))
    order = [(one.taken_ms, isinstance(one, RoundSummary)) for one in decoded(probes)]
    assert order == sorted(order)
    assert {is_summary for _, is_summary in order} == {False, True}


def test_an_open_transaction_holds_the_stable_end_back() -> None:
    """In a capture; a topic that counts by itself has only what is committed, behind what it had."""
    records, probes, _ = made("transactions", RowTarget(cluster_id="c"), 60)
    ends = [pair for one in summaries(probes) for pair in one.partitions.values()]
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
    away = [(one.taken_ms - BEGIN_MS, {*BROKERS} - {*one.brokers}) for one in summaries(probes)]
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
    assert not [one for one in answers if one.broker in loading[one.taken_ms]]
