"""One run a set of topics, with several processes on one topic and a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.contract.messages import STOPPED, JobDocument, OwnerClaim
from groupreplay.streaming.run.topic_owner import TopicOwner
from support.ordeals.run_topic import Reader, World, document

#: The time in which a run with a trigger of ten seconds must write once.
SILENCE = 30.0


def claim(world: World, owner: TopicOwner) -> str:
    """The owner takes over; its run."""
    run_id = owner.new_run()
    owner.claim(OwnerClaim(run_id=run_id, job_id="mine", host="h", checkpoint="c"), world.log.append)
    return run_id


def nothing(_: OwnerClaim) -> None:
    """A claim that is not written again."""


def error_of(action: Callable[[], object]) -> GroupReplayError:
    """What an action ends with."""
    with pytest.raises(GroupReplayError) as caught:
        action()
    return caught.value


def test_a_new_topic_is_free_at_once() -> None:
    """Nobody has written: nothing is waited for."""
    world = World()
    owner = world.owner()
    owner.require_free()
    claim(world, owner)
    assert (world.now, owner.replaced(), world.lines) == (0.0, None, [])


def test_a_run_that_goes_on_is_named() -> None:
    """After three heartbeats the start is refused, with what to do about it."""
    place = {"job_id": "j", "host": "h1", "checkpoint": "file:/c", "cluster_id": "k"}
    world = World([document("r", **place)])
    world.writes("r", range(5, 100, 10), **place)
    error = error_of(world.owner().require_free)
    assert error.exit_code is ExitCode.USAGE
    named = "run r of job j (host h1, checkpoint file:/c, cluster k)"
    assert (error.what, error.where) == (f"another job writes to these topics: {named}", "group-job")
    assert "--topic-prefix" in str(error.fix)
    assert "--take-over" in str(error.fix)
    assert (world.now, len(world.log)) == (25.0, 4)
    assert world.lines == [f"waiting up to 30 s for a sign of {named}"]


@pytest.mark.parametrize(
    ("written", "until"), [([], SILENCE), ([1, 2], 8 + SILENCE), ([1, 2, 3, 4], 8 + SILENCE)]
)
def test_a_run_that_has_been_killed_is_waited_for_once(written: list[float], until: float) -> None:
    """Three heartbeats after its last message it counts as ended, also if it lived while this one started."""
    world = World([document("r")])
    owner = world.owner()
    world.writes("r", written)
    world.pass_time(8)
    owner.require_free()
    assert world.now == until
    claim(world, owner)
    assert owner.replaced() is None


def test_silence_of_the_reader_is_no_silence_of_the_run() -> None:
    """Messages that have not arrived yet are waited for, however long the start of Spark has taken."""
    world = World([document("r")])
    owner = world.owner()
    reader = owner.messages
    assert isinstance(reader, Reader)
    reader.is_slow = True
    world.writes("r", range(1, 200, 10))
    world.at(90, lambda: setattr(reader, "is_slow", False))
    world.pass_time(60)
    assert error_of(owner.require_free).exit_code is ExitCode.USAGE
    assert world.now == 91.0


def test_a_topic_that_cannot_be_read() -> None:
    """It stops a start, which could not know about others, and no run that goes on."""
    world = World([document("r")])
    starting, running = world.owner(), World().owner()
    for owner in (starting, running):
        assert isinstance(owner.messages, Reader)
        owner.messages.is_broken = True
    assert error_of(starting.require_free).exit_code is ExitCode.CONNECTION
    assert running.replaced() is None


@pytest.mark.parametrize("stops_at", [None, 12.0])
def test_a_run_that_has_stopped(stops_at: float | None) -> None:
    """A clean stop says so: nothing is waited for longer than for its last word."""
    world = World([document("r", STOPPED if stops_at is None else "caught_up")])
    if stops_at is not None:
        world.writes("r", [5.0])
        world.writes("r", [stops_at], STOPPED)
    world.owner().require_free()
    assert world.now == (stops_at or 0.0)


def test_a_run_that_is_proven_dead() -> None:
    """Its checkpoint's lock is free: its last messages, read late, mean nothing."""
    world = World([document("r", host="h"), document("other", host="other")])
    world.writes("r", [1, 2, 3, 4, 5])
    owner = world.owner()
    owner.forget_ended(lambda one: one.host == "h")
    owner.require_free()
    assert world.now == SILENCE


def test_a_stop_request_ends_the_waiting() -> None:
    """SIGTERM is served while the start waits."""
    world = World([document("r")])
    owner = world.owner()
    world.at(3, owner.stop.make)
    owner.require_free()
    assert world.now == 3


@pytest.mark.parametrize(("trigger", "seconds"), [(0.1, 10.0), (10.0, 30.0), (1e300, 600.0), (-5.0, 10.0)])
def test_how_long_a_silent_run_is_waited_for(trigger: float, seconds: float) -> None:
    """Three of its triggers, within bounds: the number comes from a topic."""
    world = World([JobDocument(run_id="r", heartbeat_ms=0, trigger_seconds=trigger)])
    world.owner().require_free()
    assert world.now == seconds


def test_a_run_that_is_replaced_ends_and_the_other_waits_for_it() -> None:
    """The later claim holds: the former owner sees it, and the new one starts after its last word."""
    world = World()
    former = world.owner()
    first = claim(world, former)
    world.log.append(document(first))
    assert former.replaced() is None
    errors: list[GroupReplayError | None] = []

    def look() -> None:
        errors.append(former.replaced())
        if errors[-1] is not None:
            world.log.append(document(first, STOPPED))

    latter = world.owner()
    world.at(2, look)
    world.writes(first, [1.5])
    second = claim(world, latter)
    (error,) = errors
    assert error is not None
    assert (error.exit_code, second in error.what) == (ExitCode.USAGE, True)
    assert (world.now, latter.replaced()) == (2.0, None)


def test_a_replaced_run_that_was_away() -> None:
    """A process that could not reach Kafka for an hour finds the claim when it comes back, and ends."""
    world = World()
    former = world.owner()
    world.log.append(document(claim(world, former)))
    world.pass_time(3_600)
    latter = world.owner()
    latter.require_free()
    second = claim(world, latter)
    world.log += [document(second)] * 5
    assert former.replaced() is not None
    assert latter.replaced() is None


@pytest.mark.parametrize("count", [2, 3])
def test_starts_at_the_same_moment(count: int) -> None:
    """Each finds the topics free; whoever claims last goes on, and all others end."""
    world = World()
    owners = [world.owner() for _ in range(count)]
    for owner in owners:
        owner.require_free()
    runs = [owner.new_run() for owner in owners]
    for run_id in runs:
        world.log.append(OwnerClaim(run_id=run_id))
    for owner, run_id in list(zip(owners, runs, strict=True))[:-1]:
        # Its claim is in the topic already.
        error = error_of(lambda owner=owner, run_id=run_id: owner.claim(OwnerClaim(run_id=run_id), nothing))  # type: ignore[misc]
        assert runs[-1] in error.what
    owners[-1].claim(OwnerClaim(run_id=runs[-1]), nothing)
    assert owners[-1].replaced() is None


def test_the_runs_of_one_process_are_one_owner() -> None:
    """A new run after ``job.gap`` claims nothing again: two claims of one process could end both processes."""
    world = World()
    owner = world.owner()
    first = claim(world, owner)
    world.log.append(OwnerClaim(run_id="other"))
    second = claim(world, owner)
    world.log.append(document(second))
    assert [one.run_id for one in world.log if isinstance(one, OwnerClaim)] == [first, "other"]
    assert owner.replaced() is not None


def test_a_run_that_does_not_end() -> None:
    """A run that does not know claims is not outvoted in silence: the new one ends, and names it."""
    world = World([document("old")])
    world.writes("old", range(5, 1_000, 10))
    error = error_of(lambda: claim(world, world.owner()))
    assert (error.exit_code, "does not end" in error.what, world.now) == (ExitCode.USAGE, True, 90.5)


def test_a_claim_that_does_not_come_back() -> None:
    """Without it nobody knows who is first."""
    owner = World().owner()
    error = error_of(lambda: owner.claim(OwnerClaim(run_id=owner.new_run()), lambda _: None))
    assert error.exit_code is ExitCode.CONNECTION


def test_text_of_others_is_shown_safely() -> None:
    """Anybody may write to the topic: no escape sequence reaches the terminal."""
    world = World([document("r\x1b[2J")])
    world.owner().require_free()
    assert "\x1b" not in world.lines[0]
