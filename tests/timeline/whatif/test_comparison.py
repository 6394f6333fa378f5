"""Two histories on one axis: rebalances, merged stops, times of a play that lacks some, and which play is drawn."""

from __future__ import annotations

from groupreplay.timeline.whatif.comparison import WhatIfLane, lane, middle_play
from groupreplay.timeline.whatif.costs import Cost
from support.histories.played import BEGIN, SECOND, history_of, restarted


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
