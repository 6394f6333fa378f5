"""Two jobs that stand by for each other: whichever is killed, the other goes on, and nothing is lost or wrong."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.messages import (
    JOB_KEY,
    OWNER_KEY,
    STOPPED,
    JobDocument,
    OwnerClaim,
    decode_run_message,
)
from groupreplay.streaming.contract.probe_messages import HeartbeatMessage, decode_message
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.output_topics import ensure_topics
from groupreplay.streaming.kafka.topic_reader import read_messages
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.jobs import RunningJob, has_caught_up, read_events, topic_names
from support.job.own_process import keep_session, run_until
from support.kafka.blank_brokers import blank_broker
from support.kafka.clients import commit_once, make_topics, produce
from support.kafka.waiting import wait_until
from support.ordeals.churn import ORDERS, PARTITIONS, churning
from support.ordeals.comparison import compare
from support.ordeals.ordeal import in_session

pytestmark = [pytest.mark.broker, pytest.mark.spark]

#: GROUPREPLAY_KILLS makes it fewer.
KILLS = int(os.environ.get("GROUPREPLAY_KILLS", "20"))


class Stamped(NamedTuple):
    """One message with the time when the broker appended it."""

    append_ms: int
    key: bytes | None
    value: bytes | None


def stamped(server: str, topic: str) -> list[Stamped]:
    """Everything that is in a topic of one partition."""
    connection = Connection(Cluster(bootstrap_servers=server))
    ends = connection.end_offsets(topic, 1)
    return [
        Stamped(*row)
        for batch in read_messages(connection, topic, {0: 0}, ends)
        for row in zip(*(batch[name].to_pylist() for name in ("timestamp", "key", "value")), strict=True)
    ]


class Twin(RunningJob):
    """One of two jobs that are started alike, with a log of its own."""

    def __init__(self, name: str, server: str, checkpoint: Path, topics: TopicNames, *flags: str) -> None:
        self._name = name
        super().__init__(server, checkpoint, topics, "--standby", "--member-events", *flags)

    def _start(self) -> GuardedProcess:
        self.log = self.checkpoint.with_name(f"{self._name}.log")
        return super()._start()

    def restart(self) -> None:
        """Starts it again; its log begins anew."""
        self.log.unlink(missing_ok=True)
        super().restart()

    def wait_standing_by(self) -> None:
        """Waits until it is warm and waits for the other."""
        self.wait_until(lambda: "standing by, waiting for the end of" in self.log.read_text())

    def killed(self, kind: str) -> int:
        """Kills the driver, its JVM or all its processes; the time."""
        victims = {
            "driver": lambda: [self.process.pid],
            "jvm": lambda: in_session(self, "java"),
            "session": lambda: [self.process.pid, *in_session(self, "")],
        }[kind]()
        at_ms = time.time_ns() // 1_000_000
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.process.exit_code is not None)
        return at_ms


class Pair:
    """Two jobs; the first of ``jobs`` is the one that works."""

    def __init__(self, server: str, topics: TopicNames, jobs: Sequence[Twin]) -> None:
        self._server, self._topics, self._jobs = server, topics, list(jobs)
        self.kills: list[str] = []
        self.to_claim: list[int] = []
        self.to_event: list[int] = []

    @property
    def owner(self) -> Twin:
        """The one that works."""
        return self._jobs[0]

    def claims(self) -> list[tuple[int, OwnerClaim]]:
        """All claims with the times of their messages."""
        found = [(one.append_ms, decode_run_message(one.key, one.value)) for one in self._job_messages()]
        return [(at_ms, one) for at_ms, one in found if isinstance(one, OwnerClaim)]

    def _job_messages(self) -> list[Stamped]:
        return stamped(self._server, self._topics.job)

    def lose(self, kind: str) -> None:
        """Kills the one that works; the other goes on, and the killed one stands by for it."""
        before = len(self.claims())
        killed_ms = self.owner.killed(kind)
        self.kills.append(kind)
        self._jobs.reverse()
        self.owner.wait_until(lambda: len(self.claims()) > before)
        claimed_ms, _ = self.claims()[before]
        self.owner.wait_until(lambda: self._events_after(claimed_ms))
        self.to_claim.append(claimed_ms - killed_ms)
        self.to_event.append(self._events_after(claimed_ms)[0] - killed_ms)
        print(f"{kind}: claim after {self.to_claim[-1]} ms, first event after {self.to_event[-1]} ms")  # noqa: T201
        self._jobs[1].restart()
        self._jobs[1].wait_standing_by()
        self.owner.wait_caught_up()

    def _events_after(self, at_ms: int) -> list[int]:
        return [one.append_ms for one in stamped(self._server, self._topics.events) if one.append_ms > at_ms]

    def require_one_writer(self) -> None:
        """After a claim nothing of another run is in the topics; no run speaks after it has said that it stopped."""
        claimed = [claim.run_id for _, claim in self.claims()]
        assert len(claimed) == 1 + len(self.kills)
        documents = [decode_run_message(one.key, one.value) for one in self._job_messages()]
        beats = [decode_message(one.key, one.value) for one in stamped(self._server, self._topics.probes)]
        assert strangers([one.run_id for one in documents if one], claimed) == []
        assert strangers([one.run_id for one in beats if isinstance(one, HeartbeatMessage)], claimed) == []
        stopped = [one.run_id for one in documents if isinstance(one, JobDocument) and one.phase == STOPPED]
        last = {one.run_id: one for one in documents if one}
        assert [run for run in stopped if getattr(last[run], "phase", None) != STOPPED] == []


def strangers(runs: Sequence[str], claimed: Sequence[str]) -> list[tuple[int, str]]:
    """Messages, by number and run, of a run that has not claimed last."""
    found, last = [], 0
    for number, run in enumerate(runs):
        place = claimed.index(run) if run in claimed else -1
        last = max(last, place)
        if place != last:
            found.append((number, run))
    return found


@pytest.mark.parametrize(
    ("runs", "found"),
    [("aabbc", []), ("aababc", [(3, "a")]), ("aaxb", [(2, "x")]), ("aabaa", [(3, "a"), (4, "a")])],
)
def test_words_of_another_run_are_found(runs: str, found: list[tuple[int, str]]) -> None:
    """A run that speaks after its successor, or without a claim, is found."""
    assert strangers([*runs], [*"abc"]) == found


class OtherJob:
    """A job elsewhere, as its messages in ``group-job`` show it."""

    def __init__(self, server: str, topics: TopicNames) -> None:
        connection = Connection(Cluster(bootstrap_servers=server))
        ensure_topics(connection, topics)
        log = connection.identify(OFFSETS_TOPIC)
        self._server, self._topic = server, topics.job
        self._identity = {"cluster_id": log.cluster_id, "era": log.era, "job_id": "elsewhere"}

    def claim(self, run_id: str) -> None:
        """It takes over."""
        self._write(OWNER_KEY, OwnerClaim(run_id=run_id, first_start_ms=7, **self._identity))

    def says(self, run_id: str, caught_up_ms: int, phase: str = "caught_up") -> None:
        """It writes its document."""
        document = JobDocument(
            run_id=run_id,
            first_start_ms=7,
            phase=phase,
            # It has emitted what lies before the time that is given here.
            caught_up_ms=caught_up_ms + 10_000,
            heartbeat_ms=caught_up_ms,
            trigger_seconds=1,
            **self._identity,  # type: ignore[arg-type]
        )
        self._write(JOB_KEY, document)

    def _write(self, key: bytes, value: OwnerClaim | JobDocument) -> None:
        produce(self._server, self._topic, [(key, msgspec.json.encode(value))])

    def has_ended(self) -> bool:
        """Whether the last message of the others says that they have stopped."""
        found = [decode_run_message(one.key, one.value) for one in stamped(self._server, self._topic)]
        theirs = [one for one in found if one is not None and one.job_id != "elsewhere"]
        return isinstance(theirs[-1], JobDocument) and theirs[-1].phase == STOPPED

    def own_claims(self) -> list[OwnerClaim]:
        """The claims of all others."""
        found = [decode_run_message(one.key, one.value) for one in stamped(self._server, self._topic)]
        return [one for one in found if isinstance(one, OwnerClaim) and one.job_id != "elsewhere"]


def test_two_turns_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits, goes on where the other job ends, waits again when that has claimed the topics, and goes on again.

    Events that the other one has emitted are not emitted again, and all that follow are.
    """
    keep_session(monkeypatch)
    topics = topic_names("turns")
    with blank_broker() as broker:
        server = broker.bootstrap_servers
        make_topics(server, {"orders": 1})
        other = OtherJob(server, topics)
        times: list[int] = []

        def commit(group: str) -> int:
            """A new group; the time after its first commit, and before whatever is done next."""
            commit_once(server, group)
            times.append(now_ms() + 1)
            wait_until(lambda: now_ms() > times[-1])
            return times[-1]

        def turn(done: threading.Event, number: int) -> None:
            wait_until(lambda: done.is_set() or len(other.own_claims()) == number)
            after_ms = now_ms()
            wait_until(lambda: done.is_set() or has_caught_up(server, topics, after_ms))

        def story(done: threading.Event) -> None:
            for _ in range(6):
                other.says("r1", told_ms)
                done.wait(0.5)
            assert other.own_claims() == []
            commit("left")
            other.says("r1", told_ms, STOPPED)
            turn(done, 1)
            other.claim("r2")
            # What it wrote until it had read the claim counts as its own.
            wait_until(lambda: done.is_set() or other.has_ended())
            # Its own documents end, and it writes no other claim as long as this one lives.
            for _ in range(6):
                other.says("r2", told_ms)
                done.wait(0.5)
            assert len(other.own_claims()) == 1
            told_by_other_ms = commit("told by r2")
            other.says("r2", told_by_other_ms, STOPPED)
            commit("left by r2")
            turn(done, 2)

        told_ms = commit("told by r1")
        run_until(server, tmp_path / "checkpoint", topics, story, standby=True)
        first, second = other.own_claims()
        assert (first.first_start_ms, second.first_start_ms) == (told_ms, times[2])
        assert (first.job_id, first.era) == (second.job_id, second.era)
        # One for each turn behind the first start, which may be over before the job has read that r1 is at work.
        anew = sorted(path.name for path in (tmp_path / "checkpoint").glob("anew-*"))
        assert anew in (["anew-1"], ["anew-1", "anew-2"])
        created = [
            one["data"]["group_id"]
            for one in read_events(server, topics).values()
            if "created" in one["type"]
        ]
        assert sorted(created) == ["left", "left by r2"]


def survives(folder: Path, checkpoints: Sequence[str], kills: Sequence[str], seed: int) -> None:
    """Two jobs on these checkpoints take turns while groups come and go; what they said is compared with a replay."""
    print(f"seed {seed}")  # noqa: T201
    topics = topic_names("standby")
    moments = random.Random(seed)
    with blank_broker(PARTITIONS) as broker, ExitStack() as stack:
        server = broker.bootstrap_servers
        make_topics(server, {ORDERS: 4})
        jobs = []
        for number, name in enumerate(checkpoints):
            checkpoint = folder / name
            twin = Twin(f"twin-{number}", server, checkpoint, topics)
            stack.callback(lambda twin=twin: twin.process.end(0))
            jobs.append(twin)
            # The first one works before the second one starts.
            if number:
                twin.wait_standing_by()
            else:
                twin.wait_caught_up()
        pair = Pair(server, topics, jobs)
        with churning(server, seed):
            for kind in kills:
                time.sleep(moments.uniform(0, 3))  # the moment is what is random here; nothing waits for it
                pair.lose(kind)
        compare(pair.owner)
        pair.require_one_writer()
        print(f"to the claim {sorted(pair.to_claim)}, to the first event {sorted(pair.to_event)}")  # noqa: T201


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("checkpoints", [("shared", "shared"), ("one", "two")], ids=["shared", "own"])
def test_two_jobs_take_turns(tmp_path: Path, checkpoints: Sequence[str]) -> None:
    """Killed twenty times in turn, by the driver, the JVM or all processes: 0 lost, 0 wrong, one writer."""
    kills = (["driver", "jvm", "session"] * KILLS)[:KILLS]
    survives(tmp_path, checkpoints, kills, random.randrange(1_000_000))
