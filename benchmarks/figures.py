"""The figures that the last commits were measured with (figures.json), beside those of this run.

Kept are ratios within one run, of which more is better: seconds depend on what else the machine does. ``--page`` writes
them with the commit that was measured; what fell by more than a tenth is marked.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypedDict

FIGURES: Final = Path(__file__).with_name("figures.json")
#: A figure below this part of the one before is marked: the noise of a run is less.
_FALLEN: Final = 0.9


class Figure(TypedDict):
    """A ratio, and the commit that was measured."""

    figure: float
    commit: str


def known(path: Path = FIGURES) -> dict[str, Figure]:
    """The figures by name; none without the file."""
    figures: dict[str, Figure] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return figures


def beside(name: str, figure: float, before: Mapping[str, Figure]) -> str:
    """The figure with the one before it: ``0.41 (0.49 at 3af6496d, FELL by 16 %)``."""
    former = before.get(name)
    if former is None:
        return f"{figure:.2f}"
    fall = 1 - figure / former["figure"]
    mark = f", FELL by {100 * fall:.0f} %" if figure < _FALLEN * former["figure"] else ""
    return f"{figure:.2f} ({former['figure']:.2f} at {former['commit']}{mark})"


def keep(figures: Mapping[str, float], path: Path = FIGURES) -> None:
    """Writes these figures with the present commit; a figure that is the same keeps its commit."""
    done = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=path.parent, check=True, capture_output=True, text=True
    )
    kept = known(path)
    for name, figure in figures.items():
        if name not in kept or round(figure, 3) != kept[name]["figure"]:
            kept[name] = Figure(figure=round(figure, 3), commit=done.stdout.strip())
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
