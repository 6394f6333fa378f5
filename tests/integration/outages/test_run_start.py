"""A start while the cluster is away: the job waits if it has run before, else it ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import RunningJob, last_batch, running_job, topic_names
from support.kafka.waiting import wait_until
from support.tools.written_load import compare_with_replay, written_load

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PARTITIONS = 4
WAITING = "waiting to start, because cannot reach the cluster"


def ended(job: RunningJob) -> int | None:
    """The exit code, as soon as there is one."""
    wait_until(lambda: job.process.exit_code is not None)
    return job.process.exit_code


def test_a_first_start_without_a_broker(tmp_path: Path) -> None:
    """The address may be wrong: the job ends with 3, names it, and has made no checkpoint."""
    with running_job("127.0.0.1:1", tmp_path / "checkpoint", topic_names("none")) as job:
        assert ended(job) == 3
        assert "cannot reach the cluster" in job.process.tail(100)
        assert not (tmp_path / "checkpoint").exists()


@pytest.mark.long
def test_a_start_before_the_broker(tmp_path: Path) -> None:
    """A checkpoint that has run: the job waits, ends at once when it is asked to, and goes on in the same process."""
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        server = broker.bootstrap_servers
        with running_job(server, tmp_path / "checkpoint", topic_names("start"), "--member-events") as job:
            job.wait_until(lambda: last_batch(job.checkpoint) >= 0)
            with written_load(server, PARTITIONS) as lives:
                job.wait_until(lambda: lives() > 5)
            job.wait_caught_up()
            assert job.stop() == 143
            broker.stop()
            job.restart()
            job.wait_until(lambda: WAITING in job.process.tail(100))
            assert job.stop() == 143
            job.restart()
            pid = job.process.pid
            job.wait_until(lambda: job.process.tail(1_000_000).count(WAITING) > 1)
            broker.start()
            with written_load(server, PARTITIONS) as lives:
                job.wait_until(lambda: lives() > 5)
            compare_with_replay(job)
            assert (job.process.pid, job.process.exit_code) == (pid, None)
