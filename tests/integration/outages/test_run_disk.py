"""The disk of the checkpoint is full, or read-only, while the job runs and when it starts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import RunningJob, last_batch, running_job, topic_names
from support.kafka.waiting import wait_until
from support.tools.small_disks import filled, read_only, small_disk
from support.tools.written_load import compare_with_replay, written_load

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

PARTITIONS = 4
DISK_MEBIBYTES = 24
#: Long enough for several tries of the job.
FULL_SECONDS = 20.0


@contextmanager
def job_on_a_small_disk(folder: Path) -> Iterator[RunningJob]:
    """A job under load whose checkpoint is on a disk of its own; afterwards its events are compared."""
    with (
        small_disk(folder / "checkpoint", DISK_MEBIBYTES) as disk,
        EmbeddedBroker(offsets_partitions=PARTITIONS) as broker,
        running_job(broker.bootstrap_servers, disk, topic_names("disk"), "--member-events") as job,
    ):
        job.wait_until(lambda: last_batch(job.checkpoint) >= 0)
        with written_load(broker.bootstrap_servers, PARTITIONS) as lives:
            job.wait_until(lambda: lives() > 5)
            yield job
            job.wait_caught_up()
        compare_with_replay(job)


def lines(job: RunningJob, text: str) -> int:
    """How often the job has printed something."""
    return job.process.tail(1_000_000).count(text)


def test_a_full_disk(tmp_path: Path) -> None:
    """The job waits and goes on; killed while it is full, the next start waits, and reads what is left."""
    with job_on_a_small_disk(tmp_path) as job:
        pid = job.process.pid
        with filled(job.checkpoint):
            job.wait_until(lambda: lines(job, "the checkpoint cannot be written: No space left on device"))
            time.sleep(FULL_SECONDS)  # what is tested is a disk that is full for this long
        job.wait_caught_up()
        assert (job.process.pid, job.process.exit_code) == (pid, None)
        assert lines(job, "groupreplay: continuing after") == 1
        assert job.status()["restarts"] > 0
        with filled(job.checkpoint):
            seen = lines(job, "the checkpoint cannot be written")
            job.wait_until(lambda: lines(job, "the checkpoint cannot be written") > seen)
            job.kill()
            job.restart()
            # Whether at the start, which writes little, or in the first batch.
            seen = lines(job, "the checkpoint cannot be written")
            job.wait_until(lambda: lines(job, "the checkpoint cannot be written") > seen)
        job.wait_caught_up()


def test_a_disk_that_is_read_only_for_a_while(tmp_path: Path) -> None:
    """The same with a file system that refuses every write, at a start, too; SIGTERM ends the wait."""
    with job_on_a_small_disk(tmp_path) as job:
        pid = job.process.pid
        with read_only(job.checkpoint):
            job.wait_until(lambda: lines(job, "the checkpoint cannot be written: Read-only file system"))
            time.sleep(FULL_SECONDS)  # what is tested is a disk that is read-only for this long
        job.wait_caught_up()
        assert (job.process.pid, job.process.exit_code) == (pid, None)
        assert job.stop() == 143
        with read_only(job.checkpoint):
            job.restart()
            job.wait_until(lambda: lines(job, "waiting to start, because the checkpoint cannot be written"))
            assert job.stop() == 143
            job.restart()
            job.wait_until(
                lambda: lines(job, "waiting to start, because the checkpoint cannot be written") > 1
            )
        job.wait_caught_up()


def test_a_first_start_without_a_disk(tmp_path: Path) -> None:
    """A mistake of the operator, more likely than an outage: the error names the folder, and the job ends with 2."""
    with (
        small_disk(tmp_path / "checkpoint", 1) as disk,
        EmbeddedBroker(offsets_partitions=1) as broker,
        filled(disk),
        running_job(broker.bootstrap_servers, disk, topic_names("disk")) as job,
    ):
        wait_until(lambda: job.process.exit_code is not None)
        assert job.process.exit_code == 2
        assert f"cannot be written: No space left on device (file:{disk})" in job.process.tail(100)
