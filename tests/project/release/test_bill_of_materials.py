"""The bill of materials lists what is shipped and what is downloaded, with licences, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from bill_of_materials import DOWNLOADED, EXTRAS, bill_of_materials, closure, needed, requirements
from distributions import build
from groupreplay.streaming.local.jars import SETS, locked_jars
from support.tools.project_copy import COMMITTED, commit_all, copy_project


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the project."""
    project = copy_project(tmp_path_factory.mktemp("bill") / "project")
    commit_all(project)
    return build(project, project / "dist")[1]


@pytest.fixture(scope="module")
def bill(wheel: Path) -> Any:
    """Its bill of materials; the schema of CycloneDX is checked where it is made."""
    return json.loads(bill_of_materials(wheel, wheel.parent.parent, COMMITTED))


def test_every_library_is_in_it(bill: Any, wheel: Path) -> None:
    """The libraries of pyproject.toml and their own are there, each with version and licence; no developer's tool."""
    libraries = {
        one["name"].lower(): one for one in bill["components"] if one["purl"].startswith("pkg:pypi/")
    }
    assert {"click", "confluent-kafka", "msgspec", "numpy", "pandas", "pyspark", "py4j"} <= set(libraries)
    assert {name.replace("-", "_") for name in libraries} == {
        name.replace("-", "_") for name in closure(needed(requirements(wheel), EXTRAS))
    }
    assert {"pytest", "ruff", "mypy", "cyclonedx-bom", "mkdocs"} & set(libraries) == set()
    assert [name for name, one in libraries.items() if not (one["version"] and one["licenses"])] == []


def test_what_pip_does_not_see_is_in_it(bill: Any, wheel: Path) -> None:
    """ECharts and the jars of `run` and `demo` are there with the checksums of their lists, and with licences."""
    others = [one for one in bill["components"] if not one["purl"].startswith("pkg:pypi/")]
    assert [(one["name"], one["licenses"]) for one in others if "/echarts@" in one["purl"]] == [
        ("echarts", [{"license": {"id": "Apache-2.0"}}])
    ]
    listed = {
        f"{one['group']}:{one['name']}:{one['version']}": one["hashes"][0]["content"]
        for one in others
        if one["purl"].startswith("pkg:maven/")
    }
    assert listed == {jar: digest for name in DOWNLOADED for jar, digest in locked_jars(name).items()}
    assert set(DOWNLOADED) <= set(SETS)
    assert [one["name"] for one in others if not one["licenses"]] == []


def test_it_is_about_this_wheel(bill: Any, wheel: Path) -> None:
    """The root has the wheel's version and checksum, and needs the direct libraries and the other parts."""
    root = bill["metadata"]["component"]
    name, number = wheel.name.split("-")[:2]
    assert (root["name"], root["version"], root["purl"]) == (name, number, f"pkg:pypi/{name}@{number}")
    done = subprocess.run(["sha256sum", str(wheel)], capture_output=True, text=True, check=True)
    assert root["hashes"] == [{"alg": "SHA-256", "content": done.stdout.split()[0]}]
    needs = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    assert set(needs) == {one["bom-ref"] for one in bill["components"]} | {root["bom-ref"]}
    assert len(needs[root["bom-ref"]]) < len(bill["components"])
    assert bill["metadata"]["timestamp"] == "2026-01-31T02:00:00Z"


@pytest.mark.long
def test_pip_needs_the_same(wheel: Path, tmp_path: Path) -> None:
    """What the bill calls needed is what pip would install for the wheel with its extras, by pip's own report."""
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False)
    names = closure(needed(requirements(wheel), EXTRAS))
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(environment / "bin" / "python")]
    words = ["install", "--dry-run", "--report", "-", f"{wheel}[{','.join(EXTRAS)}]"]
    done = subprocess.run([*pip, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    installed = {one["metadata"]["name"].lower().replace("_", "-") for one in report["install"]}
    assert installed - {"groupreplay"} == set(names)


def test_a_library_that_is_not_installed_is_named() -> None:
    """A bill with a hole is refused."""
    with pytest.raises(ValueError, match="no-such-library is not installed"):
        closure({"no-such-library": set()})
