"""How right ``whatif`` is: histories of the model with settings A are asked about B, and the model plays B itself.

    python benchmarks/members/whatif.py [--page]
    small: --histories 1 --draws 10 --kinds 1 --minutes 20

Each kind of question is asked of so many histories of an hour. The truth is what the same clients did at the same times
with settings B. ``--page`` writes the table to docs/whatif.md.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from page import flag_parser, put, show_progress  # noqa: E402
from results import keep, kept  # noqa: E402

from groupreplay.timeline.whatif.costs import Cost  # noqa: E402
from support.simulated.whatif_scores import KINDS, Score, markdown, scores  # noqa: E402


def main() -> None:
    """Asks, scores and prints."""
    parser = flag_parser(__doc__)
    parser.add_argument("--histories", type=int, default=25, help="of each kind of question")
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--kinds", type=int, default=len(KINDS))
    parser.add_argument("--minutes", type=int, default=60, help="length of a history")
    parser.add_argument("--kind", help="only this kind")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--results", type=Path, help="keeps the score of each history; a run that ended goes on"
    )
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    found = kept(asked.results, History)
    kinds = [kind for kind in KINDS[: asked.kinds] if asked.kind in (None, kind.name)]
    known = {(each.kind, each.seed) for each in found}
    seeds = range(asked.histories)
    for kind, seed, of_costs in scores(kinds, seeds, asked.draws, asked.minutes, asked.processes, known):
        found.append(History(kind.name, seed, of_costs))
        for score in of_costs.values():
            for line in score.wrong:
                show_progress(line)
        show_progress(f"{kind.name} {seed}: done")
        keep(asked.results, found[-1])
    names = [kind.name for kind in KINDS]
    found.sort(key=lambda each: (names.index(each.kind), each.seed))
    table = markdown((each.kind, each.costs) for each in found)
    print(table)
    if asked.page:
        put("whatif", table, ROOT / "docs" / "whatif.md")


@dataclass(frozen=True)
class History:
    """The scores of one history."""

    kind: str
    seed: int
    costs: dict[Cost, Score]


if __name__ == "__main__":
    main()
