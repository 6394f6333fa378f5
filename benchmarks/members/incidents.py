"""How often a diagnosis is right: incidents of known cause, played by real clients and by simulated ones.

    python benchmarks/members/incidents.py [--only GROUP ...] [--page]
    small: --only killed --no-simulated

Real consumers (librdkafka and Java's) are frozen, killed, blocked and restarted on real brokers, and an
administrator sets and deletes what they need; ``groupreplay explain`` then reads the capture. The expected causes and
members were written before (``tests/support/diagnosed``). A run takes ten minutes. ``--page`` writes the table to
docs/simulations.md. Exit code 1: fewer than 95 % of the causes or 98 % of the blame are right, or a cause is stated of
a healthy group.
"""

from __future__ import annotations

import sys
from argparse import BooleanOptionalAction
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from page import flag_parser, put, show_progress  # noqa: E402

from support.diagnosed.incidents import INCIDENTS  # noqa: E402
from support.diagnosed.real_incidents import REAL_INCIDENTS  # noqa: E402
from support.diagnosed.recorded import capture_of, explained, record_incidents  # noqa: E402
from support.diagnosed.scores import IncidentScore, Judged, judge_real, judge_simulated  # noqa: E402


def main() -> int:
    """Plays, judges and prints."""
    parser = flag_parser(__doc__)
    names = [incident.group for incident in REAL_INCIDENTS]
    parser.add_argument("--only", nargs="+", choices=names, help="only these groups of real clients")
    parser.add_argument("--simulated", action=BooleanOptionalAction, default=True)
    parser.add_argument(
        "--captures", type=Path, help="a folder that keeps the captures; what it has is not played"
    )
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    real = [incident for incident in REAL_INCIDENTS if incident.group in (asked.only or names)]
    judged: list[Judged] = []
    with TemporaryDirectory() as scratch:
        folder = asked.captures or Path(scratch)
        folder.mkdir(exist_ok=True)
        record_incidents(
            folder, [each for each in real if not capture_of(folder, each).exists()], show_progress
        )
        judged += [judge_real(incident, explained(folder, incident)) for incident in real]
    if asked.simulated:
        judged += [judge_simulated(incident, incident.world(0)) for incident in INCIDENTS]
    score = IncidentScore(judged)
    table = f"{score.markdown()}\n\n{score.summary()}."
    print(table)
    for line in score.wrong():
        show_progress(line)
    if asked.page:
        put("incidents", table, ROOT / "docs" / "simulations.md")
    return 0 if score.holds() else 1


if __name__ == "__main__":
    sys.exit(main())
