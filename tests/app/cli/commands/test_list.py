"""``groupreplay list`` on the command line."""

from __future__ import annotations

import csv
import io
import json
from itertools import chain
from pathlib import Path

import pytest

from groupreplay.codecs.kafka_terms import partition_for
from support.histories.builders import Raw as Record
from support.histories.builders import commit, emptied, generation, member
from support.job.captures import invoke, raw, simulated_capture, write_capture

DAY = 86_400_000


def test_list_filters(capture: Path) -> None:
    """State and type are taken as Kafka's tools take them."""
    words = ["list", "--from-file", capture, "-o", "jsonl"]
    assert json.loads(invoke(*words, "--state", "stable,empty").stdout)["group_id"] == "g"
    assert invoke(*words, "--state", "empty").stdout == ""
    assert invoke(*words, "--type", "share").stdout == ""


def test_conditions(stuck: Path) -> None:
    """The worst one in the list, all of them in the long form of the state."""
    (row,) = csv.DictReader(io.StringIO(invoke("list", "--from-file", stuck, "-o", "csv").stdout))
    assert row["RISK"] == "stuck"
    words = ("describe", "--from-file", stuck, "--group", "g", "--state", "--verbose", "-o", "csv")
    (row,) = csv.DictReader(io.StringIO(invoke(*words).stdout))
    assert row["CONDITIONS"] == (
        "rebalance.stuck (ERROR) since 2026-01-01T00:00:02.000Z; "
        "rebalance.slow (WARN) since 2026-01-01T00:00:01.000Z"
    )


@pytest.mark.parametrize(
    ("words", "exit_code", "found"),
    [
        (["--fail-on", "stuck,storm"], 6, "rebalance.stuck (ERROR) since 2026-01-01T00:00:02.000Z"),
        (["--fail-on", "rebalance.slow"], 6, "rebalance.slow (WARN) since 2026-01-01T00:00:01.000Z"),
        (["--fail-on", "storm,expired"], 0, None),
        ([], 0, None),
    ],
)
def test_failing_on_conditions(stuck: Path, words: list[str], exit_code: int, found: str | None) -> None:
    """The answer is printed all the same; what was found is on stderr, with an exit code of its own."""
    for command in (["describe", "--group", "g"], ["list"]):
        result = invoke(*command, "--from-file", stuck, *words)
        assert result.exit_code == exit_code
        assert result.stdout.startswith("GROUP\t")
        said = [line for line in result.stderr.splitlines() if not line.startswith("assumed, ")]
        assert said == ([] if found is None else [f"found: g: {found}"])


def test_what_cannot_be_found(stuck: Path) -> None:
    """An unknown name is an error that tells the known ones; the past is no state."""
    result = invoke("list", "--from-file", stuck, "--fail-on", "stucked")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'stucked' is not a condition" in result.stderr
    assert "slow, stuck, suspected," in result.stderr
    words = ("--from-file", stuck, "--group", "g", "--history", "--fail-on", "stuck")
    assert invoke("describe", *words).exit_code == 2


def test_the_groups_of_a_partition(tmp_path: Path) -> None:
    """Those whose records are there, also if a prober's answers about others are in the capture."""
    path = tmp_path / "s.parquet"
    flags = ("--groups", 12, "--seconds", 300, "--scenario", "stuck", "--partitions", 4)
    simulated_capture(path, *flags)

    def listed(*more: object) -> list[str]:
        result = invoke("list", "--from-file", path, "-o", "jsonl", *more)
        return [json.loads(line)["group_id"] for line in result.stdout.splitlines()]

    everything = listed()
    by_partition = {number: listed("--partition", number) for number in range(4)}
    assert sorted(chain.from_iterable(by_partition.values())) == everything
    for number, groups in by_partition.items():
        assert {partition_for(group, 4) for group in groups} == {number}
    assert listed("--partition", 0, "--partition", 2) == sorted(by_partition[0] + by_partition[2])


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """A group with members, one that has ended, and one that commits by itself."""
    at = 1_767_225_600_000
    worker = generation(1, member("a", [0, 1]), at=at + 99 * DAY)
    groups: dict[str, list[Record]] = {
        "works": [commit("t", 0, 5, at=at), worker, commit("t", 1, 5, at=at + 100 * DAY)],
        "ended": [commit("t", 0, 5, at=at), emptied(2, at=at + DAY)],
        "simple": [commit("u", 0, 5, at=at + 90 * DAY)],
    }
    rows = [
        row._replace(offset=10 * number + place, key=(row.key or b"").replace(b"\0\1g", one_string(name)))
        for number, (name, history) in enumerate(groups.items())
        for place, row in enumerate(raw(history))
    ]
    return write_capture(tmp_path / "several.parquet", rows)


def one_string(name: str) -> bytes:
    """The name as keys have it."""
    return len(name).to_bytes(2, "big") + name.encode()


@pytest.mark.parametrize(
    ("words", "listed"),
    [
        (["--topic", "t"], [("t", "ended", 0), ("t", "works", 1)]),
        (["--topic", "?", "--group", "simple", "--group", "works"], [("t", "works", 1), ("u", "simple", 0)]),
        (["--topic", "none"], []),
    ],
)
def test_who_reads_a_topic(several: Path, words: list[str], listed: list[tuple[str, str, int]]) -> None:
    """A row for each topic and reader, with the owners; 5 if nobody reads it."""
    result = invoke("list", "--from-file", several, "-o", "json", *words)
    assert [(row["topic"], row["group_id"], row["owners"]) for row in json.loads(result.stdout)] == listed
    assert result.exit_code == (0 if listed else 5)
    assert ("no group for --topic none" in result.stderr) is not bool(listed)


@pytest.mark.parametrize(
    ("words", "listed"),
    [
        (["--unused", "98d"], ["ended"]),
        (["--unused", "5d"], ["ended", "simple"]),
        (["--unused", "5d", "--topic", "u"], ["simple"]),
        (["--unused", "1d", "--at", "2026-01-02T12:00:00Z"], []),
    ],
)
def test_groups_that_nobody_uses(several: Path, words: list[str], listed: list[str]) -> None:
    """By the end of the log; 5 if all are used."""
    result = invoke("list", "--from-file", several, "-o", "jsonl", *words)
    assert [json.loads(line)["group_id"] for line in result.stdout.splitlines()] == listed
    assert result.exit_code == (0 if listed else 5)
    assert ("no group for --unused 24 h 0 min" in result.stderr) is not bool(listed)


def test_the_busiest_groups(tmp_path: Path) -> None:
    """Their shares are of everything that was read, also with --group; only the chosen ones are printed."""
    path = tmp_path / "s.parquet"
    flags = ("--groups", 4, "--seconds", 300, "--scenario", "deployment", "--partitions", 2)
    simulated_capture(path, *flags)

    def listed(*more: object) -> list[dict[str, float]]:
        return list(
            json.loads(invoke("list", "--from-file", path, "--sort", "commits", "-o", "json", *more).stdout)
        )

    everything = listed()
    rates = [row["commits_per_second"] for row in everything]
    assert rates == sorted(rates, reverse=True)
    assert sum(row["share"] for row in everything) == pytest.approx(1, abs=1e-4)
    assert listed("--group", "*3") == [row for row in everything if str(row["group_id"]).endswith("3")]
    assert invoke("list", "--from-file", path, "--sort", "size").exit_code == 2
