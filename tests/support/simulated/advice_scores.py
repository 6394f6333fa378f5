"""What ``advise`` says of histories of the model, beside what the model does with the advice followed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from groupreplay.timeline.advice.finding import Effect, Finding
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
    likely_least: int | None = None
    likely_most: int | None = None
    #: The same advice is given again although it was followed.
    again: bool = False

    @property
    def proven(self) -> bool:
        """Whether the proven bounds hold the truth."""
        return self._is_within((self.least, self.most))

    @property
    def stated(self) -> tuple[int | None, int | None]:
        """The range that is stated first: the likely one, or the bounds where nothing is inferred."""
        if self.likely_least is None:
            return self.least, self.most
        return self.likely_least, self.likely_most

    @property
    def held(self) -> bool:
        """Whether the range that is stated first holds the truth."""
        return self._is_within(self.stated)

    @property
    def width(self) -> float:
        """The width of that range as a share of the truth; infinite without a bound."""
        return self._width(self.stated)

    @property
    def proven_width(self) -> float:
        """The width of the bounds."""
        return self._width((self.least, self.most))

    def _is_within(self, bounds: tuple[int | None, int | None]) -> bool:
        least, most = bounds
        return least is not None and least <= self.truth <= (self.truth if most is None else most)

    def _width(self, bounds: tuple[int | None, int | None]) -> float:
        least, most = bounds
        if least is None or most is None:
            return float("inf")
        return (most - least) / max(abs(self.truth), 1)

    @property
    def text(self) -> str:
        """All of it on a line."""
        said = "nothing" if self.least is None else f"{self.least} to {self.most}"
        if self.likely_least is not None:
            said = f"likely {self.likely_least} to {self.likely_most}, surely {said}"
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
            again=again,
            **(_ranges(stated[measure]) if measure in stated else {}),
        )
        for measure, truth in question.truths.items()
    ]


def _ranges(effect: Effect) -> dict[str, int | None]:
    return {name: getattr(effect, name) for name in ("least", "most", "likely_least", "likely_most")}


def _found(question: Question, play: Played) -> Finding | None:
    return next(iter(FINDERS[question.kind](play.history)), None)


def markdown(histories: Mapping[str, int], found: Iterable[Answer]) -> str:
    """The table; ``histories``: how many of each question were played."""
    lines = [
        "| histories of | effect | histories | findings | range holds the truth | median width "
        "| bounds hold it | their width |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    grouped: dict[tuple[str, str], list[Answer]] = {}
    for each in found:
        grouped.setdefault((each.question, each.measure), []).append(each)
    for question in QUESTIONS:
        for measure in question.truths if question.name in histories else ():
            lines.append(_line(question.name, measure, histories, grouped.get((question.name, measure), [])))
    return "\n".join(lines)


def _line(name: str, measure: str, histories: Mapping[str, int], of_it: Sequence[Answer]) -> str:
    shown = [_share([each.held for each in of_it]), _wide([each.width for each in of_it])]
    # Where nothing is inferred the range is that of the bounds.
    is_inferred = any(each.likely_least is not None for each in of_it)
    shown += [_share([each.proven for each in of_it]) if is_inferred else ""]
    shown += [_wide([each.proven_width for each in of_it]) if is_inferred else ""]
    return f"| {name} | `{measure}` | {histories[name]} | {len(of_it)} | {' | '.join(shown)} |"


def _share(right: Sequence[bool]) -> str:
    return f"{100 * sum(right) / len(right):.0f} %" if right else "-"


def _wide(widths: Sequence[float]) -> str:
    if not widths:
        return "-"
    width = median(widths)
    return "no bound" if width == float("inf") else f"{100 * width:.0f} %"


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
