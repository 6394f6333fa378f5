"""The generated parts of docs/simulations.md, and its example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from generators.simulations_page import settings_tables
from groupreplay.coordinator.simulation.settings_table import BROKER_SETTINGS, CLIENT_SETTINGS
from support.paths import ROOT

PAGE = (ROOT / "docs" / "simulations.md").read_text(encoding="utf-8")


def test_the_page_is_current() -> None:
    """The page has the tables as the code makes them now."""
    assert f"one text with commas.\n\n{settings_tables()}\n\n## " in PAGE


def test_every_setting_has_a_row() -> None:
    """Of brokers and of clients."""
    names = re.findall(r"^\| `([^`]+)`", settings_tables(), re.M)
    assert names == [*BROKER_SETTINGS, *CLIENT_SETTINGS]


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes a capture and the true states, in which groups have the scenario's name."""
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    # A tenth of its groups say the same in a tenth of the time.
    before, _, after = example.partition("groups=100,")
    monkeypatch.chdir(tmp_path)
    exec(compile(f"{before}groups=10,{after}", "simulations.md", "exec"), {})
    truth = (tmp_path / "hang.truth.jsonl").read_text()
    assert '"group_id": "hang-000009"' in truth
    assert (tmp_path / "hang.parquet").exists()
