"""``groupreplay replay`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from groupreplay.state import Context
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.sources.capture import read_captures
from support.histories.builders import commit
from support.job.captures import invoke, raw, write_capture

AT = 1_767_225_600_000


#: A capture of an earlier release has no context.
ASSUMED = (
    "assumed, because the capture does not say: committed offsets are kept for 7 days (--retention-minutes); "
    "the brokers have the rules of Kafka 3.2 or later (--broker-release); "
    "no prober asked the brokers, so rebalances of classic groups are seen when they end\n"
)


def test_replay_as_a_table(capture: Path) -> None:
    """One line an event: date, time, severity, group, words."""
    result = invoke("replay", "--from-file", capture)
    assert (result.exit_code, result.stderr) == (0, ASSUMED)
    lines = result.stdout.splitlines()
    assert lines.pop(0) == "TIME (UTC)               LEVEL  GROUP           EVENT"
    assert [" ".join(line.split()[:4]) for line in lines] == [
        "2026-01-01 00:00:00.000 INFO g",
        "2026-01-01 00:00:01.000 INFO g",
        "2026-01-01 00:00:03.000 INFO g",
    ]
    assert "generation 2" in lines[2]


def test_replay_as_events(capture: Path) -> None:
    """As jsonl it is exactly what the job would have written, a CloudEvent a line."""
    rows = read_captures([capture])
    driver = Replay(Context(cluster_id=rows.cluster_id, era=rows.era))
    expected = [event.decode() for event in events_in_order(driver.feed(rows), Filter())]
    assert invoke("replay", "--from-file", capture, "-o", "jsonl").stdout.splitlines() == expected


def test_replay_filters(capture: Path) -> None:
    """Group, kind, time and member events can be chosen."""
    words = ["replay", "--from-file", capture, "-o", "jsonl"]

    def types(*more: str) -> list[str]:
        return [json.loads(line)["type"] for line in invoke(*words, *more).stdout.splitlines()]

    completed = "groupreplay.rebalance.completed.v1"
    assert types("--type", "rebalance.completed") == [completed, completed]
    assert types("--since", "2026-01-01T00:00:03Z") == [completed]
    assert types("--until", str(AT + 1)) == ["groupreplay.group.created.v1"]
    assert types("--group", "other") == []
    assert "groupreplay.member.joined.v1" in types("--member-events")


def test_what_the_job_knows_can_be_said(tmp_path: Path) -> None:
    """A first commit proves a new group only where nothing was missed; labels go into every event."""
    capture = write_capture(tmp_path / "a.parquet", raw([commit("t", 0, 5, at=AT)]))
    words = ["replay", "--from-file", capture, "-o", "jsonl", "--label", "team=x"]
    assert invoke(*words).stdout == ""
    (event,) = invoke(*words, "--complete-since", str(AT)).stdout.splitlines()
    assert json.loads(event)["type"] == "groupreplay.group.created.v1"
    assert json.loads(event)["data"]["labels"] == {"team": "x"}


def test_bad_records_are_mentioned(hostile: Path) -> None:
    """What could not be read is said on stderr, and is an event."""
    result = invoke("replay", "--from-file", hostile, "--type", "record.malformed")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 2)
    assert result.stderr == "1 records could not be decoded; groupreplay decode shows which\n" + ASSUMED


def test_rules(stuck: Path, tmp_path: Path) -> None:
    """What is stuck, and what is said of it, is a matter of the rules; a flag of replay wins over the file."""
    path = tmp_path / "rules.toml"
    path.write_text(
        "[[group]]\nmatch = 'g'\nrebalance.stuck.threshold_ms = 250000\nlabels = { team = 'x' }\n"
    )
    listed = json.loads(invoke("list", "--from-file", stuck, "--rules", path, "-o", "jsonl").stdout)
    assert listed["risk"] == "slow"
    words = ["replay", "--from-file", stuck, "--type", "rebalance.stuck", "-o", "jsonl", "--rules", path]
    assert invoke(*words).stdout == ""
    result = invoke(*words, "--rule", "rebalance.stuck.threshold_ms=60000")
    data = json.loads(result.stdout.splitlines()[0])["data"]
    assert (data["threshold_ms"], data["labels"]) == (60_000, {"team": "x"})
    wrong = invoke(*words, "--rule", "rebalance.stuck.ms=1")
    assert (wrong.exit_code, wrong.stderr.splitlines()[0]) == (
        2,
        "error: unknown setting 'rebalance.stuck.ms' (--rule rebalance.stuck.ms=1)",
    )
