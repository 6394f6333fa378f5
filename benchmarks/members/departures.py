"""How often the stated reason of a departure is right: real members leave for known causes.

    python benchmarks/members/departures.py [--departures 300] [--captures FOLDER] [--page]
    small: --departures 12

Consumers of librdkafka and Java's, of the classic protocol and of KIP-848, close, unsubscribe, are killed, stopped,
poll too slowly, do not come back from a rebalance, and are removed by the Admin API; on a broker with Kafka's defaults
and on one with shorter sessions, at the same time. The truth is the line in the broker's log about the end of each
membership. A run of 300 takes nine minutes. ``--page`` writes the table to docs/simulations.md.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from page import flag_parser, put, show_progress  # noqa: E402

from support.departures.plan import default_broker, departures, short_broker  # noqa: E402
from support.departures.recorded import DEFAULTS, SHORTENED, recorded_or_played  # noqa: E402
from support.departures.scores import Score  # noqa: E402


def main() -> None:
    """Plays, scores and prints."""
    parser = flag_parser(__doc__)
    parser.add_argument(
        "--departures", type=int, default=300, help="about so many, at least a few of each cause"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--captures", type=Path, help="a folder that keeps what was played; what it has is not played again"
    )
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    share = asked.departures / len([*departures([*default_broker(1), *short_broker(1)])])
    plans = (
        ("defaults", default_broker(asked.seed, share), DEFAULTS),
        ("shortened", short_broker(asked.seed, share), SHORTENED),
    )
    with TemporaryDirectory() as scratch, ThreadPoolExecutor(len(plans)) as pool:
        folder = asked.captures or Path(scratch)
        folder.mkdir(exist_ok=True)
        played = [pool.submit(recorded_or_played, folder, *plan, show_progress) for plan in plans]
        recordings = [one.result() for one in played]
        scores = {
            probed: sum((one.score(probed=probed) for one in recordings), Score()) for probed in (True, False)
        }
    told = (
        f"{scores[True].markdown()}\n\nWith the prober's answers: {scores[True].summary()}.\n"
        f"Without them: {scores[False].summary()}."
    )
    print(told)
    for score in scores.values():
        for line in (*score.missing, *score.wrong):
            show_progress(line)
    if asked.page:
        put("departures", told, ROOT / "docs" / "simulations.md")


if __name__ == "__main__":
    main()
