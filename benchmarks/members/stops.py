"""How right lag and the cost of stops are: real groups stop for known times while records of known times are written.

    python benchmarks/members/stops.py [--page]
    small: --seconds 35 --stops 1 --kinds 1

Twelve groups of the classic protocol and of KIP-848 stop five times each on one broker: their member is away, or does
not answer a rebalance. Their topics are plain, written to in transactions, compacted, or deleted and created again. The
truth is what the producers and members have noted, and ``kafka-consumer-groups.sh`` in the broker's jars. A run takes
eight minutes on a quiet machine. ``--page`` writes the table to docs/lag.md.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from page import flag_parser, put, show_progress  # noqa: E402

from support.stops.run import KINDS, played  # noqa: E402


def main() -> None:
    """Plays, scores and prints."""
    parser = flag_parser(__doc__)
    parser.add_argument("--stops", type=int, default=5, help="of each group")
    parser.add_argument("--kinds", type=int, default=len(KINDS), help="kinds of topics, with two groups each")
    parser.add_argument("--seconds", type=float, default=40.0, help="length of a stop; more than 30")
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    stops = [("away", "stuck")[number % 2] for number in range(asked.stops)]
    with TemporaryDirectory() as folder:
        score, tally = played(
            Path(folder), show_progress, kinds=KINDS[: asked.kinds], stops=stops, seconds=asked.seconds
        )
    table = score.markdown(tally)
    print(table)
    for line in (*score.wrong(), *tally.wrong):
        show_progress(line)
    if asked.page:
        put("stops", table, ROOT / "docs" / "lag.md")


if __name__ == "__main__":
    main()
