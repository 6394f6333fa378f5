"""What ``advise`` says of histories of the model, beside what the model does with the advice followed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from groupreplay.timeline.advice.finding import Finding
from groupreplay.timeline.advice.group_advice import FINDERS
from support.simulated.advice_kinds import QUESTIONS, Question
from support.simulated.advice_plays import Played, played
from support.simulated.processes import mapped


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An effect that was stated of one history, and the truth. ``least`` None: the finding has no such effect."""

    question: str
    measure: str
    seed: int
    truth: int
    least: int | None = None
    most: int | None = None
    #: The same advice is given again although it was followed.
    again: bool = False

    @property
    def held(self) -> bool:
        """Whether the range holds the truth."""
        return self.least is not None and self.least <= self.truth <= (
            self.truth if self.most is None else self.most
        )

    @property
    def width(self) -> float:
        """The width of the range as a share of the truth; infinite without a bound."""
        if self.least is None or self.most is None:
            return float("inf")
        return (self.most - self.least) / max(abs(self.truth), 1)

    @property
    def text(self) -> str:
        """All of it on a line."""
        said = "nothing" if self.least is None else f"{self.least} to {self.most}"
        again = ", and the same again of the other play" if self.again else ""
        return f"{self.question} {self.seed} {self.measure}: truth {self.truth}, said {said}{again}"


def answers(question: Question, seed: int) -> list[Answer]:
    """Plays one history and asks; where there is a finding, follows it in another play and compares.

    A history without a finding has no answer: nothing is stated of it.
    """
    side = question.before(random.Random(f"{question.name} {seed}"))
    before = played(side, seed)
    finding = _found(question, before)
    if finding is None:
        return []
    after = played(question.after(side, finding), seed)
    # A group that nobody uses is deleted; it is the same play.
    again = _found(question, after) is not None and question.after(side, finding) != side
    stated = {each.measure: each for each in finding.effects}
    return [
        Answer(
            question=question.name,
            measure=measure,
            seed=seed,
            truth=truth(before, after),
            least=stated[measure].least if measure in stated else None,
            most=stated[measure].most if measure in stated else None,
            again=again,
        )
        for measure, truth in question.truths.items()
    ]


def _found(question: Question, play: Played) -> Finding | None:
    return next(iter(FINDERS[question.kind](play.history)), None)


def markdown(histories: Mapping[str, int], found: Iterable[Answer]) -> str:
    """The table; ``histories``: how many of each question were played."""
    lines = [
        "| histories of | effect | histories | findings | range holds the truth | median width |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    grouped: dict[tuple[str, str], list[Answer]] = {}
    for each in found:
        grouped.setdefault((each.question, each.measure), []).append(each)
    for question in QUESTIONS:
        for measure in question.truths if question.name in histories else ():
            lines.append(_line(question.name, measure, histories, grouped.get((question.name, measure), [])))
    return "\n".join(lines)


def _line(name: str, measure: str, histories: Mapping[str, int], of_it: Sequence[Answer]) -> str:
    share = f"{100 * sum(each.held for each in of_it) / len(of_it):.0f} %" if of_it else "-"
    width = median(each.width for each in of_it) if of_it else None
    wide = "-" if width is None else "no bound" if width == float("inf") else f"{100 * width:.0f} %"
    return f"| {name} | `{measure}` | {histories[name]} | {len(of_it)} | {share} | {wide} |"


def all_answers(
    questions: Sequence[Question],
    histories: int,
    processes: int = 1,
    known: Mapping[tuple[str, int], bool] | None = None,
) -> Iterator[tuple[str, int, list[Answer]]]:
    """The answers of each history, with the name of the question and the seed, which begins with 1.

    ``histories``: with a finding, of each question; at most twice as many are played. ``known``: those that are left
    out, and whether they had a finding.
    """
    known = known or {}
    found = Counter(name for (name, _), is_found in known.items() if is_found)
    with mapped(processes) as apply:
        for seed in range(1, 2 * histories + 1):
            asked = [
                (each.name, seed)
                for each in questions
                if found[each.name] < histories and (each.name, seed) not in known
            ]
            for (name, _), answered in zip(asked, apply(_asked, asked), strict=True):
                found[name] += bool(answered)
                yield name, seed, answered


def _asked(asked: tuple[str, int]) -> list[Answer]:
    name, seed = asked
    return answers(next(each for each in QUESTIONS if each.name == name), seed)
