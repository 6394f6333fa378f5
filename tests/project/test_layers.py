"""The contracts of import-linter in pyproject.toml hold, and a planted import breaks each of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.tools.project_copy import copy_project

ROOMS = "imports go one way"
PURE = "codecs, state, coordinator and timeline know no Spark, no frames, no Kafka client, no terminal"
STATE, STREAMING, APP = (f"packages of {room}" for room in ("state", "streaming", "app"))
RUN = "a run and a watch know no Spark"
CONTRACTS = {ROOMS, PURE, STATE, STREAMING, RUN, APP}


def broken(root: Path) -> set[str]:
    """The contracts that are broken in a copy of the project; the modules are read, not imported."""
    program = Path(sys.executable).with_name("lint-imports")
    command = [str(program), "--config", str(root / "pyproject.toml"), "--no-cache", "--no-logo"]
    # Names of contracts are wrapped at the width of the terminal.
    wide = {**os.environ, "COLUMNS": "300"}
    done = subprocess.run(command, cwd=root / "src", env=wide, capture_output=True, text=True, check=False)
    results = dict(re.findall(r"^(.+) (KEPT|BROKEN)\b", done.stdout, re.MULTILINE))
    assert set(results) == CONTRACTS, done.stdout + done.stderr
    return {name for name, result in results.items() if result == "BROKEN"}


@pytest.mark.parametrize(
    ("planted", "contracts"),
    [
        (
            {
                "codecs/upwards.py": "from groupreplay.state import Group",
                "timeline/package.py": "def f():\n    import click",
                "state/without_place/__init__.py": "",
                "streaming/without_place/__init__.py": "",
                "app/without_place/__init__.py": "",
                "streaming/run/jvm.py": "def f():\n    import py4j",
            },
            CONTRACTS,
        ),
        # An oracle that shares code with what it judges proves nothing.
        ({"coordinator/core.py": "from groupreplay.state.replay import classic"}, {ROOMS}),
        ({"state/replay/model.py": "from groupreplay.coordinator import coordinator"}, {ROOMS}),
        ({"streaming/run/jvm.py": "def f():\n    from pyspark.sql import SparkSession"}, {RUN}),
        ({"streaming/run/query.py": "from groupreplay.streaming.spark import query"}, {STREAMING, RUN}),
        ({"streaming/base/up.py": "from groupreplay.streaming.kafka import clients"}, {STREAMING}),
    ],
)
def test_planted_offences_break_their_contracts(
    tmp_path: Path, planted: dict[str, str], contracts: set[str]
) -> None:
    """Imports and packages that are not allowed, in a copy of the project, break these contracts and no others."""
    project = copy_project(tmp_path / "project")
    for path, text in planted.items():
        module = project / "src" / "groupreplay" / path
        module.parent.mkdir(exist_ok=True)
        module.write_text(text)
    assert broken(project) == contracts
