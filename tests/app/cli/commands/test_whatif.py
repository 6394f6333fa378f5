"""``groupreplay whatif`` on captures: table, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.job.captures import invoke, simulated_capture

GROUP = "rolling-restart-3-dynamic-eager-000000"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated group of three members that are restarted one after another."""
    words = ("--groups", "1", "--seconds", "900", "--scenario", GROUP.removesuffix("-000000"))
    return simulated_capture(
        tmp_path_factory.mktemp("whatif") / "night.parquet", *words, "--probe-interval", "0"
    )


def test_table_and_json_have_the_same_answer(capture: Path) -> None:
    """Static members save the six rebalances of a rolling restart."""
    words = ("whatif", "--from-file", capture, "--group", GROUP, "--set", "group.instance.id=auto")
    table = invoke(*words, "--draws", "10")
    rows = [line.split("\t") for line in table.stdout.splitlines()[4:]]
    assert table.exit_code == 0, table.output
    assert rows[0] == ["COST", "RECORDED", "PLAYED AS RECORDED", "WITH THE OTHER SETTINGS", "DIFFERENCE"]
    assert rows[1] == ["rebalances", "6", "6", "0", "-6"]
    (answer,) = json.loads(invoke(*words, "--draws", "10", "-o", "json").stdout)
    assert answer["costs"][0] == {
        "cost": "rebalances",
        "recorded": 6,
        "played": {"least": 6.0, "median": 6.0, "most": 6.0},
        "reproduced": True,
        "other": {"least": 0.0, "median": 0.0, "most": 0.0},
        "difference": {"least": -6.0, "median": -6.0, "most": -6.0},
    }
    assert (answer["draws"], answer["changed"]) == (10, {"group.instance.id": "auto"})


def test_a_group_that_does_not_exist(capture: Path) -> None:
    """A line on stderr, and exit code 5."""
    words = ("whatif", "--from-file", capture, "--set", "session.timeout.ms=10000", "--group", "nobody")
    result = invoke(*words)
    assert (result.exit_code, result.stdout) == (5, "")
    assert "nothing found: there is no group 'nobody'" in result.stderr
