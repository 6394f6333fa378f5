"""How right the numbers of ``advise`` are: the model plays histories, and plays them again with the advice followed.

    python benchmarks/members/advice.py [--page]
    small: --histories 1 --only "uneven assignment" --only "slow leader"

Each kind of advice is asked of so many histories in which there is a finding, of up to twice as many. The truth is what
the same clients at the same times cost with the advised setting. ``--page`` writes the table to docs/advice.md.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from page import flag_parser, put, show_progress  # noqa: E402
from results import keep, kept  # noqa: E402

from support.simulated.advice_kinds import QUESTIONS  # noqa: E402
from support.simulated.advice_scores import Answer, all_answers, markdown  # noqa: E402


def main() -> None:
    """Plays, asks and prints."""
    parser = flag_parser(__doc__)
    parser.add_argument("--histories", type=int, default=16, help="with a finding, of each kind")
    parser.add_argument("--only", action="append", help="only these histories, by the first column")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--results", type=Path, help="keeps the answers of each history; a run that ended goes on"
    )
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    done = kept(asked.results, History)
    questions = [each for each in QUESTIONS if asked.only is None or each.name in asked.only]
    known = {(each.question, each.seed): bool(each.answers) for each in done}
    for name, seed, answers in all_answers(questions, asked.histories, asked.processes, known):
        done.append(History(name, seed, answers))
        for each in answers:
            if each.again or not each.held:
                show_progress(f"WRONG {each.text}")
        show_progress(f"{name} {seed}: {'done' if answers else 'no finding'}")
        keep(asked.results, done[-1])
    done.sort(key=lambda each: each.question)
    histories = {name: len([*of_it]) for name, of_it in groupby(done, lambda each: each.question)}
    table = markdown(histories, (answer for each in done for answer in each.answers))
    print(table)
    if asked.page:
        put("advice", table, ROOT / "docs" / "advice.md")


@dataclass(frozen=True)
class History:
    """The answers of one history; empty: there was no finding."""

    question: str
    seed: int
    answers: list[Answer]


if __name__ == "__main__":
    main()
