"""``groupreplay ready`` on captures: table, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groupreplay.timeline.protocol_faults import FAULTS
from support.job.captures import invoke, simulated_capture
from support.paths import ROOT


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six simulated groups, two of KIP-848."""
    words = ("--groups", "6", "--seconds", "60", "--seed", "3", "--scenario", "mixed")
    return simulated_capture(tmp_path_factory.mktemp("ready") / "night.parquet", *words)


def test_the_table_and_what_stands_below_it(capture: Path) -> None:
    """A row for each finding, then the numbers of all groups, what was assumed, and what is not in the log."""
    result = invoke("ready", "--to", "consumer", "--from-file", capture)
    lines = result.stdout.splitlines()
    assert (result.exit_code, lines[0].split("\t")) == (
        0,
        ["GROUP", "TYPE", "STATE", "#MEMBERS", "VERDICT", "WHY", "DO"],
    )
    verdicts = [line.split("\t")[4] for line in lines[1:7]]
    assert lines[7] == ", ".join(
        f"{verdicts.count(name)} {words}"
        for name, words in (("changes", "with changes"), ("ready", "ready"), ("done", "done"))
        if name in verdicts
    )
    assert lines[8].startswith("assumed of the brokers: ")
    assert lines[-1].startswith("the log does not show the versions of the clients")


def test_json_is_one_array_and_a_missing_group_is_named(capture: Path) -> None:
    """Stdout is JSON alone, and a group that does not exist gives exit code 5."""
    words = ("ready", "--to", "streams", "--from-file", capture, "-o", "json")
    every = json.loads(invoke(*words).stdout)
    assert {(answer["to"], answer["verdict"]) for answer in every} == {("streams", "not_applicable")}
    none = invoke(*words, "--group", "nobody")
    assert (none.exit_code, json.loads(none.stdout)) == (5, [])


def test_the_page_has_the_faults_of_the_code() -> None:
    """Each fault stands on the page with its releases and its effect."""
    page = (ROOT / "docs/ready.md").read_text()
    assert [
        fault.issue
        for fault in FAULTS
        if f"| {fault.releases} | {fault.effect} |" not in page or f"[{fault.issue}]" not in page
    ] == []
