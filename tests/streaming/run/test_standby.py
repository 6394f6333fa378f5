"""Who waits beside whom, and from where the next one goes on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.contract.messages import STOPPED, JobDocument, OwnerClaim
from groupreplay.streaming.run.identity import Identity
from groupreplay.streaming.run.standby import (
    FormerJob,
    JobHistory,
    Turns,
    begin_after,
    continued,
    in_thread,
    read_history,
)
from groupreplay.streaming.run.topic_owner import OtherRunError, TopicOwner
from groupreplay.streaming.sinks.job_topic import JobTopic
from groupreplay.streaming.spark.checkpoint import Checkpoint
from support.ordeals.run_topic import Reader, World, claims, document, says
from support.ordeals.standing_by import AsideChecks, standby

SILENCE = 30.0
WANTED = Identity(cluster_id="c", era="e", partitions=4, probes="c/p", first_start_ms=900_000)
KNOWN = msgspec.structs.replace(WANTED, job_id="own", event_era="e", first_start_ms=5)
FORMER = FormerJob(
    job_id="other",
    cluster_id="c",
    era="e.2",
    first_start_ms=7,
    emitted_to_ms=800_000,
    is_reported=True,
    batch=12,
)


def job(name: str, emitted_to_ms: int, first_start_ms: int = 7, **fields: Any) -> FormerJob:
    """What is known of a job."""
    return FormerJob(
        job_id=name,
        cluster_id="c",
        emitted_to_ms=emitted_to_ms,
        first_start_ms=first_start_ms,
        **{"era": "e", **fields},
    )


def test_nobody_has_written() -> None:
    """A new topic has no owner."""
    assert JobHistory().owner is None


@pytest.mark.parametrize(
    ("messages", "owner"),
    [
        # The last document says how far the job was.
        ([says("a", None), says("a", 50, batch=3)], job("a", 50, is_reported=True, batch=3)),
        # A job that has started again has emitted what it had emitted before.
        ([says("a", 50, batch=3), claims("a", 7), says("a", None)], job("a", 50, is_reported=True, batch=3)),
        # A job that took over and died early: its events begin where those of the other end.
        ([says("a", 50, batch=3), claims("b", 50), says("b", None, first_start_ms=50)], job("b", 50, 50)),
        ([says("a", 50, batch=3), claims("b", 50)], job("b", 50, 50)),
        # Its own state of days ago does not count any more: it was built anew.
        (
            [
                *(says("b", 20, batch=9), claims("a", 7), says("a", 50), claims("b", 50)),
                says("b", None, first_start_ms=50),
            ],
            job("b", 50, 50),
        ),
        # The last words of the run that was replaced come behind the claim.
        (
            [
                *(says("a", 50), claims("b", 50), says("a", 60, phase=STOPPED)),
                says("b", None, first_start_ms=50),
            ],
            job("b", 50, 50),
        ),
        # An earlier release does not say where its events begin.
        ([says("a", 50), claims("b", 0, era="")], job("b", 50, 0, era="")),
    ],
)
def test_the_owner_of_the_topics(messages: list[JobDocument | OwnerClaim], owner: FormerJob) -> None:
    """Which job was the last, and up to which time all events were emitted, by it or by those before it."""
    assert JobHistory(messages).owner == owner


@pytest.mark.parametrize(("trigger_seconds", "unsaid_ms"), [(0.1, 10_000), (20.0, 60_000), (1e300, 600_000)])
def test_what_a_job_may_not_have_said_yet(trigger_seconds: float, unsaid_ms: int) -> None:
    """Timers pass a caught-up time a batch later: a job that dies then has not emitted all that lies before it."""
    last = JobDocument(job_id="a", heartbeat_ms=0, trigger_seconds=trigger_seconds, caught_up_ms=10**9)
    owner = JobHistory([last]).owner
    assert owner is not None
    assert owner.emitted_to_ms == 10**9 - unsaid_ms


def test_a_job_that_has_only_just_come_back() -> None:
    """It may emit deadlines of its absence later: what was said before counts until it is settled."""
    history = JobHistory([claims("a", 7), says("a", 50), says("a", 90, settled=False)])
    assert history.owner == job("a", 50, is_reported=True)
    history.take(says("a", 95))
    assert history.owner == job("a", 95, is_reported=True)


def test_documents_of_ever_new_jobs() -> None:
    """Anybody may write them: they neither fill the memory nor hide the owner."""
    history = JobHistory([claims("a", 7), says("a", 50)])
    for number in range(10_000):
        history.take(says(f"forged-{number}", 10**15))
        history.take(says("a", 51))
    assert history.owner == job("a", 51, is_reported=True)
    assert len(history._jobs) == 100


def test_the_history_reads_as_much_as_it_needs() -> None:
    """The last messages may all be of a job that has not caught up yet: what came before them is read, too."""
    tails = [
        [says("b", None)],
        [claims("b", 7), says("b", None)],
        [says("a", 50), claims("b", 50)],
        [says("x", 8)],
    ]
    read: list[int] = []

    def topic_tails() -> Iterator[list[JobDocument | OwnerClaim]]:
        for number, messages in enumerate(tails):
            read.append(number)
            yield messages

    history = read_history(cast("JobTopic", SimpleNamespace(tails=topic_tails)))
    assert (history.owner, read) == (job("x", 8, is_reported=True), [0, 1, 2, 3])
    tails[1:] = [[says("b", 9)], []]
    read.clear()
    history = read_history(cast("JobTopic", SimpleNamespace(tails=topic_tails)))
    assert (history.owner, read) == (job("b", 9, is_reported=True), [0, 1])


@pytest.mark.parametrize(
    ("former", "known", "batch"),
    [
        (None, None, -1),
        (None, KNOWN, 7),
        (dataclasses.replace(FORMER, cluster_id="x"), KNOWN, 7),
        (job("own", 50, batch=7), KNOWN, 7),
        (job("own", 50), KNOWN, -1),
        (job("own", 50, era=""), KNOWN, 7),
    ],
)
def test_a_checkpoint_that_goes_on(former: FormerJob | None, known: Identity | None, batch: int) -> None:
    """Nobody has written, or for another cluster; or the job with this checkpoint has written last."""
    assert continued(former, WANTED, known, batch) is None


@pytest.mark.parametrize(
    ("former", "known", "batch"),
    [
        (FORMER, None, -1),
        (FORMER, KNOWN, 12),
        # A copy of the checkpoint, made before the last batches, or before its state was built anew.
        (job("own", 800_000, era="e.2", batch=12), KNOWN, 12),
        (job("own", 800_000, era="e", batch=12), KNOWN, 11),
    ],
)
def test_a_state_that_is_built_anew(former: FormerJob, known: Identity | None, batch: int) -> None:
    """Another job has written last: events go on where its events end, and have the ids that it would give them."""
    assert continued(former, WANTED, known, batch) == msgspec.structs.replace(
        WANTED, first_start_ms=800_000, event_era=former.era, taken_over_ms=900_000
    )


def test_a_topic_that_was_created_again_meanwhile() -> None:
    """Its offsets begin at 0: events of both topics must not have the same ids."""
    begun = continued(job("other", 50, era="before.1"), WANTED, None, -1)
    assert begun is not None
    assert (begun.event_era, begun.first_start_ms) == ("e", 50)


@pytest.mark.parametrize(("said_ms", "begins_ms"), [(10**15, 900_000), (0, 900_000), (899_999, 899_999)])
def test_a_time_of_another_job(said_ms: int, begins_ms: int) -> None:
    """It is not believed beyond the present; a job that has said none is continued from now on."""
    begun = continued(job("other", said_ms), WANTED, None, -1)
    assert begun is not None
    assert begun.first_start_ms == begins_ms


@pytest.mark.parametrize(("until_ms", "complete_ms"), [(600_000, 600_000), (599_999, 900_000)])
def test_from_when_on_an_unknown_group_is_new(until_ms: int, complete_ms: int) -> None:
    """After a short gap from its beginning: Kafka's log cleaner has not been there. Else from the take-over on."""
    begun = continued(job("other", until_ms), WANTED, None, -1)
    assert begun is not None
    assert (begun.first_start_ms, begun.complete_since_ms) == (until_ms, complete_ms)


@pytest.mark.parametrize(
    ("former", "known", "done"),
    [
        (None, KNOWN, []),
        (FORMER, None, ["claim"]),
        (FORMER, KNOWN, ["anew"]),
        (job("own", 9, batch=3), KNOWN, []),
    ],
)
def test_where_the_state_begins(former: FormerJob | None, known: Identity | None, done: list[str]) -> None:
    """In the folder itself if it is new, else in a folder inside; nowhere if the checkpoint goes on."""
    did: list[str] = []
    checkpoint = SimpleNamespace(
        latest=lambda: SimpleNamespace(known=lambda: known, last_batch=lambda: 5),
        claim=lambda _: did.append("claim"),
        begin_after_other=lambda _former, _now: did.append("anew"),
    )
    begin_after(former, cast("Checkpoint", checkpoint), WANTED)
    assert did == done


def test_the_checks_are_done_when_the_silence_ends() -> None:
    """They begin before that, however late the last sign of life came, and the claim follows the silence at once."""
    world = World([document("r")])
    world.writes("r", [10, 20])
    checks = AsideChecks(world, seconds=3)
    assert standby(world, checks=checks).wait() == 1
    assert (checks.began, world.now) == ([20 + SILENCE - 5], 20 + SILENCE)


def test_a_sign_of_life_makes_the_checks_old() -> None:
    """A run that was nearly silent, and ends an hour later: what was found out before does not count then."""
    world = World([document("r")])
    world.writes("r", [SILENCE - 3, *range(30, 3600, 10)])
    checks = AsideChecks(world)
    assert standby(world, checks=checks).wait() == 2
    assert (checks.began, world.now) == ([SILENCE - 5, 3590 + SILENCE - 5], 3590 + SILENCE)


def test_checks_that_failed_aside_are_done_again() -> None:
    """The broker that did not answer may do it by now; without another run they are not begun before."""
    world = World([document("r")])
    checks = AsideChecks(world, seconds=3, fail_aside=True)
    assert standby(world, checks=checks).wait() == 2
    assert (checks.began, world.now) == ([SILENCE - 5, SILENCE], SILENCE + 3)
    assert standby(World(), checks=(alone := AsideChecks(World()))).wait() == 1
    assert alone.began == [0]


def test_work_in_a_thread() -> None:
    """Its result or its error arrives where it is asked for."""
    error = GroupReplayError("away", exit_code=ExitCode.CONNECTION)

    def fail() -> int:
        raise error

    assert in_thread(lambda: 7)() == 7
    with pytest.raises(GroupReplayError) as caught:
        in_thread(fail)()
    assert caught.value is error


def test_without_another_run_it_starts_at_once() -> None:
    """Of two services that are started, the first one works."""
    world = World([document("r", STOPPED)])
    standby(world).wait()
    assert (world.now, world.lines) == (0.0, [])


def test_it_waits_as_long_as_the_other_lives() -> None:
    """For days, with a line a minute; then for three heartbeats that did not come."""
    world = World([document("r", host="h")])
    world.writes("r", range(5, 600, 10), host="h")
    standby(world).wait()
    assert 595 + SILENCE <= world.now <= 595 + SILENCE + 1
    waiting = "standing by, waiting for the end of run r of job  (host h, checkpoint , cluster )"
    assert world.lines[:-1] == [waiting] * 11
    assert world.lines[-1] == "the other run has ended: taking over"


def test_a_stopped_run_is_followed_at_once() -> None:
    """It says that it has ended."""
    world = World([document("r")])
    world.writes("r", [5, 15])
    world.writes("r", [20], STOPPED)
    standby(world).wait()
    assert world.now == 20.0


def test_the_lock_of_a_shared_checkpoint() -> None:
    """It is held as long as the other lives; when it is free, nothing is waited for."""
    world = World([document("r", host="mine")])
    standby(world, [False, False, False, True]).wait()
    assert world.now == 1.5
    # Without a message of the owner it is named as it has written into the lock.
    world = World()
    standby(world, [False, True]).wait()
    assert (
        world.lines[0]
        == "standing by, waiting for the end of the owner of the checkpoint (host h, process 5)"
    )


def test_a_free_lock_proves_nothing_about_other_hosts() -> None:
    """A run elsewhere counts by its messages."""
    world = World([document("r", host="other")])
    standby(world).wait()
    assert world.now >= SILENCE


def test_an_outage_is_no_silence() -> None:
    """While no broker answers nothing is known, and afterwards the other one has half a minute more."""
    world = World([document("r")])
    one = standby(world)
    reader = cast("Any", one.owner.messages)
    world.writes("r", [5])
    world.at(10, lambda: setattr(reader, "is_broken", True))
    world.at(200, lambda: setattr(reader, "is_broken", False))
    broken = reader.new_messages

    def passing(seconds: float) -> Any:
        if reader.is_broken:
            world.pass_time(seconds)
        return broken(seconds)

    reader.new_messages = passing
    one.wait()
    assert 200 + 2 * SILENCE <= world.now <= 200 + 2 * SILENCE + 1


def test_silence_of_the_reader_is_no_silence_of_the_run() -> None:
    """What was written and has not arrived is waited for."""
    world = World([document("r")])
    one = standby(world)
    reader = cast("Any", one.owner.messages)
    reader.is_slow = True
    world.writes("r", range(1, 150, 10))
    world.at(140, lambda: setattr(reader, "is_slow", False))
    one.wait()
    assert 141 + SILENCE <= world.now <= 141 + 2 * SILENCE + 1


def test_a_stop_request_ends_the_waiting() -> None:
    """SIGTERM ends it at once."""
    world = World([document("r")])
    one = standby(world)
    world.at(3, one.stop.make)
    assert one.wait() is None
    assert world.now == 3.0


@pytest.mark.parametrize(
    ("error", "has_begun", "is_fatal"),
    [
        (OtherRunError("another run", exit_code=ExitCode.USAGE), False, False),
        (OtherRunError("another run", exit_code=ExitCode.USAGE), True, False),
        (GroupReplayError("away", exit_code=ExitCode.CONNECTION), False, False),
        # The supervisor rides out outages: this one is a refused login.
        (GroupReplayError("the login is refused", exit_code=ExitCode.CONNECTION), True, True),
        (GroupReplayError("damaged", exit_code=ExitCode.DATA), False, True),
        (GroupReplayError("not authorised", exit_code=ExitCode.AUTHORISATION), False, True),
    ],
)
def test_what_ends_a_turn_and_what_ends_the_process(
    error: GroupReplayError, has_begun: bool, is_fatal: bool
) -> None:
    """After another run, and while no broker answers, it waits again; each turn reads the topic anew."""
    world = World([says("a", 50)])
    stop, opened, owners = StopRequest(), list[Any](), list[FormerJob | None]()
    stop.wait = lambda _: stop.made  # type: ignore[method-assign]

    def topic() -> JobTopic:
        reader = Reader(world)
        opened.append(reader)
        return cast("JobTopic", SimpleNamespace(
            last_messages=reader.last_messages, new_messages=reader.new_messages,
            is_read_to_end=reader.is_read_to_end, topic="t", tails=lambda: iter([world.log]), close=lambda: None,
        ))  # fmt: skip

    def run(owner: TopicOwner, history: JobHistory) -> None:
        owners.append(history.owner)
        if len(opened) == 2:
            stop.make(15)
            return
        owner.has_begun = has_begun
        world.log.append(says("a", 60))
        raise error

    turns = Turns(topic=topic, run=run, stop=stop, show=world.lines.append, clock=lambda: world.now)
    if is_fatal:
        with pytest.raises(GroupReplayError) as caught:
            turns.take()
        assert caught.value is error
        return
    turns.take()
    assert owners == [job("a", 50, is_reported=True), job("a", 60, is_reported=True)]
    assert [line.startswith((error.what, "cannot take over for now: away")) for line in world.lines] == [True]
