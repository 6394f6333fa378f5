"""``run --once``: run after run on one checkpoint reports what one long run would have reported."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.jobs import (
    RunningJob,
    comparable,
    has_caught_up,
    last_batch,
    read_events,
    read_topic,
    running_job,
    topic_names,
)
from support.job.own_process import keep_session, run_here
from support.job.replays import event_name, replayed_topics
from support.kafka.clients import commit_once, make_topics
from support.kafka.waiting import T, wait_until
from support.ordeals.churn import ORDERS, PARTITIONS, churning
from support.ordeals.comparison import compare

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

MANY_RUNS = 10
#: The comparison may need some: a member that could not take its leave is removed later.
MOST_MORE_RUNS = 6
LAST_LINE = re.compile(
    r"single run: everything up to \S+ is read and evaluated, [\d,]+ records, [\d,]+ events;"
)
#: What a run says while it waits.
AWAY = "Kafka cannot be reached"


class SingleRuns(RunningJob):
    """Single runs one after the other; whoever waits for something waits for another run."""

    def __init__(self, server: str, checkpoint: Path, topics: TopicNames, *flags: str) -> None:
        super().__init__(server, checkpoint, topics, "--once", *flags)
        self.end_of_run()

    def _start(self) -> GuardedProcess:
        self.started_ms = now_ms()
        self.log.unlink(missing_ok=True)
        return super()._start()

    def end_of_run(self) -> None:
        """Waits for the end of the run, which ends by itself and has read what was there when it began."""
        wait_until(lambda: self.process.exit_code is not None, pause=0.2)
        assert self.process.exit_code == 0, self.process.tail(40)
        assert LAST_LINE.search(self.process.tail()), self.process.tail()
        assert has_caught_up(self.server, self.topics, self.started_ms)
        status = self.status()
        assert (status["phase"], status["once"], status["restarts"]) == ("stopped", True, 0)

    def run(self) -> None:
        """One run more."""
        self.restart()
        self.end_of_run()

    def wait_until(self, condition: Callable[[], T | None]) -> T:
        """Run after run until the condition holds."""
        for _ in range(MOST_MORE_RUNS):
            if found := condition():
                return found
            self.run()
        raise AssertionError(f"does not hold after {MOST_MORE_RUNS} runs: {condition}")

    def wait_caught_up(self) -> None:
        """A run that begins now has read all of before."""
        self.run()


@pytest.mark.line
def test_three_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run builds the state, the second one reports what came after it, the third one has nothing to do.

    The end of a deleted group is the last record of its partition: only the caught-up time proves that its operation is
    complete, in the call of a timer.
    """
    keep_session(monkeypatch)
    topics, checkpoint = topic_names("once"), tmp_path / "checkpoint"
    with EmbeddedBroker(offsets_partitions=2) as broker:
        server = broker.bootstrap_servers
        admin = make_topics(server, {"orders": 1})
        commit_once(server, "old")
        assert run_here(server, checkpoint, topics, once=True) == 0
        assert read_events(server, topics) == {}
        commit_once(server, "new")
        for deleted in admin.delete_consumer_groups(["old"]).values():
            deleted.result()
        assert run_here(server, checkpoint, topics, once=True) == 0
        events = read_events(server, topics)
        found = {(event_name(one), one["data"]["group_id"]) for one in events.values()}
        assert {("group.created", "new"), ("group.deleted", "old")} <= found
        # A replay does not know that the log was complete: a commit alone does not show that its group is new.
        assert {name: one for name, one in events.items() if event_name(one) != "group.created"} == {
            one["id"]: comparable(one) for one in replayed_topics(server, topics.probes)
        }
        written = [len(read_topic(server, name)) for name in (topics.events, topics.states)]
        batches = last_batch(checkpoint)
        assert run_here(server, checkpoint, topics, once=True) == 0
        assert [len(read_topic(server, name)) for name in (topics.events, topics.states)] == written
        assert last_batch(checkpoint) > batches


@pytest.mark.timeout(3_600)
def test_many_runs_over_a_churning_log(tmp_path: Path) -> None:
    """Runs at random moments while groups come and go: 0 lost, 0 wrong, and nothing under two ids."""
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")  # noqa: T201
    moments, topics = random.Random(seed), topic_names("once")
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {ORDERS: 4})
        # What happened before the first run would not be reported.
        job = SingleRuns(server, tmp_path / "checkpoint", topics, "--member-events")
        with churning(server, seed):
            for number in range(MANY_RUNS):
                time.sleep(moments.uniform(0, 10))  # the moment is what is random here; nothing waits for it
                begun = time.monotonic()
                job.run()
                print(f"run {number}: {time.monotonic() - begun:.1f} s, {len(job.events())} events")  # noqa: T201
        compare(job)


@contextmanager
def between_two_groups(folder: Path) -> Iterator[tuple[EmbeddedBroker, SingleRuns]]:
    """A job whose runs have reported one group; after the block another one commits, and a run reports it, too."""
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {ORDERS: 4})
        job = SingleRuns(server, folder / "checkpoint", topic_names("once"))
        commit_once(server, "before")
        yield broker, job
        commit_once(server, "after")
        job.run()
        found = [(event_name(one), one["data"]["group_id"]) for one in job.events().values()]
        assert sorted(found) == [("group.created", "after"), ("group.created", "before")]


@contextmanager
def limited(job: SingleRuns, trigger_seconds: int) -> Iterator[RunningJob]:
    """A run that has written a batch; it evaluates deadlines for at least one trigger, and goes on for that long."""
    batches, flags = last_batch(job.checkpoint), ("--once", "--trigger", str(trigger_seconds))
    with running_job(job.server, job.checkpoint, job.topics, *flags) as run:
        run.wait_until(lambda: last_batch(job.checkpoint) > batches)
        yield run


def test_a_run_that_is_terminated(tmp_path: Path) -> None:
    """A scheduler's limit (SIGTERM) ends it with 143 before it is done, and the next run continues: nothing is lost."""
    with between_two_groups(tmp_path) as (_, job), limited(job, 600) as run:
        assert run.stop() == 143
        # Only the run before it has written its last line into the log of both.
        assert run.log.read_text().count("single run:") == 1


def test_a_run_whose_broker_goes_away(tmp_path: Path) -> None:
    """It waits for the broker and says so, then does the rest and ends with 0; stopped while it waits, with 143."""
    with between_two_groups(tmp_path) as (broker, job):
        for ends_by_itself in (True, False):
            said = job.log.read_text().count(AWAY)
            with limited(job, 60) as run:
                broker.stop()
                run.wait_until(lambda run=run, said=said: run.log.read_text().count(AWAY) > said)
                if ends_by_itself:
                    broker.start()
                    wait_until(lambda run=run: run.process.exit_code is not None, pause=0.2)
                    assert run.process.exit_code == 0, run.process.tail(40)
                    assert LAST_LINE.search(run.process.tail())
                    status = run.status()
                    assert (status["phase"], status["once"]) == ("stopped", True)
                else:
                    assert run.stop() == 143
                    broker.start()
