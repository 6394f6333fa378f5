"""The generated parts of docs/simulations.md, and its examples."""

from __future__ import annotations

import random
import re
from pathlib import Path

from generators.simulations_page import settings_tables, steps_table
from groupreplay.app.simulate.scenario_files import load_scenario
from groupreplay.coordinator.simulation.scenario_file import STEPS, BrokerRestarts, GroupTable, ScriptedEvent
from groupreplay.coordinator.simulation.settings_table import BROKER_SETTINGS, CLIENT_SETTINGS
from support.paths import ROOT

PAGE = (ROOT / "docs" / "simulations.md").read_text(encoding="utf-8")


def test_the_page_is_current() -> None:
    """The page has the tables as the code makes them now."""
    assert f"\n### Steps\n\n{steps_table()}\n\n### Settings\n" in PAGE
    assert f"one text with commas.\n\n{settings_tables()}\n\n## " in PAGE


def test_everything_has_a_row() -> None:
    """Each setting and each step."""
    names = re.findall(r"^\| `([^`[]+)`", settings_tables(), re.M)
    assert names == [*BROKER_SETTINGS, *CLIENT_SETTINGS]
    assert re.findall(r"^\| `([a-z-]+)`", steps_table(), re.M)[1:] == [
        one.__struct_config__.tag for one in STEPS
    ]


def test_every_key_is_described() -> None:
    """Those of [group], of [[event]] and of [broker-restarts]."""
    text = PAGE.partition("## Scenario files")[2]
    keys = [
        key for table in (GroupTable, ScriptedEvent, BrokerRestarts) for key in table.__struct_encode_fields__
    ]
    assert [key for key in keys if f"`{key}`" not in text and f"`{key} = true`" not in text] == []


def test_the_examples_can_be_simulated(tmp_path: Path) -> None:
    """The first one is the file that the second one refers to."""
    first, second = re.findall(r"```toml\n(title.*?)```", PAGE, re.S)
    (tmp_path / "mine.toml").write_text(first)
    (tmp_path / "all.toml").write_text(second)
    for name in ("mine", "all"):
        if name == "all":
            # A part has no settings of brokers.
            (tmp_path / "mine.toml").write_text(first.replace('[broker]\n"group.max.size" = 10\n', ""))
        script = load_scenario(str(tmp_path / f"{name}.toml")).draw(random.Random(0), 24 * 3_600_000)
        assert len(script.steps) > 3
