"""``groupreplay list`` on the command line."""

from __future__ import annotations

import csv
import io
import json
from itertools import chain
from pathlib import Path

import pytest

from groupreplay.codecs.kafka_terms import partition_for
from support.job.captures import invoke


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
    assert invoke("simulate", *flags, "-o", path).exit_code == 0

    def listed(*more: object) -> list[str]:
        result = invoke("list", "--from-file", path, "-o", "jsonl", *more)
        return [json.loads(line)["group_id"] for line in result.stdout.splitlines()]

    everything = listed()
    by_partition = {number: listed("--partition", number) for number in range(4)}
    assert sorted(chain.from_iterable(by_partition.values())) == everything
    for number, groups in by_partition.items():
        assert {partition_for(group, 4) for group in groups} == {number}
    assert listed("--partition", 0, "--partition", 2) == sorted(by_partition[0] + by_partition[2])
