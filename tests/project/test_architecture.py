"""What the rooms may not know, checked in clean interpreters and in the source itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT

HEAVY = ("pyspark", "pandas", "pyarrow", "confluent_kafka", "rich", "click")
CLOCKS = {
    ("time", "time"),
    ("time", "monotonic"),
    ("time", "time_ns"),
    ("datetime", "now"),
    ("date", "today"),
}
#: Modules that are declarations or the inside of another one -> the test file that covers them.
COVERED_BY = {
    "state/catalogue.py": "state/test_envelope.py",
    "state/client_acts.py": "state/test_client_scripts.py",
    "state/conditions.py": "state/test_alarms.py",
    "state/context.py": "state/test_group.py",
    "state/coordinator_books.py": "state/test_coordinator.py",
    "state/coordinator_classic.py": "state/test_coordinator.py",
    "state/coordinator_consumer_records.py": "state/test_coordinator_consumer.py",
    "state/coordinator_requests.py": "state/test_coordinator.py",
    "state/document.py": "state/test_group.py",
    "state/events.py": "state/test_envelope.py",
    "state/observations.py": "state/test_group.py",
    "state/offset_events.py": "state/test_losses.py",
    "state/probing.py": "state/test_rebalances.py",
    "state/report.py": "state/test_classic.py",
    "state/rounds.py": "state/test_classic.py",
    "state/saved.py": "state/test_group.py",
    "state/schemas.py": "state/test_envelope.py",
    "state/simulated_client.py": "state/test_simulation.py",
    "state/simulated_consumer.py": "state/test_simulation.py",
    "state/simulated_group.py": "state/test_simulation.py",
    "state/suspects.py": "state/test_rebalances.py",
    "streaming/query.py": "integration/test_run_written_log.py",
    "streaming/run.py": "integration/test_run_live.py",
    "streaming/simulation_topic.py": "integration/test_simulate_topic.py",
}


@pytest.mark.parametrize("room", ["codecs", "state"])
def test_a_room_loads_nothing_heavy(room: str) -> None:
    """Importing it in a clean interpreter loads no Spark, no frames, no Kafka client, no terminal."""
    script = f"import sys, groupreplay.{room}; print([name for name in {HEAVY!r} if name in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-P" if sys.version_info >= (3, 11) else "-I", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT / "docs",
    )
    assert run.stdout.strip() == "[]"


def test_codecs_load_only_the_standard_library() -> None:
    """Bytes to records and back needs no package at all."""
    script = (
        "import sys; before = set(sys.modules); import groupreplay.codecs; "
        "print(sorted({name.split('.')[0] for name in set(sys.modules) - before} "
        "- set(sys.stdlib_module_names) - {'groupreplay'}))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT / "docs"
    )
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "path", sorted([*ROOT.glob("codecs/*.py"), *ROOT.glob("state/*.py")]), ids=lambda p: p.name
)
def test_no_clock_is_read(path: Path) -> None:
    """Time is an argument in ``codecs`` and ``state``, always."""
    calls = {
        (node.func.value.id, node.func.attr)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
    }
    assert calls & CLOCKS == set()


@pytest.mark.parametrize("room", ["codecs", "state", "streaming"])
def test_every_module_says_what_it_knows(room: str) -> None:
    """A module begins with a docstring; most say what they must not know as well."""
    for path in (ROOT / room).glob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path.name


def test_every_module_has_its_test_file() -> None:
    """The tree of tests mirrors the code, file for file."""
    excused = {"__init__.py", "__main__.py"}
    modules = [
        f"{room}/{path.name}"
        for room in ("codecs", "state", "streaming")
        for path in sorted((ROOT / room).glob("*.py"))
        if path.name not in excused
    ]
    tests = {module: COVERED_BY.get(module, module.replace("/", "/test_")) for module in modules}
    assert [module for module, test in tests.items() if not (ROOT / "tests" / test).exists()] == []
