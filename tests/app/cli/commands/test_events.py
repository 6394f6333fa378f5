"""``groupreplay events``, ``replay`` and ``offsets-file`` on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupreplay.app.inspection.offsets_plan import TYPES
from groupreplay.state import Context, Severity
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.sinks import event_topic
from groupreplay.streaming.sinks.event_topic import Wanted
from groupreplay.streaming.sources.capture import read_captures
from support.histories.builders import commit, gone, no_offset
from support.job.captures import invoke, raw, write_capture


def test_flags_choose_the_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jsonl prints the messages unchanged; messages that are not events are counted on stderr."""
    opened: list[tuple[object, ...]] = []

    class Topic:
        unreadable = 2

        def __init__(self, *arguments: object) -> None:
            opened.append(arguments)

        def read(self, *, follow: bool) -> Iterator[bytes]:
            yield b'{"follow":%s}' % str(follow).lower().encode()

    monkeypatch.setattr(event_topic, "EventTopic", Topic)
    words = (
        "events --bootstrap-server h:1 --events-topic e --follow --since 5 --group a* --type rebalance.stuck"
    )
    result = invoke(*words.split(), "--min-severity", "WARN", "-o", "jsonl")
    assert (result.exit_code, result.stdout) == (0, '{"follow":true}\n')
    assert result.stderr == "2 messages in e are not events\n"
    types = frozenset({"groupreplay.rebalance.stuck.v1"})
    chosen = Filter(types=types, since_ms=5, least_severity=Severity.WARN)
    wanted = Wanted(groups=("a*",), filter=chosen)
    assert opened == [(Cluster(bootstrap_servers="h:1"), "e", wanted)]


def test_what_follows_has_no_end() -> None:
    """--follow and --until contradict each other."""
    result = invoke("events", "--bootstrap-server", "h:1", "--follow", "--until", "1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "leave out either --follow or --until" in result.stderr


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
    assert result.stderr == "1 record could not be decoded; groupreplay decode shows which\n" + ASSUMED


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


WEEK_MS = 7 * 86_400_000


def test_from_a_capture(tmp_path: Path) -> None:
    """The file of an expiry, by the id that ``replay`` prints; the event on the terminal has the command."""
    life = [
        commit("t", 0, 5, at=AT),
        commit("t", 1, 7, at=AT),
        no_offset("t", 0, at=AT + WEEK_MS + 1_000),
        no_offset("t", 1, at=AT + WEEK_MS + 1_000),
        gone(at=AT + WEEK_MS + 1_000),
    ]
    capture = write_capture(tmp_path / "a.parquet", raw(life))
    words = ("replay", "--from-file", capture, "--type", "offsets.expired")
    (line,) = invoke(*words, "-o", "jsonl").stdout.splitlines()
    event_id = json.loads(line)["id"]
    assert f"groupreplay offsets-file --bootstrap-server HOST:PORT {event_id}" in invoke(*words).stdout

    result = invoke("offsets-file", event_id, "--from-file", capture)
    assert (result.exit_code, result.stdout) == (0, "t,0,5\nt,1,7\n")
    assert result.stderr == "group: g\n"


def test_from_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a capture the job's own events are read; an unknown id is an error of the data."""
    opened: list[tuple[object, ...]] = []

    class Topic:
        def __init__(self, *arguments: object) -> None:
            opened.append(arguments)

        def read(self, *, follow: bool) -> Iterator[bytes]:
            assert not follow
            set_ = {"topic": "t", "partition": 0, "from_offset": None, "to_offset": 5}
            data = {"group_id": "g\x1b", "partitions": [set_], "partition_count": 1}
            yield json.dumps({"id": "e1", "type": "groupreplay.offsets.set.v1", "data": data}).encode()

    monkeypatch.setattr(event_topic, "EventTopic", Topic)
    result = invoke("offsets-file", "e1", "--bootstrap-server", "h:1", "--topic-prefix", "x-")
    note = r"group: g\u{1b}; left out, because no offset is known before the event: t-0"
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"{note}\n")
    wanted = Wanted(filter=Filter(types=TYPES))
    assert opened == [(Cluster(bootstrap_servers="h:1"), "x-group-events", wanted)]
    assert invoke("offsets-file", "e2", "--bootstrap-server", "h:1").exit_code == 5


def test_an_input_is_needed() -> None:
    """Without a capture and without a cluster there is nothing to read."""
    assert invoke("offsets-file", "e1", env={"GROUPREPLAY_BOOTSTRAP_SERVER": ""}).exit_code == 2
