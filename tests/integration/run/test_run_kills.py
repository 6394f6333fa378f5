"""The job, its workers and the broker killed at random moments, while real groups come and go.

What stands in the sink in the end is held against a replay of the two topics: nothing is lost, nothing is wrong,
and what was said twice was said in the same words.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.histories.builders import Raw, asked_for, commit, emptied, generation, gone, member, no_offset
from support.job.jobs import (
    Json,
    RunningJob,
    comparable,
    interleaved,
    last_batch,
    read_topic,
    running_job,
    topic_names,
    write_log,
)
from support.job.replays import replayed_topics
from support.kafka.clients import make_topics, new_consumer
from support.kafka.waiting import in_background, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PARTITIONS = 4
ORDERS = "orders"
#: Name of a group -> protocol of its members.
GROUPS = {"classic-0": "classic", "classic-1": "classic", "modern-0": "consumer", "modern-1": "consumer"}
MOST_MEMBERS = 6
TURN_SECONDS = 0.3
PATIENCE_SECONDS = 300.0
MANY_KILLS = 51
OUTAGE_SECONDS = 60.0


class Churn:
    """Groups that are never at rest: members join, commit and leave, and short lives are written into the log."""

    def __init__(self, server: str, seed: int) -> None:
        self._server, self._random = server, random.Random(seed)
        self._members: list[Consumer] = []
        self._lives = 0

    def turn(self) -> None:
        """One thing more happens."""
        for consumer in self._members:
            consumer.poll(0)
        self._random.choice([self._join, self._leave, self._commit, self._commit, self._live])()

    def end(self) -> None:
        """Everybody leaves."""
        while self._members:
            self._members.pop().close()

    def _join(self) -> None:
        if len(self._members) == MOST_MEMBERS:
            return
        group = self._random.choice(sorted(GROUPS))
        more = {"session_timeout_ms": 6_000} if GROUPS[group] == "classic" else {}
        self._members.append(new_consumer(self._server, group, ORDERS, group_protocol=GROUPS[group], **more))

    def _leave(self) -> None:
        if self._members:
            self._members.pop(self._random.randrange(len(self._members))).close()

    def _commit(self) -> None:
        for consumer in self._members:
            owned = consumer.assignment()
            if owned:
                offset = self._random.randrange(1_000)
                consumer.commit(offsets=[TopicPartition(ORDERS, owned[0].partition, offset)])

    def _live(self) -> None:
        self._lives += 1
        life = {f"written-{self._lives}": written_life()}
        with suppress(
            KafkaException, AssertionError
        ):  # the broker was killed over it: what counts is the log
            write_log(self._server, interleaved(life, PARTITIONS, time.time_ns() // 1_000_000), PARTITIONS)


def written_life() -> list[Raw]:
    """A group of two generations that is deleted with its offsets in one operation."""
    one, two = member("one", [0]), member("two", [1])
    lived = [asked_for(at=0), generation(1, one, at=1), generation(2, one, two, at=5)]
    lived += [commit("t", part, 7, at=10 + part) for part in range(2)]
    ended = [no_offset("t", part, at=30) for part in range(2)]
    return [*lived, emptied(3, at=20), *ended, gone(at=30)]


@contextmanager
def churning(server: str, seed: int) -> Iterator[None]:
    """Churn in the background, until the block ends."""
    churn = Churn(server, seed)

    def run(done: threading.Event) -> None:
        while not done.wait(TURN_SECONDS):
            churn.turn()
        churn.end()

    with in_background(run, PATIENCE_SECONDS):
        yield


class Ordeal:
    """A job, a broker, and what may be done to them at a random moment."""

    def __init__(self, job: RunningJob, broker: EmbeddedBroker, seed: int) -> None:
        self._job, self._broker, self._random = job, broker, random.Random(seed)
        self._kinds: dict[str, Callable[[], None]] = {
            "driver": self._kill_driver,
            "worker": self._kill_worker,
            "prober": self._kill_prober,
            "broker": self._kill_broker,
        }

    def undergo(self, kills: Sequence[str]) -> None:
        """One kill after the other, each at a random moment after the batch that shows the job alive again."""
        start = time.monotonic()
        for number, kind in enumerate(kills, 1):
            self._wait_for_a_batch()
            time.sleep(self._random.uniform(0, 2))  # the moment is what is random here; nothing waits for it
            print(f"{time.monotonic() - start:.0f} s, kill {number}: {kind}")  # noqa: T201
            self._kinds[kind]()
        self._wait_for_a_batch()

    def _wait_for_a_batch(self) -> None:
        before = last_batch(self._job.checkpoint)

        def finished() -> bool:
            assert self._job.process.exit_code is None, f"the job has ended:\n{self._job.process.tail(40)}"
            return last_batch(self._job.checkpoint) > before

        wait_until(finished, PATIENCE_SECONDS)

    def _kill_driver(self) -> None:
        """Python and JVM at once, or one of them: the other has to end by itself."""
        jvm, prober = in_session(self._job, "java"), self._job.prober()
        victims = self._random.choice([[self._job.process.pid], jvm, [self._job.process.pid, *jvm]])
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self._job.process.exit_code is not None, PATIENCE_SECONDS)
        assert self._job.process.exit_code == (1 if victims == jvm else -signal.SIGKILL)
        assert victims != jvm or "the JVM of Spark has ended" in self._job.process.tail()
        wait_until(lambda: not psutil.pid_exists(prober), PATIENCE_SECONDS)
        self._job.restart()

    def _kill_prober(self) -> None:
        """As the kernel does, or as librdkafka does (its issue 4605)."""
        with suppress(ProcessLookupError):
            os.kill(self._job.prober(), self._random.choice([signal.SIGKILL, signal.SIGABRT]))

    def _kill_worker(self) -> None:
        """One of Spark's Python processes: a worker, or the one that they are forked from."""
        workers: list[int] = []
        wait_until(lambda: workers.extend(in_session(self._job, "python")) or workers, PATIENCE_SECONDS)
        with suppress(ProcessLookupError):  # it may have ended by itself meanwhile
            os.kill(self._random.choice(workers), signal.SIGKILL)

    def _kill_broker(self) -> None:
        """As in a power cut; the next start waits until the dead one's session has run out."""
        self._broker.kill()
        self._broker.start()


def in_session(job: RunningJob, name: str) -> list[int]:
    """The processes that the job has started whose program is called so.

    Workers outlive the process that they were forked from, and go on working: they are nobody's children then.
    """
    found = []
    for process in psutil.process_iter(["name"]):
        with suppress(ProcessLookupError):
            if name in process.info["name"] and os.getsid(process.pid) == job.process.pid:
                found.append(process.pid)
    return sorted(set(found) - {job.process.pid})


def replayed(job: RunningJob) -> dict[str, Json]:
    """What ``replay`` says of the two topics, by id."""
    events = replayed_topics(job.server, job.topics.probes, "--member-events")
    return {event["id"]: comparable(event) for event in events}


def said_of_groups(job: RunningJob, expected: dict[str, Json]) -> dict[str, Json]:
    """What the job said, but for what it said about itself; repeats were compared.

    A condition that was said more than a minute late is said again, as it is by then, which no replay does.
    """
    fired = {("firing", event["data"].get("condition_id")) for event in expected.values()}

    def again(event: Json) -> bool:
        return (event["data"].get("status"), event["data"].get("condition_id")) in fired

    return {
        name: event
        for name, event in job.events().items()
        if ".job." not in event["type"] and (name in expected or not again(event))
    }


@contextmanager
def besieged(folder: Path, seed: int) -> Iterator[tuple[RunningJob, EmbeddedBroker]]:
    """A job among churning groups; when the block ends and all is quiet again, its events are compared."""
    print(f"seed {seed}")  # noqa: T201
    topics = topic_names("kills")
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {ORDERS: 4})
        # What happened before the first start would not be said.
        with running_job(server, folder / "checkpoint", topics, "--member-events") as job:
            job.wait_until(lambda: last_batch(job.checkpoint) >= 0)
            with churning(server, seed):
                yield job, broker
            compare(job)


def survives(folder: Path, kills: Sequence[str], seed: int) -> None:
    """Undergoes these kills, then compares."""
    with besieged(folder, seed) as (job, broker):
        Ordeal(job, broker, seed).undergo(kills)


def compare(job: RunningJob) -> None:
    """The events of the job are those of the replay, once nothing happens any more.

    A member that could not take its leave, because the broker was away, is thrown out much later.
    """
    expected: dict[str, Json] = {}
    said: dict[str, Json] = {}
    job.wait_caught_up()

    def same() -> bool:
        expected.clear(), expected.update(replayed(job))
        said.clear(), said.update(said_of_groups(job, expected))
        return said.keys() == expected.keys()

    with suppress(AssertionError):  # what differs is shown below
        job.wait_until(same)
    assert said == expected
    names = {event["data"]["group_id"] for event in expected.values()}
    assert any(name.startswith("written") for name in names), "nothing was written into the log"
    assert names & GROUPS.keys(), "no group has lived"
    repeats = len(read_topic(job.server, job.topics.events)) - len(job.events())
    print(f"{len(expected)} events of {len(names)} groups, {repeats} said twice")  # noqa: T201


@pytest.mark.timeout(900)
def test_one_kill_of_each_kind(tmp_path: Path) -> None:
    """A worker, the prober, the driver, the broker: no event is lost, none is wrong."""
    survives(tmp_path, ["worker", "prober", "driver", "broker"], random.randrange(1_000_000))


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_many_kills(tmp_path: Path) -> None:
    """The same many times, in any order."""
    seed = random.randrange(1_000_000)
    kinds = ["driver", "worker", "worker", "prober", "broker"]
    survives(tmp_path, random.Random(seed).choices(kinds, k=MANY_KILLS), seed)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_an_outage_of_a_minute(tmp_path: Path) -> None:
    """The same process goes on as soon as the broker is back; how soon is printed."""
    with besieged(tmp_path, random.randrange(1_000_000)) as (job, broker):
        job.wait_caught_up()
        pid = job.process.pid
        broker.stop()
        time.sleep(OUTAGE_SECONDS)  # what is tested is an outage of this length
        broker.start()
        back_ms = time.time_ns() // 1_000_000
        job.wait_caught_up()
        print(f"caught up {time.time_ns() // 1_000_000 - back_ms} ms after the broker was back")  # noqa: T201
        assert (job.process.pid, job.process.exit_code) == (pid, None)
