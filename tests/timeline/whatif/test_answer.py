"""Ranges, what is answered, and two histories on one axis."""

from __future__ import annotations

from groupreplay.timeline.whatif.answer import CostAnswer, Range, WhatIfLane, cost_answers, lane, middle_play
from groupreplay.timeline.whatif.costs import Cost, Costs
from support.histories.played import BEGIN, SECOND, history_of, restarted


def costs(rebalances: int, stopped_ms: int) -> Costs:
    """The costs of a play; nothing else happens."""
    return {Cost.REBALANCES: rebalances, Cost.STOPPED_MS: stopped_ms, Cost.MOVED: 0, Cost.LOST: 0}


def test_the_range_is_the_5th_to_the_95th_percentile() -> None:
    """Of 1 to 99: 5, 50, 95; a difference is that from a number."""
    assert Range.of(range(1, 100)) == Range(least=5.0, median=50.0, most=95.0)
    assert Range.of([7]).minus(10) == Range(least=-3.0, median=-3.0, most=-3.0)


def test_a_range_of_fifty_draws_holds_nine_tenths_of_further_ones() -> None:
    """Each of 51 equal draws in turn is the truth that the range of the other 50 holds or not."""
    numbers = [float(number) for number in range(51)]
    ranges = [Range.of(numbers[:place] + numbers[place + 1 :]) for place in range(51)]
    held = [each.least <= number <= each.most for number, each in zip(numbers, ranges, strict=True)]
    assert held.count(True) == 45


def test_a_time_is_known_to_two_per_cent_at_best() -> None:
    """Plays that all stand still for 5 s give no exact answer; a wider range stays as it is."""
    alike = cost_answers(costs(2, 9_000), [costs(2, 9_000)], [costs(2, 5_000)] * 3)
    assert alike[1].other == Range(least=4_900.0, median=5_000.0, most=5_100.0)
    wide = cost_answers(costs(2, 9_000), [costs(2, 9_000)], [costs(2, 1_000), costs(2, 9_000)])
    assert wide[1].other == Range(least=1_000.0, median=5_000.0, most=9_000.0)


def test_what_is_not_reproduced_is_not_answered() -> None:
    """The time is not among those of the plays, so only the other costs have an answer."""
    answers = cost_answers(costs(2, 9_000), [costs(2, 5_000), costs(3, 6_000)], [costs(1, 0)] * 2)
    one, none = Range(least=1.0, median=1.0, most=1.0), Range(least=0.0, median=0.0, most=0.0)
    assert [(answer.cost, answer.reproduced, answer.other) for answer in answers] == [
        (Cost.REBALANCES, True, one),
        (Cost.STOPPED_MS, False, None),
        (Cost.MOVED, True, none),
        (Cost.LOST, True, none),
    ]
    assert answers[0].difference == Range(least=-1.0, median=-1.0, most=-1.0)


def test_without_the_number_of_rebalances_nothing_is_answered() -> None:
    """Also what is reproduced by chance."""
    answers = cost_answers(costs(5, 5_000), [costs(2, 5_000)], [costs(1, 0)])
    assert [answer.other for answer in answers] == [None] * 4
    assert answers[2] == CostAnswer(
        cost=Cost.MOVED,
        recorded=0,
        played=Range(least=0.0, median=0.0, most=0.0),
        reproduced=True,
        other=None,
        difference=None,
    )


def test_a_recorded_lane() -> None:
    """Both rebalances, and the times in which one of the partitions had no owner that committed."""
    history = history_of(restarted(), 180 * SECOND)
    assert lane("recorded", history, BEGIN, 5 * SECOND) == WhatIfLane(
        name="recorded",
        rebalances_ms=(BEGIN + 60 * SECOND, BEGIN + 70 * SECOND),
        stops=((BEGIN + 56 * SECOND, BEGIN + 60 * SECOND), (BEGIN + 66 * SECOND, BEGIN + 70 * SECOND)),
    )


def test_the_times_of_a_play() -> None:
    """They are those of the axis; nothing before the begin is shown."""
    history = history_of(restarted(), 180 * SECOND)
    shown = lane("play", history, BEGIN + 65 * SECOND, 5 * SECOND, lambda at_ms: at_ms + 1)
    assert shown == WhatIfLane(
        name="play",
        rebalances_ms=(BEGIN + 70 * SECOND + 1,),
        stops=((BEGIN + 66 * SECOND + 1, BEGIN + 70 * SECOND + 1),),
    )


def test_the_middle_play() -> None:
    """By how long partitions stood still."""
    plays = [dict.fromkeys(Cost, 0) | {Cost.STOPPED_MS: stopped_ms} for stopped_ms in (9, 1, 5, 7, 3)]
    assert middle_play(plays) == 2
