"""docs/releasing.md walked dry: nothing is built or published. Also the workflow that a pushed tag starts."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

import groupreplay
from distributions import CHART
from support.paths import ROOT

PAGE: Final = (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8")
TARGETS: Final = set(
    re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
)
WORKFLOW: Final[dict[str, Any]] = yaml.safe_load(
    (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
)
#: What the page starts that is not of this project.
TOOLS: Final = ("git", "helm", "pip", "twine", "gh", "sha256sum")


def commands() -> Iterator[str]:
    """Every command of the page: lines of its blocks, and what stands in backticks and begins with a program."""
    for block in re.findall(r"^ *```sh\n(.*?)^ *```$", PAGE, re.DOTALL | re.MULTILINE):
        yield from (line.partition("  #")[0].strip() for line in block.splitlines() if line.strip())
    text = re.sub(r"^ *```.*?^ *```$", "", PAGE, flags=re.DOTALL | re.MULTILINE)
    programs = ("make ", "python ", "cd ", "helm ", "git ", "pip ", "sha256sum ", "gh ")
    yield from (code for code in re.findall(r"`([^`]+)`", text) if code.startswith(programs))


def words(command: str) -> tuple[str, list[str]]:
    """The folder in which a command runs, and its words without variables and parentheses."""
    folder = "."
    parts = [shlex.split(part) for part in command.strip("()").split("&&")]
    if parts[0][0] == "cd":
        folder = parts.pop(0)[1]
    (rest,) = parts
    while "=" in rest[0]:
        del rest[0]
    return folder, rest


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_each_command_is_there(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets of the Makefile, scripts with the subcommand, modules in their folder; other tools by name."""
    folder, (program, *arguments) = words(command)
    assert (ROOT / folder).is_dir()
    name = program.rpartition("/")[2]
    if name == "make":
        assert set(arguments) <= TARGETS
    elif name == "python" and arguments[0] == "-m":
        monkeypatch.syspath_prepend(str(ROOT / folder))
        assert importlib.util.find_spec(arguments[1]) is not None
    elif name == "python":
        script = (ROOT / folder / arguments[0]).read_text(encoding="utf-8")
        assert all(word.lstrip("-") in script for word in arguments[1:])
    else:
        assert name in TOOLS


def test_the_files_of_the_steps() -> None:
    """Every path of this repository on the page is there, as a file or as a folder."""
    paths = re.findall(r"`((?:src|deploy|release|docs|streaming|tests|\.github)/[\w./-]+)`", PAGE)
    roots = (ROOT, ROOT / "src" / "groupreplay")
    assert len(paths) > 5
    assert [path for path in paths if not any((root / path).exists() for root in roots)] == []


def test_both_versions_of_the_chart_are_that_of_the_package() -> None:
    """Step 1 names the places of the version."""
    chart = yaml.safe_load((ROOT / CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert {chart["version"], chart["appVersion"]} == {groupreplay.__version__}


def steps() -> list[dict[str, Any]]:
    """Every step of the workflow."""
    return [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]


def test_the_workflow_runs_for_tags_alone() -> None:
    """It may read by default; who writes says what, and nothing that publishes runs without the files."""
    assert WORKFLOW[True] == {"push": {"tags": ["v*"]}}
    assert WORKFLOW["permissions"] == {"contents": "read"}
    jobs = WORKFLOW["jobs"]
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "files": None,
        "images": "files",
        "chart": "images",
        "index": "files",
    }
    assert [name for name, job in jobs.items() if job.get("environment") != "release"] == ["files"]


def test_the_workflow_builds_and_attests_what_the_page_lists() -> None:
    """The files by their checksums, the wheel with its bill of materials, and both images by their digests."""
    attested = [step["with"] for step in steps() if "/attest-" in step.get("uses", "")]
    assert [sorted(inputs) for inputs in attested] == [
        ["subject-checksums"],
        ["sbom-path", "subject-path"],
        ["push-to-registry", "subject-digest", "subject-name"],
    ]
    run = "\n".join(step.get("run", "") for step in steps())
    assert "make release" in run
    assert "sha256sum --check SHA256SUMS" in run
    built = [one["dockerfile"] for one in WORKFLOW["jobs"]["images"]["strategy"]["matrix"]["include"]]
    assert built == ["deploy/Dockerfile", "deploy/watch.Dockerfile"]
    assert all((ROOT / name).is_file() for name in built)


def test_no_secret_is_an_argument() -> None:
    """They reach programs through their input, and only where a person has approved the job."""
    assert [step["run"] for step in steps() if "secrets." in step.get("run", "")] == []
    users = [name for name, job in WORKFLOW["jobs"].items() if "secrets." in yaml.safe_dump(job)]
    assert users == ["images", "chart"]
