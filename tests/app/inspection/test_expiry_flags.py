"""Expiry as it is typed: list --expiring, describe --sort expires, --retention-minutes, --with-lag."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.histories.builders import asked_for, check, commit, emptied, generation, gone, member
from support.job.captures import invoke, raw, write_capture

AT = 1_767_225_600_000
MINUTE = 60_000


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Group ``g``, empty since a minute when the log ends; of two partitions one has an expiry of its own."""
    life = [
        asked_for(at=AT),
        generation(1, member("a", [0, 1]), at=AT + 1_000),
        commit("t", 0, 5, at=AT + 2_000),
        commit("t", 1, 7, at=AT + 2_000, version=1, expire_timestamp_ms=AT + 20 * MINUTE),
        emptied(2, at=AT + 3_000),
        commit("t", 2, 7, at=AT + MINUTE),
    ]
    return write_capture(tmp_path / "a.parquet", raw(life))


def expiries(capture: Path, *flags: str) -> list[tuple[int, int]]:
    """Partition and deadline, counted from the beginning."""
    (group,) = json.loads(
        invoke("describe", "--from-file", capture, "--group", "g", "-o", "json", *flags).stdout
    )
    return [(one["partition"], one["expires_at_ms"] - AT) for one in group["offsets"]]


def test_a_flag_says_how_long(capture: Path) -> None:
    """Without it a capture is taken to come from brokers with Kafka's default of seven days."""
    week = 7 * 24 * 60 * MINUTE
    assert expiries(capture) == [(0, week + 3_000), (1, 20 * MINUTE), (2, week + 3_000)]
    assert expiries(capture, "--retention-minutes", "10") == [
        (0, 10 * MINUTE + 3_000),
        (1, 20 * MINUTE),
        (2, 10 * MINUTE + 3_000),
    ]


def test_what_expires_first_comes_first(capture: Path) -> None:
    """The column is the last one but those for --verbose."""
    words = ["describe", "--from-file", capture, "--group", "g"]
    lines = invoke(*words, "--sort", "expires").stdout.splitlines()
    assert lines[0].split()[-1] == "EXPIRES"
    assert [line.split()[2] for line in lines[1:]] == ["1", "0", "2"]
    assert [line.split()[2] for line in invoke(*words).stdout.splitlines()[1:]] == ["0", "1", "2"]


def test_groups_that_lose_offsets_soon(capture: Path) -> None:
    """From the end of a capture on; only the partitions that are concerned."""
    words = ["list", "--from-file", capture, "-o", "jsonl", "--expiring"]
    assert invoke(*words, "18m").stdout == ""
    assert json.loads(invoke(*words, "19m").stdout) == {
        "group_id": "g",
        "type": "classic",
        "state": "Empty",
        "partitions": 1,
        "expires_at_ms": AT + 20 * MINUTE,
        "earliest_replays": None,
        "latest_skips": None,
    }
    assert json.loads(invoke(*words, "8d").stdout)["partitions"] == 3
    assert "#PARTITIONS" in invoke("list", "--from-file", capture, "--expiring", "8d").stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["list", "--with-lag"], "give --bootstrap-server"),
        (["list", "--expiring", "8d", "--with-lag"], "give --bootstrap-server"),
        (["describe", "--group", "g", "--with-lag"], "give --bootstrap-server"),
        (["list", "--expiring", "soon"], "is not a duration"),
        (["list", "--retention-minutes", "0"], "--retention-minutes"),
        (
            ["list", "--broker-release", "kafka"],
            "'kafka' is no release of Kafka; give two numbers, such as 3.9.",
        ),
        (
            ["list", "--broker-property", "group.max.size=2"],
            "'group.max.size' is not read; give one of group.consumer.session.timeout.ms, ",
        ),
        (
            ["list", "--broker-property", "group.share.session.timeout.ms=1m"],
            "group.share.session.timeout.ms=1m is no time of Kafka; give milliseconds, such as ",
        ),
        (
            [
                *("list", "--broker-property", "group.streams.session.timeout.ms=5000"),
                *("--broker-property", "group.streams.heartbeat.interval.ms=5000"),
            ],
            "a shorter session; give group.streams.session.timeout.ms=5001 or more.",
        ),
        (
            [
                *("list", "--broker-property", "group.consumer.session.timeout.ms=5000"),
                *("--broker-property", "group.consumer.min.session.timeout.ms=6000"),
            ],
            "a shorter session; give group.consumer.session.timeout.ms=6000 or more.",
        ),
    ],
)
def test_what_cannot_be_asked(capture: Path, words: list[str], says: str) -> None:
    """A usage error that says what would do."""
    result = invoke(*words, "--from-file", capture)
    assert result.exit_code == 2
    assert says in result.stderr


def told(capture: Path, *flags: str) -> str:
    """What describe says on stderr."""
    return invoke("describe", "--all-groups", "--from-file", capture, *flags).stderr


def test_clean_ups_further_apart_than_the_retention(capture: Path) -> None:
    """One sentence says what follows."""
    odd = ("--retention-minutes", "1", "--retention-check-interval-ms", "120000", "--broker-release", "3.9")
    assert told(capture, *odd) == (
        "offsets.retention.check.interval.ms (2 min 0 s) is longer than offsets.retention.minutes (1 min 0 s): an "
        "offset may stay for 2 min 0 s after its deadline\n"
    )
    assert told(capture, "--retention-minutes", "1", "--broker-release", "3.9") == ""


def test_a_deleted_group_with_an_offset_left(tmp_path: Path) -> None:
    """It is shown among the offsets, with a time and no certainty, and a sentence about both coordinators."""
    path = write_capture(tmp_path / "a.parquet", raw([commit("t", 0, 7, at=AT), gone(at=AT + 1)]))
    shown = invoke("describe", "--from-file", path, "--group", "g", "-o", "jsonl")
    assert shown.exit_code == 0, shown.output
    (offset,) = json.loads(shown.stdout)["offsets"]
    check(
        offset,
        expires_at_ms=None,
        may_expire_at_ms=AT + 7 * 24 * 60 * MINUTE,
        expiry_rule="deleted",
        expiry_base="commit",
    )
    assert "the group 'g' was deleted with 1 offset left: since Kafka 4.0" in shown.stderr
    assert "the older one (in Scala) has loaded them as an Empty group" in shown.stderr
    row = invoke(
        "describe", "--from-file", path, "--group", "g", "--columns", "EXPIRES,EXPIRY-RULE,KEPT-SINCE"
    )
    assert "perhaps" in row.stdout
    assert row.stdout.split()[-2:] == ["deleted", "commit"]
    state = invoke("describe", "--from-file", path, "--group", "g", "--state")
    assert "it was deleted" in state.stderr
