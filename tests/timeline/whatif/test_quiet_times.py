"""What of a history is not played."""

from __future__ import annotations

from groupreplay.timeline.whatif.lineages import Lineages
from groupreplay.timeline.whatif.moments import Arrival, Departure, Moments, Turn
from groupreplay.timeline.whatif.quiet_times import QuietTimes, quiet_times
from groupreplay.timeline.whatif.settings import PlaySettings

HOUR, SECOND = 3_600_000, 1_000


def one_departure(stays: int) -> Moments:
    """A member leaves after an hour; so many stay."""
    turn = Turn(
        joined_ms=HOUR,
        stays=stays,
        waited_ms=0,
        departures=(Departure(client=0, reason="left", last_ms=HOUR - 1),),
        arrivals=(),
    )
    return Moments(
        first=tuple(Arrival(client=number) for number in range(stays + 1)),
        turns=(turn,),
        restarts=(),
        hangs=(),
        silences=(),
        before_joining=True,
        lineages=Lineages(),
    )


def test_whole_times_between_commits_are_cut() -> None:
    """The longest session and some commits stay after what happened; two hours become some minutes."""
    quiet = quiet_times(one_departure(2), (0, 2 * HOUR), 5 * SECOND, [PlaySettings(values={})])
    assert [length_ms % (5 * SECOND) for _, length_ms in quiet.cuts] == [0, 0]
    assert 3 * 60 * SECOND < quiet.played_ms(2 * HOUR) < 4 * 60 * SECOND
    assert quiet.played_ms(2 * HOUR) == 2 * HOUR - quiet.total_ms
    assert quiet.played_ms(0) == 0


def test_a_time_without_members_is_played() -> None:
    """Offsets may expire in it."""
    quiet = quiet_times(one_departure(0), (0, 2 * HOUR), 5 * SECOND, [PlaySettings(values={})])
    assert quiet.played_ms(2 * HOUR) - quiet.played_ms(HOUR) == HOUR


def test_a_moment_within_a_cut_is_at_its_begin() -> None:
    """Before it nothing changes, behind it all is earlier."""
    quiet = QuietTimes(((100, 50), (300, 100)))
    assert [quiet.played_ms(at_ms) for at_ms in (99, 100, 120, 150, 300, 400, 500)] == [
        *(99, 100, 100, 100, 250, 250, 350)
    ]


def test_the_time_of_the_history() -> None:
    """It is that from which the time of a play comes, except in what is cut out."""
    quiet = QuietTimes(((100, 50), (300, 100)))
    times = [0, 99, 100, 160, 250, 300, 401, 1_000]
    assert [quiet.recorded_ms(quiet.played_ms(at_ms)) for at_ms in times] == times
    assert quiet.recorded_ms(quiet.played_ms(130)) == 100
