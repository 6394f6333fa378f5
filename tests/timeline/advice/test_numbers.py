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
#: Stops that records alone bound badly, and rebalances that only a hanging process explains: docs/advice.md says so.
_WIDE = {
    ("static membership: deployments", "stopped_ms"),
    ("static membership: crashes", "stopped_ms"),
    ("static membership: crashes", "rebalances"),
    ("incremental rebalances", "partition_stopped_ms"),
    ("incremental rebalances", "partition_stops"),
    ("session timeout", "stopped_ms"),
    ("max poll interval", "rebalances"),
    ("max poll interval", "stopped_ms"),
    ("random instance ids", "stopped_ms"),
    ("two waves", "stopped_ms"),
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
        assert (each.held, each.again) == (True, False), each.text
        assert (each.question, each.measure) in _WIDE or each.width <= 0.3, each.text


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
        narrow = [each for each in of_it if each.width <= 0.3]
        assert (question.name, measure) in _WIDE or 2 * len(narrow) >= len(of_it)


def answer(least: int | None, most: int | None, truth: int = 10) -> Answer:
    """What was said of one history."""
    return Answer(question="slow leader", measure="stopped_ms", seed=1, truth=truth, least=least, most=most)


def test_what_is_right_and_how_wide_it_is() -> None:
    """A truth outside of the range, on either side, and an effect that was not stated are wrong."""
    told = [answer(9, 11), answer(11, 12), answer(8, 9), answer(9, None), answer(None, None)]
    assert [each.held for each in told] == [True, False, False, True, False]
    assert [each.width for each in told] == [0.2, 0.1, 0.1, float("inf"), float("inf")]


def test_a_line_for_each_effect() -> None:
    """Histories without a finding are counted; the width is the middle one."""
    lines = markdown({"slow leader": 4}, [answer(9, 11), answer(11, 12), answer(5, 15)]).splitlines()
    assert lines[2:] == ["| slow leader | `stopped_ms` | 4 | 3 | 67 % | 20 % |"]
