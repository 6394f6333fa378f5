"""Several jobs on one set of topics: exactly one goes on, and each of the others says which one that is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.messages import JOB_KEY, OWNER_KEY, STOPPED, JobDocument, OwnerClaim
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.run.topic_owner import TopicOwner
from groupreplay.streaming.sinks.job_topic import JobTopic
from support.job.jobs import Json, RunningJob, running_job, topic_names
from support.job.own_process import OwnJob, keep_session, run_until
from support.kafka.blank_brokers import blank_broker
from support.kafka.clients import commit_once, make_topics, produce
from support.kafka.waiting import wait_until
from support.remedies import read_remedy

pytestmark = pytest.mark.broker


def exit_code(job: RunningJob) -> int | None:
    """The exit code of a job that ends by itself."""
    wait_until(lambda: job.process.exit_code is not None, pause=0.5)
    return job.process.exit_code


def said(job: RunningJob) -> str:
    """What the job has printed, on one line, since messages are wrapped."""
    return " ".join(job.log.read_text().split())


@dataclass(frozen=True)
class Jobs:
    """Jobs on one set of topics of a broker with one group."""

    server: str
    topics: TopicNames
    folder: Path
    exit: ExitStack

    def start(self, name: str, *flags: str) -> RunningJob:
        """Starts a job of this name in a process of its own."""
        flags = ("--no-probe", *flags)
        return self.exit.enter_context(running_job(self.server, self.folder / name, self.topics, *flags))


@pytest.fixture
def jobs(tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Jobs]:
    """The broker, and no job yet."""
    with blank_broker() as broker, ExitStack() as stack:
        server = broker.bootstrap_servers
        make_topics(server, {"orders": 1})
        commit_once(server, "g")
        yield Jobs(server, topic_names(unique("owner")), tmp_path, stack)


@pytest.mark.spark
def test_one_job_a_set_of_topics(tmp_path: Path, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second job is refused, a third takes over.

    One story, because each chapter needs a job that runs; the first one runs in the process of the test.
    """
    keep_session(monkeypatch)
    owner: Json = {}
    others: list[RunningJob] = []

    def story(done: threading.Event) -> None:
        first = OwnJob(jobs.server, jobs.topics, done)
        first.wait_caught_up()
        owner.update(first.status())

        # A second job on a checkpoint of its own does not start, and leaves no trace there.
        second = jobs.start("second")
        assert exit_code(second) == 2
        assert f"another job writes to these topics: run {owner['run_id']} of job {owner['job_id']}" in said(
            second
        )
        assert f"host {owner['host']}, checkpoint file:{tmp_path}/first" in said(second)
        read_remedy("streaming.run.topic_owner: stop it, or give this job topics of its own", said(second))
        assert not (tmp_path / "second" / "groupreplay.json").exists()
        first.require_running()

        # A third one takes over: the first ends and names it, and nothing of it is written behind.
        others.append(jobs.start("third", "--take-over"))
        wait_until(lambda: done.is_set() or others[0].process.exit_code is not None)
        assert others[0].process.exit_code is None, others[0].process.tail()

    with pytest.raises(GroupReplayError) as ended:
        # Two jobs start beside it: it leaves them the time between its batches.
        run_until(jobs.server, tmp_path / "first", jobs.topics, story, trigger_seconds=2.0)
    (third,) = others
    third.wait_until(lambda: third.status()["run_id"] != owner["run_id"])
    assert f"another job has taken over these topics: run {third.status()['run_id']}" in str(ended.value)
    read_remedy("streaming.run.topic_owner: nothing, if that was intended", str(ended.value))
    assert ended.value.exit_code == 2
    third.wait_caught_up()
    assert third.documents().keys() == {"g"}


@pytest.mark.spark
@pytest.mark.long
def test_a_job_after_another_one(jobs: Jobs) -> None:
    """A killed one is continued at once on its checkpoint, and replaced after a while; a stopped one at once."""
    # Killed and started again on its checkpoint: the lock proves that the former run is dead.
    first = jobs.start("first")
    first.wait_caught_up()
    first.kill()
    first.restart()
    first.wait_caught_up()
    assert "waiting up to" not in said(first)

    # Killed, and another checkpoint: three heartbeats are waited for.
    first.kill()
    second = jobs.start("second")
    second.wait_caught_up()
    assert "waiting up to 10 s for a sign of run" in said(second)

    # A clean stop says so: the next one does not wait.
    assert second.stop() == 143
    assert second.status()["phase"] == "stopped"
    third = jobs.start("third")
    third.wait_caught_up()
    assert "waiting up to" not in said(third)
    assert third.stop() == 143


class Start:
    """A process that starts, on a real topic, with a clock that runs twenty times as fast."""

    def __init__(self, server: str, topic: str) -> None:
        self.topic = JobTopic(Connection(Cluster(bootstrap_servers=server)), topic, 1)
        self.lines: list[str] = []
        self.owner = TopicOwner(
            messages=self.topic,
            stop=StopRequest(),
            show=self.lines.append,
            clock=lambda: 20 * time.monotonic(),
        )


@pytest.mark.parametrize(
    ("phase", "lines"),
    [
        (
            "caught_up",
            ["waiting up to 10 s for a sign of run r of job j (host h, checkpoint file:/c, cluster k)"],
        ),
        (STOPPED, []),
    ],
)
def test_what_a_start_finds(
    broker: EmbeddedBroker, unique: Callable[[str], str], phase: str, lines: list[str]
) -> None:
    """A job that was killed is waited for, one that has stopped is not; afterwards the topics are free."""
    server, topic = broker.bootstrap_servers, unique("job")
    make_topics(server, {topic: 1})
    last = JobDocument(
        run_id="r", job_id="j", host="h", checkpoint="file:/c", cluster_id="k", phase=phase, heartbeat_ms=0,
        trigger_seconds=1,
    )  # fmt: skip
    produce(server, topic, [(JOB_KEY, msgspec.json.encode(last))])
    start = Start(server, topic)
    with closing(start.topic):
        began = start.owner.clock()
        start.owner.require_free()
        assert start.lines == lines
        assert phase == STOPPED or start.owner.clock() - began >= 10.0


def test_the_later_claim_in_the_topic_holds(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """Of two processes that have started, the first one reads that it is replaced; the second one goes on."""
    server, topic = broker.bootstrap_servers, unique("job")
    make_topics(server, {topic: 1})

    def write(claim: OwnerClaim) -> None:
        produce(server, topic, [(OWNER_KEY, msgspec.json.encode(claim))])

    first, second = Start(server, topic), Start(server, topic)
    with closing(first.topic), closing(second.topic):
        for one in (first, second):
            one.owner.require_free()
        runs = [one.owner.new_run() for one in (first, second)]
        first.owner.claim(OwnerClaim(run_id=runs[0], job_id="a"), write)
        assert first.owner.replaced() is None
        second.owner.claim(OwnerClaim(run_id=runs[1], job_id="b"), write)
        wait_until(lambda: first.owner.replaced() is not None)
        assert f"run {runs[1]} of job b" in str(first.owner.replaced())
        assert second.owner.replaced() is None
