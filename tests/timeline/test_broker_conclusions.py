"""The sums of causes outside of the members."""

from __future__ import annotations

from dataclasses import replace

from groupreplay.state.conditions.transaction_hanging import TransactionHanging
from groupreplay.timeline import broker_conclusions
from groupreplay.timeline.commit_rates import CommitLog
from groupreplay.timeline.episodes import Episode
from groupreplay.timeline.states import CoordinatorSeen
from timeline.test_conclusions import SECOND, commits, stuck
from timeline.test_episodes import FACTS, told


def test_a_coordinator_that_moved() -> None:
    """Another leader of the partition, shortly before or after; another answer of the same broker is no move."""
    before, after = CoordinatorSeen(0, 0, 1, None), CoordinatorSeen(90 * SECOND, 100 * SECOND, 2, "loading")

    def moved(*seen: CoordinatorSeen) -> str | None:
        found = broker_conclusions.coordinator_moved(stuck(), replace(FACTS, coordinators=seen))
        return None if found is None else "".join(map(str, found.parts))

    assert moved(before, after) == (
        "The coordinator of the group moved from broker 1 to 2 between 90000 and 100000, which answered: loading"
    )
    assert moved(before, after._replace(broker=1)) is None
    assert moved(before, after._replace(earliest_ms=300 * SECOND, since_ms=310 * SECOND)) is None
    assert moved(before) is None


def test_a_coordinator_that_does_not_answer() -> None:
    """For at least half of the time."""
    silence = CoordinatorSeen(90 * SECOND, 100 * SECOND, 1, "down")
    back = CoordinatorSeen(290 * SECOND, 300 * SECOND, 1, None)

    def is_away(*seen: CoordinatorSeen) -> bool:
        return broker_conclusions.coordinator_is_away(stuck(), replace(FACTS, coordinators=seen)) is not None

    assert is_away(CoordinatorSeen(0, 0, 1, None), silence, back)
    assert is_away(CoordinatorSeen(0, 0, 1, None), silence)
    assert not is_away(CoordinatorSeen(0, 0, 1, None), silence, back._replace(earliest_ms=150 * SECOND))
    assert not is_away()


def test_nobody_commits() -> None:
    """Only where clients commit without new records: twenty commits or more, of which one in twenty repeats."""

    def is_stated(log: CommitLog) -> bool:
        return broker_conclusions.nobody_commits(stuck(), replace(FACTS, commits=log)) is not None

    assert is_stated(commits(*range(20), repeats=1))
    assert not is_stated(commits(*range(20)))
    assert not is_stated(commits(*range(19), repeats=5))


def test_offsets_that_are_set_again_and_again() -> None:
    """At a steady pace it is a tool that mirrors them, and no hand."""
    once = told("offsets.set", 100, interval_ms=None)
    steady = told("offsets.set", 300, interval_ms=60_000)
    episode = replace(stuck(), sign="offsets.set", event=once)
    assert broker_conclusions.set_by_hand(episode, replace(FACTS, events=(once,))) is not None
    assert broker_conclusions.set_by_hand(episode, replace(FACTS, events=(once, steady))) is None


def test_a_transaction_that_was_not_ended() -> None:
    """Who, since when, and what waits for it; how long it was open if it has ended."""
    data = TransactionHanging.EXAMPLES[0].fields
    event = told(TransactionHanging.NAME, 160 * SECOND, "WARN", evidence="probe", **data)
    episode = Episode(sign=event.name, since_ms=100 * SECOND, until_ms=None, severity="WARN", event=event)

    def text(episode: Episode) -> str:
        found = broker_conclusions.transaction_is_open(episode, FACTS)
        assert found is not None
        assert (found.certainty, found.members) == ("proven", ())
        return "".join(map(str, found.parts))

    held = (
        "commits of 4 partitions wait: orders 0-3; nothing in partition 12 of the offsets topic is read from offset "
        "902114 on, and these offsets do not expire"
    )
    assert text(episode) == (
        f"Producer 4711 (epoch 0) began a transaction at {100 * SECOND} and has not ended it: {held}"
    )
    ended = replace(episode, until_ms=400 * SECOND)
    assert text(ended) == (
        f"Producer 4711 (epoch 0) began a transaction at {100 * SECOND} and did not end it for 5 min 0 s: commits of "
        "4 partitions waited: orders 0-3; nothing in partition 12 of the offsets topic was read from offset 902114 on, "
        "and these offsets did not expire"
    )
