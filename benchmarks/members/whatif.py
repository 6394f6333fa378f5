"""How right ``whatif`` is: histories of the model with settings A are asked about B, and the model plays B itself.

    python benchmarks/members/whatif.py [--page]
    small: --histories 1 --draws 10 --kinds 1 --minutes 20

Each kind of question is asked of so many histories of an hour. The truth is what the same clients did at the same times
with settings B. ``--page`` writes the table to docs/whatif.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from page import flag_parser, put, show_progress  # noqa: E402

from support.simulated.whatif_scores import KINDS, markdown, scores  # noqa: E402


def main() -> None:
    """Asks, scores and prints."""
    parser = flag_parser(__doc__)
    parser.add_argument("--histories", type=int, default=25, help="of each kind of question")
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--kinds", type=int, default=len(KINDS))
    parser.add_argument("--minutes", type=int, default=60, help="length of a history")
    parser.add_argument("--kind", help="only this kind")
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    found = []
    kinds = [kind for kind in KINDS[: asked.kinds] if asked.kind in (None, kind.name)]
    for kind, of_costs in scores(kinds, range(asked.histories), asked.draws, asked.minutes):
        found.append((kind, of_costs))
        for score in of_costs.values():
            for line in score.wrong:
                show_progress(line)
        show_progress(f"{kind.name}: done")
    table = markdown(found)
    print(table)
    if asked.page:
        put("whatif", table, ROOT / "docs" / "whatif.md")


if __name__ == "__main__":
    main()
