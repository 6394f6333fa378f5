"""The command ``lag``: at a moment, over time, and what it says where nothing is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from groupreplay.streaming.contract.partition_ends import EndsRound, PartitionEnds, TopicEnds
from support.histories.builders import commit
from support.job.captures import invoke, raw, write_capture
from support.job.probes import ends_round, probes_batch, topic_ends

#: 2026-01-31 00:00 UTC.
AT = 1_769_817_600_000
MINUTE = 60_000


def ends(number: int, end: int) -> TopicEnds:
    """The end of orders-0 in a round, one a minute."""
    partitions = {0: PartitionEnds(0, end, end)}
    return topic_ends(number, partitions, taken_ms=AT + number * MINUTE, took_ms=10, topic="orders")


def complete(number: int) -> EndsRound:
    """The message of a round."""
    return ends_round(number, taken_ms=AT + number * MINUTE, took_ms=10)


#: The end grows by 60 a minute; the group commits 100 at the begin, stops, and has caught up after five minutes.
COMMITS = [commit("orders", 0, 100, at=AT), commit("orders", 0, 400, at=AT + 5 * MINUTE)]
MESSAGES = [message for n in range(6) for message in (ends(n, 100 + 60 * n), complete(n))]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A group that has stopped for five minutes, beside the ends of its partition."""
    rows = raw([*COMMITS, commit("bills", 0, 7, at=AT)])
    return write_capture(tmp_path / "a.parquet", rows, probes=probes_batch(MESSAGES))


def cells(*words: object) -> list[list[str]]:
    """The table."""
    result = invoke("lag", *words)
    assert result.exit_code == 0, result.stderr
    return [line.split("\t") for line in result.stdout.splitlines()]


def test_a_moment(capture: Path) -> None:
    """Records and time of each partition; a topic without recorded ends costs its own lag, and says so."""
    why = "the ends of the partition were not recorded"
    assert cells("--from-file", capture, "--at", AT + 3 * MINUTE + 10) == [
        *[
            [
                "GROUP",
                "TOPIC",
                "PARTITION",
                "CURRENT-OFFSET",
                "LOG-END-OFFSET",
                "LAG",
                "TIME-LAG",
                "LAG-NOTES",
            ]
        ],
        ["g", "bills", "0", "7", "-", "-", "-", why],
        ["g", "orders", "0", "100", "280", "180", "2 min 0 s .. 3 min 0 s", "-"],
    ]


def test_over_time(capture: Path) -> None:
    """The backlog grows while nobody commits, and is gone with the commit; each row has its bounds in JSON."""
    words = ("--since", AT + MINUTE, "--until", AT + 6 * MINUTE, "--step", "2m", "--topic", "ord*")
    table = cells("--from-file", capture, *words)
    assert table[0] == ["TIME", "GROUP", "TOPIC", "LAG", "LAG-LEAST", "LAG-MOST", "TIME-LAG", "LAG-NOTES"]
    assert [line[1:6] for line in table[1:]] == [
        ["g", "orders", "60", "0", "60"],
        ["g", "orders", "180", "120", "180"],
        ["g", "orders", "0", "0", "0"],
        ["g", "orders", "0", "0", "-"],
    ]
    rows = json.loads(invoke("lag", "--from-file", capture, *words, "-o", "json").stdout)
    assert (rows[1]["at_ms"], rows[1]["lag_least"], rows[1]["lag_most"]) == (AT + 3 * MINUTE, 120, 180)
    assert 119_990 <= rows[1]["time_lag_least_ms"] <= rows[1]["time_lag_ms"] <= 180_000


def test_without_recorded_ends(tmp_path: Path) -> None:
    """A sentence, and an empty cell: never 0."""
    path = write_capture(tmp_path / "a.parquet", raw(COMMITS))
    for words in ([], ["--since", str(AT)]):
        result = invoke("lag", "--from-file", path, *words)
        assert result.exit_code == 0
        assert "the lag is not known: no prober has recorded the ends of partitions" in result.stderr
        heading, first = (line.split("\t") for line in result.stdout.splitlines()[:2])
        assert dict(zip(heading, first, strict=True))["LAG"] == "-"


GONE = "the topic was deleted, or may no longer be described, since 2026-01-31T00:02:00.010Z"
NO_LEADER = "the partition has no leader, since 2026-01-31T00:02:00.010Z"


@pytest.mark.parametrize(
    ("later", "offset", "at_minutes", "lag", "notes"),
    [
        ([{"gone": True}], 100, 3, "60", GONE),
        ([{"unknown": {0: "the partition has no leader"}}], 100, 3, "60", NO_LEADER),
        # Before all ends; behind them; and committed when nobody had asked for a long time.
        ([], 100, -1, "-", "the ends of the partition were not recorded before 2026-01-31T00:00:00.010Z"),
        ([], 100, 8, "60", "the end was last recorded at 2026-01-31T00:01:00.010Z"),
        (
            [],
            700,
            8,
            "-",
            "the offset was committed 6 min 0 s after the last recorded end; "
            "the end was last recorded at 2026-01-31T00:01:00.010Z",
        ),
    ],
    ids=[
        "may not be described",
        "no leader",
        "recorded later",
        "not recorded since",
        "older than the commit",
    ],
)
def test_ends_that_are_not_known(
    tmp_path: Path, later: list[dict[str, Any]], offset: int, at_minutes: int, lag: str, notes: str
) -> None:
    """A sentence in each place; a lag is that of the last answer, or absent, and never 0 or negative."""
    messages: list[TopicEnds | EndsRound] = [ends(0, 100), complete(0), ends(1, 160), complete(1)]
    for more in later:
        answer = topic_ends(2, {}, taken_ms=AT + 2 * MINUTE, took_ms=10, topic="orders", **more)
        messages += [answer, complete(2)]
    committed_ms = AT + 7 * MINUTE + 10 if offset > 160 else AT - 2 * MINUTE
    rows = raw([commit("orders", 0, offset, at=committed_ms)])
    path = write_capture(tmp_path / "a.parquet", rows, probes=probes_batch(messages))
    at = AT + at_minutes * MINUTE
    row = cells("--from-file", path, "--at", at)[1]
    assert (row[3], row[5], row[7]) == (str(offset), lag, notes)
    described = json.loads(
        invoke("describe", "--from-file", path, "--group", "g", "--at", at, "-o", "json").stdout
    )
    assert "; ".join(described[0]["offsets"][0]["lag_notes"]) == notes
    assert described[0]["offsets"][0]["lag"] == (None if lag == "-" else int(lag))


def test_a_partition_that_never_had_a_leader(tmp_path: Path) -> None:
    """Its lag is empty, with the reason; that of the other one is known."""
    answer = topic_ends(
        0,
        {0: PartitionEnds(0, 100, 100)},
        unknown={1: "the partition has no leader"},
        taken_ms=AT,
        took_ms=10,
        topic="orders",
    )
    rows = raw([commit("orders", number, 40, at=AT - MINUTE) for number in range(2)])
    path = write_capture(tmp_path / "a.parquet", rows, probes=probes_batch([answer, complete(0)]))
    led, leaderless = cells("--from-file", path, "--at", AT + 20)[1:]
    assert (led[5], led[7]) == ("60", "-")
    assert (leaderless[5:7], leaderless[7]) == (
        ["-", "-"],
        "the partition has no leader, since 2026-01-31T00:00:00.010Z",
    )


def test_list_and_describe_have_the_same_lag(capture: Path) -> None:
    """One source of lag for all commands: the sum of the known ones, and how many are not known."""
    at = ("--from-file", capture, "--at", AT + 3 * MINUTE + 10)
    heading, row = (line.split("\t") for line in invoke("list", *at).stdout.splitlines())
    listed = dict(zip(heading, row, strict=True))
    assert (listed["LAG"], listed["TIME-LAG"]) == ("180 + ? of 1 partition", "2 min 0 s .. 3 min 0 s")
    lines = [line.split("\t") for line in invoke("describe", *at, "--all-groups").stdout.splitlines()]
    described = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    assert [(line["TOPIC"], line["LAG"], line["TIME-LAG"]) for line in described] == [
        ("bills", "-", "-"),
        ("orders", "180", "2 min 0 s .. 3 min 0 s"),
    ]
    (document,) = json.loads(invoke("list", *at, "-o", "json").stdout)
    assert (document["lag"], document["lag_most"], document["lag_unknown"]) == (180, 240, 1)


def test_a_moment_or_a_range(capture: Path) -> None:
    """Both at once are a usage error; --until alone is a moment."""
    both = invoke("lag", "--from-file", capture, "--at", "now", "--since", "1h")
    assert (both.exit_code, "Give either --at TIME, or --since and --until." in both.stderr) == (2, True)
    moment = AT + 3 * MINUTE + 10
    assert cells("--from-file", capture, "--until", moment) == cells("--from-file", capture, "--at", moment)


@pytest.mark.parametrize("since", [[], ["--since", str(AT)]])
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--group", "h"], "there is no group 'h'"),
        (["--topic", "none"], "no committed offset for --topic none"),
    ],
)
def test_nothing_found(capture: Path, words: list[str], since: list[str], says: str) -> None:
    """A group or a topic that is not there ends with 5 and does not read like no lag."""
    result = invoke("lag", "--from-file", capture, *words, *since)
    assert (result.exit_code, says in result.stderr) == (5, True)
