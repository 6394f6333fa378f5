"""Images have digests and actions have commits; the script that writes them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

import pins
from pins import UNPINNED, Reference, fill, references
from support.paths import ROOT

DIGEST, COMMIT = f"sha256:{'5' * 64}", "c" * 40


def test_everything_is_pinned() -> None:
    """But what could not be looked up so far, and that list has nothing else."""
    found = [*references()]
    assert {one.name for one in found if one.is_action} >= {"actions/checkout", "actions/setup-python"}
    assert {one.name for one in found if not one.is_action} >= {"python", "apache/kafka", "grafana/grafana"}
    assert {str(one) for one in found if one.pin is None} == UNPINNED


def test_nothing_is_overlooked() -> None:
    """Every ``uses``, ``image`` and ``FROM`` of these files is among the references."""
    named = {str(one) for one in references()}
    workflows = [
        yaml.safe_load(file.read_text("utf-8")) for file in (ROOT / ".github" / "workflows").glob("*.yml")
    ]
    jobs = [job for workflow in workflows for job in workflow["jobs"].values()]
    used = [step["uses"] for job in jobs for step in job["steps"] if "uses" in step]
    pinned = {f"{one.name}@{one.pin}" for one in references() if one.is_action}
    assert set(used) == pinned
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    images = {
        service["image"].partition("@")[0]
        for service in compose["services"].values()
        if "build" not in service
    }
    assert images <= named
    for file in (ROOT / "deploy").rglob("*Dockerfile"):
        lines = [line.split()[1] for line in file.read_text("utf-8").splitlines() if line.startswith("FROM ")]
        assert {line.partition("@")[0] for line in lines if "$" not in line} <= named
    assert "FROM ${SPARK_IMAGE}\n" in (ROOT / "deploy" / "kubernetes" / "spark.Dockerfile").read_text("utf-8")


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The files with references, elsewhere."""
    for name in {one.file for one in references()}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_filling(copied: Path) -> None:
    """What has no pin gets one, and nothing else changes; with ``everything`` all get a new one."""

    def look_up(one: Reference) -> str:
        return COMMIT if one.is_action else DIGEST

    before = {str(one): one.pin for one in references()}
    assert {str(one) for one in fill(look_up, copied)} == UNPINNED
    after = {str(one): one.pin for one in references(copied)}
    assert after == {name: pin or DIGEST for name, pin in before.items()}
    assert fill(look_up, copied) == []
    fill(look_up, copied, everything=True)
    assert {one.pin for one in references(copied)} == {COMMIT, DIGEST}
    assert {str(one) for one in references(copied)} == before.keys()
    yaml.safe_load((copied / "docker-compose.yml").read_text("utf-8"))


def test_a_new_reference_without_a_pin(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command names it and ends with 1; what is known to have none is named, too."""
    monkeypatch.setattr(pins, "ROOT", copied)
    listed = pins.references
    monkeypatch.setattr(pins, "references", lambda: listed(copied))
    assert pins.main([]) == 0
    workflow = copied / ".github" / "workflows" / "ci.yml"
    workflow.write_text(workflow.read_text("utf-8") + "      - uses: somebody/action@v3\n", "utf-8")
    assert pins.main([]) == 1
    assert ".github/workflows/ci.yml: somebody/action@v3 has no pin" in capsys.readouterr().out


def test_looking_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit behind an annotated tag, and the digest of an image; an answer of another form is refused."""
    asked: list[list[str]] = []
    answers = [f"{'a' * 40}\trefs/tags/v1\n{COMMIT}\trefs/tags/v1^{{}}", DIGEST, "unauthorised"]

    def printed(command: list[str]) -> str:
        asked.append(command)
        return answers[len(asked) - 1]

    monkeypatch.setattr(pins, "_printed", printed)
    assert pins.look_up(Reference("f", "a/b", "v1", None, True)) == COMMIT
    assert pins.look_up(Reference("f", "a/b", "1", None, False)) == DIGEST
    with pytest.raises(SystemExit, match="a/b:1: no pin was found"):
        pins.look_up(Reference("f", "a/b", "1", None, False))
    assert [command[0] for command in asked] == ["git", "docker", "docker"]
