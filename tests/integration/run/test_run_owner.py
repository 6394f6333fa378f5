"""Several jobs on one set of topics: exactly one goes on, and each of the others says which one that is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec
import pytest

from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.job_document import JOB_KEY, OWNER_KEY, STOPPED, JobDocument, OwnerClaim
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.run.topic_owner import TopicOwner
from groupreplay.streaming.sinks.job_topic import JobTopic
from support.job.jobs import PATIENCE_SECONDS, RunningJob, running_job, topic_names
from support.kafka.clients import commit_once, make_topics, produce
from support.kafka.waiting import wait_until
from support.remedies import read_remedy

pytestmark = [pytest.mark.broker, pytest.mark.timeout(900)]


def exit_code(job: RunningJob) -> int | None:
    """The exit code of a job that ends by itself."""
    wait_until(lambda: job.process.exit_code is not None, PATIENCE_SECONDS, pause=0.5)
    return job.process.exit_code


def said(job: RunningJob) -> str:
    """What the job has printed, on one line, since messages are wrapped."""
    return " ".join(job.log.read_text().split())


@pytest.fixture
def jobs(tmp_path: Path, unique: Callable[[str], str]) -> Iterator[Callable[..., RunningJob]]:
    """Starts a job of this name, with flags, on one set of topics of a broker with one group."""
    topics = topic_names(unique("owner"))
    with EmbeddedBroker(offsets_partitions=2) as broker, ExitStack() as stack:
        server = broker.bootstrap_servers
        make_topics(server, {"orders": 1})
        commit_once(server, "g")

        def job(name: str, *flags: str) -> RunningJob:
            return stack.enter_context(running_job(server, tmp_path / name, topics, "--no-probe", *flags))

        yield job


@pytest.mark.spark
def test_one_job_a_set_of_topics(tmp_path: Path, jobs: Callable[..., RunningJob]) -> None:
    """A second job is refused, a third takes over.

    One story, because each chapter needs a job that runs.
    """
    first = jobs("first")
    first.wait_caught_up()
    owner = first.status()

    # A second job on a checkpoint of its own does not start, and leaves no trace there.
    second = jobs("second")
    assert exit_code(second) == 2
    assert f"another job writes to these topics: run {owner['run_id']} of job {owner['job_id']}" in said(
        second
    )
    assert f"host {owner['host']}, checkpoint file:{tmp_path}/first" in said(second)
    read_remedy("streaming.run.topic_owner: stop it, or give this job topics of its own", said(second))
    assert not (tmp_path / "second" / "groupreplay.json").exists()
    assert first.process.exit_code is None

    # A third one takes over: the first ends and names it, and nothing of it is written behind.
    third = jobs("third", "--take-over")
    assert exit_code(first) == 2
    third.wait_until(lambda: third.status()["run_id"] != owner["run_id"])
    assert f"another job has taken over these topics: run {third.status()['run_id']}" in said(first)
    read_remedy("streaming.run.topic_owner: nothing, if that was intended", said(first))
    third.wait_caught_up()
    assert third.documents().keys() == {"g"}


@pytest.mark.spark
@pytest.mark.long
def test_a_job_after_another_one(jobs: Callable[..., RunningJob]) -> None:
    """A killed one is continued at once on its checkpoint, and replaced after a while; a stopped one at once."""
    # Killed and started again on its checkpoint: the lock proves that the former run is dead.
    first = jobs("first")
    first.wait_caught_up()
    first.kill()
    first.restart()
    first.wait_caught_up()
    assert "waiting up to" not in said(first)

    # Killed, and another checkpoint: three heartbeats are waited for.
    first.kill()
    second = jobs("second")
    second.wait_caught_up()
    assert "waiting up to 10 s for a sign of run" in said(second)

    # A clean stop says so: the next one does not wait.
    assert second.stop() == 143
    assert second.status()["phase"] == "stopped"
    third = jobs("third")
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
