"""Histories have events in order and all commits; plays of a seed cost the same, what is cut out costs nothing."""

from __future__ import annotations

from dataclasses import replace

from groupreplay.app.whatif.plays import Plays
from groupreplay.timeline.whatif.costs import Cost
from groupreplay.timeline.whatif.inputs import RecordedBroker, play_inputs
from groupreplay.timeline.whatif.quiet_times import QuietTimes, quiet_times
from groupreplay.timeline.whatif.settings import AUTO, CHECK, INSTANCE, RETENTION
from support.histories.builders import GROUP, Raw, generation, member
from support.histories.played import BEGIN, SECOND, commits, history_of, restarted


def test_events_commits_and_the_end() -> None:
    """All of one group."""
    history = history_of(restarted(), 180 * SECOND)
    assert [event.name for event in history.events if event.name == "rebalance.completed"] == [
        "rebalance.completed"
    ] * 3
    assert (history.group_id, history.end_ms) == (GROUP, BEGIN + 180 * SECOND)
    assert sorted(history.commits.places) == [("t", 0), ("t", 1)]
    assert len(history.commits.at_ms) == 36 + 12 + 2 + 21


def plays(*, seed: int = 1) -> Plays:
    """Of a history in which a member leaves, and comes back ten seconds later."""
    inputs = play_inputs(history_of(restarted(), 180 * SECOND), RecordedBroker(), {})
    return Plays(inputs=inputs, quiet=QuietTimes(), draws=5, seed=seed)


def test_recorded_and_other_settings() -> None:
    """Two rebalances as recorded; none with static members."""
    made = plays()
    recorded = made.costs(made.inputs.settings)
    static = made.costs(made.inputs.settings.changed({INSTANCE: AUTO}))
    assert [each[Cost.REBALANCES] for each in recorded] == [2] * 5
    assert [each[Cost.REBALANCES] for each in static] == [0] * 5
    assert [each[Cost.MOVED] for each in static] == [0] * 5


def test_a_seed_repeats_the_costs() -> None:
    """And another one gives others."""
    settings = plays().inputs.settings
    assert plays().costs(settings) == plays().costs(settings)
    assert plays().costs(settings) != plays(seed=2).costs(settings)


def test_quiet_times_cost_nothing() -> None:
    """The last minutes are cut out, and the costs of each draw are the same."""
    made = plays()
    inputs = replace(made.inputs, end_ms=made.inputs.end_ms + 600 * SECOND)
    quiet = quiet_times(inputs.moments, (inputs.begin_ms, inputs.end_ms), 5 * SECOND, [inputs.settings])
    assert quiet.total_ms > 300 * SECOND
    whole = Plays(inputs=inputs, quiet=QuietTimes(), draws=5, seed=1)
    assert replace(whole, quiet=quiet).costs(inputs.settings) == whole.costs(inputs.settings)


def emptied(away_ms: int) -> list[Raw]:
    """A group whose only member leaves at 60 s, and comes back so much later."""
    back_ms = 60 * SECOND + away_ms
    return [
        generation(1, member("a1", (0,), client_id="a"), at=BEGIN),
        *commits(0, SECOND, 60 * SECOND),
        generation(2, at=BEGIN + 60 * SECOND),
        generation(3, member("a2", (0,), client_id="a"), at=BEGIN + back_ms),
        *commits(0, back_ms + 5 * SECOND, back_ms + 120 * SECOND),
    ]


def test_when_brokers_look_for_offsets_to_remove_is_drawn() -> None:
    """An offset that expires five minutes before the members are back is removed if the brokers look in these."""
    inputs = play_inputs(history_of(emptied(6 * 60 * SECOND), 540 * SECOND), RecordedBroker(), {})
    made = Plays(inputs=inputs, quiet=QuietTimes(), draws=20, seed=1)
    lost = {
        each_ms: {
            costs[Cost.LOST] for costs in made.costs(inputs.settings.changed({RETENTION: 1, CHECK: each_ms}))
        }
        for each_ms in (60 * SECOND, 600 * SECOND)
    }
    assert lost == {60 * SECOND: {1}, 600 * SECOND: {0, 1}}
