"""The job with a checkpoint on S3: Hadoop's own client against a server that speaks its protocol.

Nothing locks such a checkpoint. What keeps a second job out is the claim in the topic of the job, and the identity in
the checkpoint.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.jars import jar_paths
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.jobs import RunningJob, topic_flags, topic_names
from support.kafka.clients import commit_once, make_topics
from support.kafka.waiting import wait_until
from support.ordeals.churn import ORDERS, PARTITIONS, churning
from support.ordeals.comparison import compare
from support.ordeals.ordeal import in_session
from support.spark_cluster.s3_server import S3Server, s3_jars, s3_server

#: More than all waits of a test together: each has a deadline of its own, and a start on S3 takes minutes under load.
pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(7_200)]

#: Writes a file where it belongs and breaks off the upload if it must not appear. Without it Spark writes every file
#: under another name and renames it, which on S3 is a copy and a deletion.
ABORTABLE = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.internal.io.cloud."
    "AbortableStreamBasedCheckpointFileManager"
}

#: Hadoop's client tries each request again for minutes; here an outage shall be noticed sooner.
IMPATIENT = {
    "spark.hadoop.fs.s3a.attempts.maximum": "1",
    "spark.hadoop.fs.s3a.retry.limit": "1",
    "spark.hadoop.fs.s3a.connection.establish.timeout": "5s",
}


class S3Job(RunningJob):
    """``groupreplay run`` with its checkpoint on S3; ``checkpoint`` names its log only."""

    def __init__(
        self, s3: S3Server, server: str, name: Path, topics: TopicNames, *flags: str, conf: dict[str, str]
    ) -> None:
        self._s3, self._conf = s3, conf
        super().__init__(server, name, topics, *flags)

    def _start(self) -> GuardedProcess:
        of_s3 = s3_jars(manager=ABORTABLE.items() <= self._conf.items())
        jars = ",".join(map(str, [*jar_paths("spark-connector"), *of_s3]))
        conf = {"spark.jars": jars, **self._s3.conf(), **self._conf}
        command = [sys.executable, "-m", "groupreplay", "run", "--bootstrap-server", self.server]
        command += ["--checkpoint", self._s3.location("checkpoint"), "--master", "local[2,4]"]
        command += ["--shuffle-partitions", "2", "--trigger", "1", *topic_flags(self.topics), *self.flags]
        command += [word for name, value in conf.items() for word in ("--spark-conf", f"{name}={value}")]
        return GuardedProcess(command, self.log)

    def said(self) -> str:
        """What it has printed, on one line, since messages are wrapped."""
        return " ".join(self.log.read_text().split())

    def kill_all(self) -> None:
        """Python and the JVM at once, as when the machine fails."""
        for pid in [self.process.pid, *in_session(self, "java")]:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.process.exit_code is not None)

    def ended(self) -> int | None:
        """The exit code of a job that ends by itself."""
        wait_until(lambda: self.process.exit_code is not None, pause=0.5)
        return self.process.exit_code


@pytest.fixture
def s3(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[S3Server]:
    """A server of this test, of the kind that the test names."""
    with s3_server(request.param, tmp_path) as running:
        yield running


#: Spark's manager for object stores, where there is one for this Spark, and the one that renames each file.
on_a_gateway = pytest.mark.parametrize(
    ("s3", "conf"), [("gateway", ABORTABLE), ("gateway", {})], indirect=["s3"], ids=["abortable", "renamed"]
)


@pytest.mark.parametrize(
    ("s3", "conf"),
    [("gateway", ABORTABLE), ("gateway", {}), ("in-memory", ABORTABLE)],
    indirect=["s3"],
    ids=["gateway-abortable", "gateway-renamed", "in-memory"],
)
def test_kills_on_s3(s3: S3Server, tmp_path: Path, conf: dict[str, str]) -> None:
    """A job that is killed and started again goes on from S3: no event is lost, none is wrong."""
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")  # noqa: T201
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {ORDERS: 4})
        job = S3Job(s3, server, tmp_path / "job", topic_names("s3"), "--member-events", conf=conf)
        try:
            job.wait_caught_up()
            with churning(server, seed):
                for _ in range(2):
                    job.wait_caught_up()
                    job.kill_all()
                    job.restart()
                job.wait_caught_up()
                assert job.stop() == 143
                job.restart()
                job.wait_caught_up()
            compare(job)
            assert "cannot be locked: only the claim of the topics keeps a second job out" in job.said()
        finally:
            job.process.end(0)


@on_a_gateway
def test_an_outage_of_s3(s3: S3Server, tmp_path: Path, conf: dict[str, str]) -> None:
    """A job whose checkpoint is away waits in the same process, and then goes on; nothing is lost.

    A start cannot know whether a job has ever run on it: it ends as for a cluster that is away.
    """
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {ORDERS: 4})
        job = S3Job(
            s3,
            server,
            tmp_path / "job",
            topic_names("s3"),
            "--member-events",
            conf={**conf, **IMPATIENT},
        )
        try:
            job.wait_caught_up()
            with churning(server, 1):
                job.wait_caught_up()
                pid = job.process.pid
                s3.stop()
                job.wait_until(lambda: "the checkpoint cannot be" in job.said())
                s3.start()
                job.wait_caught_up()
                assert job.process.pid == pid

                job.kill_all()
                s3.stop()
                job.log.unlink()
                job.restart()
                assert job.ended() == 3
                assert "the checkpoint cannot be read" in job.said()
                s3.start()
                job.restart()
                job.wait_caught_up()
            compare(job)
        finally:
            job.process.end(0)


@on_a_gateway
def test_two_jobs_on_one_checkpoint(s3: S3Server, tmp_path: Path, conf: dict[str, str]) -> None:
    """A second job is refused by the first one's claim of the topics, with other topics by the checkpoint's identity.

    With ``--take-over`` the first one ends. One story, because each chapter needs a job that runs.
    """
    topics, others = topic_names("one"), topic_names("two")
    with EmbeddedBroker(offsets_partitions=2) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {ORDERS: 1})
        commit_once(server, "g")
        jobs: list[S3Job] = []

        def start(name: str, topics: TopicNames, *flags: str) -> S3Job:
            jobs.append(S3Job(s3, server, tmp_path / name, topics, "--no-probe", *flags, conf=conf))
            return jobs[-1]

        try:
            first = start("first", topics)
            first.wait_caught_up()
            run = first.status()["run_id"]
            second, elsewhere = start("second", topics), start("elsewhere", others)
            assert second.ended() == 2
            assert f"another job writes to these topics: run {run}" in second.said()
            assert elsewhere.ended() == 2
            assert "the checkpoint reads its heartbeats elsewhere" in elsewhere.said()
            first.wait_caught_up()
            assert first.status()["run_id"] == run

            third = start("third", topics, "--take-over")
            assert first.ended() == 2
            assert "another job has taken over these topics" in first.said()
            third.wait_until(lambda: third.status()["run_id"] != run)
            third.wait_caught_up()
            assert third.documents().keys() == {"g"}
        finally:
            for job in jobs:
                job.process.end(0)
