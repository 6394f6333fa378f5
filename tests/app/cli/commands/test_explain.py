"""``groupreplay explain`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groupreplay.app.simulate.files import write_simulation
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.simulation import SimulationPlan
from support.histories.stopped import ENDED_MS, INTERVAL_MS, PARTITIONS, RATE, SECOND, stopped_capture
from support.job.captures import invoke

AT = 1_767_225_600_000


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of two groups in which a member hangs while another one joins."""
    path = tmp_path_factory.mktemp("explain") / "stuck.parquet"
    plan = SimulationPlan(scenario=SCENARIOS["stuck"], groups=2, duration_ms=3_600_000, seed=3, partitions=1)
    write_simulation(plan, path)
    return path


def test_a_group_that_was_stuck(stuck: Path) -> None:
    """Cause, chain, what to do first with the member, the command and the section; below it the tables."""
    shown = invoke("explain", "--from-file", stuck, "stuck-000000").stdout
    assert shown.startswith("stuck-000000: classic group, ")
    for word in ("Cause ", "Trigger ", "Waited for ", "End ", "Cost ", "Do first "):
        assert f"      {word}" in shown
    assert "stuck-000000-1 on 10.0.0.1" in shown
    assert (
        "$ groupreplay describe --bootstrap-server HOST:PORT --group stuck-000000 --members --verbose"
        in shown
    )
    assert "docs/runbook.md#rebalance-stuck" in shown
    for question in ("Why is it in this state", "Why did it rebalance", "What becomes of its offsets"):
        assert f"\n{question}" in shown


def test_another_runbook(stuck: Path) -> None:
    """Its section stands below what to do first, in the terminal and in the report."""
    flags = ("--from-file", stuck, "--runbook-url", "https://runbook.example.com/kafka")
    section = "https://runbook.example.com/kafka#rebalance-stuck"
    assert section in invoke("explain", *flags, "stuck-000000").stdout
    out = stuck.with_name("linked.json")
    assert invoke("report", *flags, "--group", "stuck-000000", "-o", out).exit_code == 0
    assert json.loads(out.read_text())["verdict"][0]["first"]["runbook"] == section


def test_as_json(stuck: Path) -> None:
    """The same diagnosis as the document of the report; several groups where a glob matches them."""
    told = json.loads(invoke("explain", "--from-file", stuck, "stuck-*", "-o", "json").stdout)
    assert [group["group_id"] for group in told] == ["stuck-000000", "stuck-000001"]
    out = stuck.with_name("one.json")
    assert invoke("report", "--from-file", stuck, "--group", "stuck-000000", "-o", out).exit_code == 0
    assert told[0]["diagnosis"] == json.loads(out.read_text())["verdict"]
    assert told[0]["diagnosis"][0]["cause"] in ("silent_member", "slow_rejoin")
    lines = invoke("explain", "--from-file", stuck, "stuck-*", "-o", "jsonl").stdout.splitlines()
    assert list(map(json.loads, lines)) == told


def test_times(capture: Path) -> None:
    """--at ignores what is later; --since only tells less; both ways to bound the time exclude each other."""
    words = ["explain", "--from-file", capture, "g", "-o", "json"]
    (at,) = json.loads(invoke(*words, "--at", AT + 1_000).stdout)
    (whole,) = json.loads(invoke(*words).stdout)
    (since,) = json.loads(invoke(*words, "--since", AT + 1_001, "--last", "1").stdout)
    assert [len(one["rebalances"]) for one in (at, whole, since)] == [1, 2, 1]
    refused = invoke(*words, "--at", AT, "--since", AT)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "Give either --at TIME, or --since and --until." in refused.stderr


def test_the_group_by_its_flag(capture: Path) -> None:
    """--group has the meaning of the argument, as in the other commands; both name groups together."""
    words = ["explain", "--from-file", capture]
    (by_argument,) = {invoke(*words, "g").stdout, invoke(*words, "--group", "g").stdout}
    both = invoke(*words, "g", "--group", "nobody")
    assert (both.exit_code, both.stdout) == (5, by_argument)
    assert "nothing found: there is no group 'nobody' in " in both.stderr


def test_no_such_group(capture: Path) -> None:
    """The sentence and the exit code of describe."""
    for more in ((), ("-o", "json")):
        missing = invoke("explain", "--from-file", capture, "nobody", *more)
        assert (missing.exit_code, missing.stdout.strip()) == (5, "[]" if more else "")
        assert missing.stderr.startswith("nothing found: there is no group 'nobody' in ")
    described = invoke("describe", "--from-file", capture, "--group", "nobody")
    assert described.stderr.splitlines()[-1] == missing.stderr.splitlines()[-1]


def test_evidence(stuck: Path) -> None:
    """--verbose names the events and records of each sentence."""
    shown = invoke("explain", "--from-file", stuck, "stuck-000000", "--verbose").stdout
    assert "                   by event " in shown


def test_what_a_stop_cost(tmp_path: Path) -> None:
    """The sentence has the records that came in the stop, ± one interval, and when the group had caught up."""
    path = stopped_capture(tmp_path / "stopped.parquet")
    (told,) = json.loads(invoke("explain", "--from-file", path, "g", "-o", "json").stdout)
    (stuck, paused) = (
        one for one in told["diagnosis"] if any(link["kind"] == "cost" for link in one["links"])
    )
    began_ms = ENDED_MS - 310 * SECOND
    truth, slack = (
        PARTITIONS * RATE * (ENDED_MS - began_ms) // SECOND,
        PARTITIONS * RATE * INTERVAL_MS // SECOND,
    )
    cost = told["rebalances"][-1]["cost"]
    assert (cost["since_ms"], cost["until_ms"]) == (began_ms, ENDED_MS)
    assert abs(cost["added"] - truth) <= slack
    assert cost["added_least"] <= truth <= cost["added_most"] + slack
    for statement, later in ((stuck, "35.0 s"), (paused, "30.0 s")):
        (link,) = (link for link in statement["links"] if link["kind"] == "cost")
        assert link["text"].startswith(f"+ 12 k records on 4 partitions, caught up {later} later, ")
        assert link["certainty"] == "inferred"
    assert paused["gaps"] == ["The cause is not known: the topic had new records."]
    # Without recorded ends there is no such cost: only what the log shows.
    bare = stopped_capture(tmp_path / "bare.parquet", with_ends=False)
    (told,) = json.loads(invoke("explain", "--from-file", bare, "g", "-o", "json").stdout)
    links = [link["text"] for one in told["diagnosis"] for link in one["links"] if link["kind"] == "cost"]
    assert links[0] == "5 min 0 s without a commit on 4 partitions, 2 partitions moved."
    assert told["rebalances"][-1]["cost"] is None
