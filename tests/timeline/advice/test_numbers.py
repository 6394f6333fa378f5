"""The numbers of each kind of advice against the model: groups as they are, and again with the advice followed."""

from __future__ import annotations

import pytest

from groupreplay.timeline.advice.finding import Kind
from support.simulated.advice_kinds import QUESTIONS, Question
from support.simulated.advice_scores import Answer, all_answers, answers, markdown

#: What other tests of this folder compare with another play, too.
_COMPARED = {
    Kind.STATIC_MEMBERSHIP,
    Kind.INCREMENTAL_REBALANCES,
    Kind.SESSION_TIMEOUT,
    Kind.MAX_POLL_INTERVAL,
    Kind.TWO_WAVES,
}


def by_name(question: Question) -> str:
    """The name of a case."""
    return question.name.replace(" ", "-")


def test_every_kind_is_asked_about() -> None:
    """A new kind of advice needs histories in which its numbers are compared with the truth."""
    assert {question.kind for question in QUESTIONS} == set(Kind)


@pytest.mark.parametrize("question", [each for each in QUESTIONS if each.kind not in _COMPARED], ids=by_name)
def test_the_range_holds_what_the_model_does_itself(question: Question) -> None:
    """One history of each kind; where the advice was followed it is not given again."""
    told = answers(question, 1)
    assert [each.measure for each in told] == [*question.truths]
    for each in told:
        assert (each.held, each.proven, each.again) == (True, True, False), each.text
        assert each.width <= 0.3, each.text


@pytest.mark.long
@pytest.mark.parametrize("question", QUESTIONS, ids=by_name)
def test_the_ranges_of_many_histories(question: Question) -> None:
    """Nine of ten ranges hold the truth, and half of them are narrow."""
    told = [answer for _, _, found in all_answers([question], 10) for answer in found]
    for measure in question.truths:
        of_it = [each for each in told if each.measure == measure]
        assert len(of_it) == 10
        wrong = [each.text for each in of_it if each.again or not each.held]
        assert len(wrong) <= 1, wrong
        assert 2 * sum(each.width <= 0.3 for each in of_it) >= len(of_it)
        assert all(inside(each) for each in of_it)


def inside(each: Answer) -> bool:
    """Whether the likely range is inside of the bounds, if there is one."""
    if each.likely_least is None or each.likely_most is None or each.least is None:
        return each.likely_least is each.likely_most
    most = each.likely_most if each.most is None else each.most
    return each.least <= each.likely_least <= each.likely_most <= most


def answer(least: int | None, most: int | None, truth: int = 10, likely: int | None = None) -> Answer:
    """What was said of one history; ``likely``: the likely range is two numbers from there on."""
    return Answer(
        question="slow leader",
        measure="stopped_ms",
        seed=1,
        truth=truth,
        least=least,
        most=most,
        likely_least=likely,
        likely_most=None if likely is None else likely + 1,
    )


def test_what_is_right_and_how_wide_it_is() -> None:
    """A truth outside of the range, on either side, and an effect that was not stated are wrong."""
    told = [answer(9, 11), answer(11, 12), answer(8, 9), answer(9, None), answer(None, None)]
    assert [each.held for each in told] == [True, False, False, True, False]
    assert [each.width for each in told] == [0.2, 0.1, 0.1, float("inf"), float("inf")]


def test_the_likely_range_is_what_is_scored() -> None:
    """The bounds may be right where the likely range is wrong."""
    told = [answer(0, 100, likely=9), answer(0, 100, likely=11)]
    assert [(each.held, each.proven) for each in told] == [(True, True), (False, True)]
    assert [(each.width, each.proven_width) for each in told] == [(0.1, 10)] * 2
    assert told[1].text == "slow leader 1 stopped_ms: truth 10, said likely 11 to 12, surely 0 to 100"
    assert [inside(each) for each in (*told, answer(9, 11), answer(11, None, likely=10))] == [True] * 3 + [
        False
    ]


def test_a_line_for_each_effect() -> None:
    """Histories without a finding are counted; the width is the middle one."""
    lines = markdown({"slow leader": 4}, [answer(9, 11), answer(11, 12), answer(5, 15)]).splitlines()
    assert lines[2:] == ["| slow leader | `stopped_ms` | 4 | 3 | 67 % | 20 % |  |  |"]
    lines = markdown({"slow leader": 2}, [answer(0, 100, likely=9), answer(0, 100, likely=11)]).splitlines()
    assert lines[2:] == ["| slow leader | `stopped_ms` | 2 | 2 | 50 % | 10 % | 100 % | 1000 % |"]
