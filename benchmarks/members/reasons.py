"""How often a rebalance has the reason that its broker logged, and whether that is what was done.

    python benchmarks/members/reasons.py [--turns 8] [--captures FOLDER] [--page]
    small: --turns 1 --release 4.4.0

Groups of every kind (classic, KIP-848, share, streams) on brokers of Kafka 3.9.1, 4.3.1 and 4.4.0, with up to six real
clients at a time: members join and leave ``--turns`` times, subscribe to another topic, are killed, do not give up
their partitions, and a regular expression comes to fit more topics. ``replay --broker-log`` of the capture is compared
with the lines of the log, which this program reads by itself, and with what was done. Takes five minutes. ``--page``
writes the table to docs/broker-log.md.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from page import flag_parser, put, show_progress  # noqa: E402

from support.reasons.recorded import RELEASES, markdown, told  # noqa: E402


def main() -> None:
    """Plays, scores and prints."""
    parser = flag_parser(__doc__)
    parser.add_argument("--turns", type=int, default=8, help="so often a member joins and leaves each group")
    parser.add_argument("--release", choices=RELEASES, action="append", help="only these")
    parser.add_argument(
        "--captures", type=Path, help="a folder that keeps what was played; what it has is not played again"
    )
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with TemporaryDirectory() as scratch:
        folder = asked.captures or Path(scratch)
        folder.mkdir(exist_ok=True)
        rebalances = [
            one
            for release in asked.release or RELEASES
            for one in told(release, folder, asked.turns, show_progress)
        ]
    print(markdown(rebalances))
    for one in rebalances:
        if not one.is_right:
            show_progress(f"not right: {one}")
    if asked.page:
        put("reasons", markdown(rebalances), ROOT / "docs" / "broker-log.md")


if __name__ == "__main__":
    main()
