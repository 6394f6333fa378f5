"""Writes the table of triggers in docs/simulations.md anew: ``cd tests && python -m golden.refresh_triggers``.

It simulates every scenario, which takes some minutes.
"""

from __future__ import annotations

from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from support.paths import ROOT
from support.simulated.trigger_scores import score, table, unknown_share, wrong

HOURS, GROUPS = 2, 3
PAGE = ROOT / "docs" / "simulations.md"
BEGIN, END = "<!-- triggers -->\n", "\n<!-- end of triggers -->"


def main() -> None:
    """Replaces what is between the two marks."""
    matrix = score(SCENARIOS, HOURS, GROUPS)
    text = (
        f"{matrix.total()} rebalances ({HOURS} hours of {GROUPS} groups of each): {wrong(matrix).total()} wrong "
        f"answers; {100 * unknown_share(matrix):.1f} % `unknown` where a member came or went.\n\n{table(matrix)}"
    )
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + text + END + after)


if __name__ == "__main__":
    main()
