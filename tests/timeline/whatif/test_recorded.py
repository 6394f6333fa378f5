"""What is taken out of the log of a group, and from where on."""

from __future__ import annotations

from groupreplay.timeline.whatif.changes import Generation, Replacement
from groupreplay.timeline.whatif.recorded import recorded
from support.histories.builders import generation, member
from support.histories.played import BEGIN, SECOND, commits, history_of, restarted


def test_generations_reasons_and_commits() -> None:
    """Each generation with its members, why one left, and the usual time between two commits."""
    known = recorded(history_of(restarted(), 180 * SECOND))
    assert known is not None
    assert [
        (each.at_ms - BEGIN, each.joined_ms - BEGIN, sorted(each.members)) for each in known.generations
    ] == [(0, 0, ["a1", "b1"]), (60_000, 59_990, ["a1"]), (70_000, 69_990, ["a1", "b2"])]
    assert (known.reasons, known.commits.interval_ms, known.left_out) == ({"b1": "left"}, 5_000, 0)
    assert (known.usual("session_timeout_ms"), known.usual("instance_id")) == (45_000, None)


def test_what_is_before_a_gap_is_left_out() -> None:
    """Compaction has removed generations 12 to 14: the history begins with the 15th."""
    records = [
        generation(11, member("a1", (0,)), at=BEGIN),
        generation(15, member("a1", (0,)), at=BEGIN + 10 * SECOND),
        *commits(0, 11 * SECOND, 60 * SECOND),
    ]
    known = recorded(history_of(records, 90 * SECOND, is_whole=False))
    assert known is not None
    assert (known.begin_ms - BEGIN, known.left_out) == (10_000, 1)


def test_only_what_is_asked_about() -> None:
    """The members of that moment are the first generation; before a group there is none."""
    history = history_of(restarted(), 180 * SECOND)
    known = recorded(history, BEGIN + 61 * SECOND)
    assert known is not None
    assert [(each.at_ms - BEGIN, [*each.members]) for each in known.generations] == [
        (61_000, ["a1"]),
        (70_000, ["a1", "b2"]),
    ]
    assert known.left_out == 1
    assert recorded(history_of(commits(0, 0, 60 * SECOND), 60 * SECOND)) is None


def test_a_static_member_that_was_replaced() -> None:
    """Its process was started again in the same generation."""
    old, new = member("x1", (0,), instance_id="x"), member("x2", (0,), instance_id="x")
    records = [generation(1, old, at=BEGIN), generation(1, new, at=BEGIN + 30 * SECOND)]
    known = recorded(history_of([*records, *commits(0, 1 * SECOND, 20 * SECOND)], 60 * SECOND))
    assert known is not None
    assert isinstance(known.changes[0], Generation)
    assert known.changes[1:] == [
        Replacement(at_ms=BEGIN + 30 * SECOND, old_member_id="x1", new_member_id="x2")
    ]


def test_commits_before_after_and_between() -> None:
    """Of any of the partitions; None where there is none."""
    known = recorded(history_of(restarted(), 180 * SECOND))
    assert known is not None
    places = frozenset([("t", 0), ("t", 1)])
    times = known.commits
    assert times.last_ms(places, BEGIN + 10 * SECOND) == BEGIN + 7 * SECOND
    assert times.last_ms(places, BEGIN) is None
    assert times.between(places, BEGIN + 1 * SECOND, BEGIN + 7 * SECOND) == [
        BEGIN + at * SECOND for at in (2, 6, 7)
    ]
