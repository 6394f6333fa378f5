"""How right ``whatif`` is of real clients: histories on a real broker, each played twice, with settings A and with B.

    python benchmarks/members/whatif_live.py [--library java] [--page]
    small: --only roll-static

Each history is three consumers (of librdkafka, or Kafka's own) that are closed, killed and started again; the same is
done at the same times to three others with settings B, and that is the truth. A run takes three minutes. ``--page``
writes the table of the library to docs/whatif.md.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from page import flag_parser, put, show_progress  # noqa: E402

from support.diagnosed.whatif_live import LIVE_QUESTIONS, answers, markdown  # noqa: E402


def main() -> None:
    """Plays, asks and prints."""
    parser = flag_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=[each.name for each in LIVE_QUESTIONS])
    parser.add_argument("--library", choices=["librdkafka", "java"], default="librdkafka")
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    questions = [each for each in LIVE_QUESTIONS if asked.only is None or each.name in asked.only]
    with TemporaryDirectory() as folder:
        table = markdown(answers(Path(folder), questions, asked.library, show_progress))
    print(table)
    if asked.page:
        put(f"whatif-live-{asked.library}", table, ROOT / "docs" / "whatif.md")


if __name__ == "__main__":
    main()
