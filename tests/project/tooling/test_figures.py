"""The figures of benchmarks beside those of the last commits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.paths import ROOT


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, from the folder of the benchmarks."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.delitem(sys.modules, "figures", raising=False)
    import figures

    return figures


def test_a_figure_that_fell_by_more_than_a_tenth_is_marked(figures: Any) -> None:
    """A figure beside the one before it, one that fell, and one that nothing is known of."""
    before = {"job": {"figure": 0.5, "commit": "3af6496d"}}
    assert [figures.beside("job", figure, before) for figure in (0.45, 0.44, 0.6)] == [
        "0.45 (0.50 at 3af6496d)",
        "0.44 (0.50 at 3af6496d, FELL by 12 %)",
        "0.60 (0.50 at 3af6496d)",
    ]
    assert figures.beside("other", 0.456, before) == "0.46"


def test_a_figure_keeps_the_commit_that_changed_it(figures: Any, tmp_path: Path) -> None:
    """The same figure keeps its commit, another one gets that of the checkout."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    path = tmp_path / "figures.json"
    git("init", "-q")
    for first, job in ((True, 0.5), (False, 0.6)):
        git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", str(job))
        figures.keep({"job": job, "replay": 0.25}, path)
        if first:
            commits = {"replay": git("rev-parse", "--short=8", "HEAD").strip()}
    commits["job"] = git("rev-parse", "--short=8", "HEAD").strip()
    assert figures.known(path) == {
        "job": {"figure": 0.6, "commit": commits["job"]},
        "replay": {"figure": 0.25, "commit": commits["replay"]},
    }


def test_the_kept_figures_have_a_benchmark(figures: Any) -> None:
    """Those of the job and of the replay in each shape, and replays where groups change."""
    shapes = {name.split()[0] for name in figures.known()}
    assert (
        {"steady", "wide", "many", "churn"}
        <= shapes
        <= {
            *("steady", "wide", "many", "churn"),
            *("storm", "modern", "hostile"),
        }
    )
