"""The job on a real Spark cluster, of which executors, workers and the driver are killed, and tasks run twice.

What the job wrote is compared with a replay of the two topics: nothing is lost and nothing is wrong.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.spark.session import PLAIN_FILES
from support.job.jobs import last_batch, topic_names
from support.kafka.clients import make_topics
from support.kafka.waiting import is_alive, wait_until
from support.ordeals.churn import ORDERS, PARTITIONS, churning
from support.ordeals.comparison import compare
from support.spark_cluster.event_log import TaskCopy, event_log_conf, task_copies, task_hosts
from support.spark_cluster.standalone import ClusterWorker, StandaloneCluster, standalone_cluster
from support.spark_cluster.submitted_job import FAST_DAEMON, SubmittedJob, submitted_job

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(2_400)]

#: A task is copied when it takes half as long again as the other one, and at least a tenth of a second.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    # Without this the task of a stage that has no other one is never copied: that of a batch with heartbeats alone.
    "spark.speculation.task.duration.threshold": "1s",
}
#: Hadoop's own file system for the checkpoint, as in a job on one machine; the other test has Spark's default.
PLAIN = {"spark.hadoop.fs.file.impl": PLAIN_FILES}
#: So many copies of stateful tasks must run to their end, in at most so many turns in which an executor stands still.
COPIES, MOST_TURNS = 1, 40


@contextmanager
def churned_job(
    cluster: StandaloneCluster, folder: Path, seed: int, conf: Mapping[str, str]
) -> Iterator[SubmittedJob]:
    """A job on the cluster among churning groups; its events are compared when the block ends and all is quiet."""
    print(f"seed {seed}")  # noqa: T201
    with EmbeddedBroker(offsets_partitions=PARTITIONS) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {ORDERS: 4})
        topics = topic_names("cluster")
        with submitted_job(
            cluster, server, folder / "checkpoint", topics, "--member-events", conf=conf
        ) as job:
            # What happens before the end of the first batch is the past, of which nothing is emitted.
            job.wait_until(lambda: last_batch(job.checkpoint) >= 0)
            with churning(server, seed):
                yield job
            compare(job)
            assert job.stop() == 143


def wait_for_batches(job: SubmittedJob) -> None:
    """Waits until two more batches are finished: one of them has begun after this call."""
    wanted = last_batch(job.checkpoint) + 2
    job.wait_until(lambda: last_batch(job.checkpoint) >= wanted)


def kill_executor(worker: ClusterWorker) -> None:
    """Kills the newest executor of a worker, which then starts another one."""
    victim = worker.executors()[-1]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not is_alive(victim))
    wait_until(worker.executors)


def test_executors_workers_and_the_driver_are_killed(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """Executors, a worker with its executor, and each process of the driver: no event is lost, none is wrong.

    Executors have groupreplay from the archive only, and fork their Python workers from its own daemon.
    """
    seed = random.randrange(1_000_000)
    choice = random.Random(seed)
    with churned_job(cluster, tmp_path, seed, {}) as job:
        cluster.wait_executors()
        assert {daemon_module(worker) for worker in cluster.workers} == {FAST_DAEMON}
        assert cluster.addresses() == {"127.0.0.1", "127.0.0.2"}
        for worker in cluster.workers:
            wait_for_batches(job)
            time.sleep(choice.uniform(0, 2))  # the moment is what is random here; nothing waits for it
            kill_executor(worker)
        wait_for_batches(job)

        # The job goes on with one worker, and with both when the other one is back.
        lost = choice.choice(cluster.workers)
        lost.kill()
        wait_for_batches(job)
        lost.restart()
        cluster.wait_whole()
        wait_until(lost.executors)
        wait_for_batches(job)

        # The same line submits it again, and it goes on from the checkpoint.
        for python, jvm in ((True, False), (False, True), (True, True)):
            job.kill_driver(python=python, jvm=jvm)
            job.restart()
            wait_for_batches(job)


def test_a_cluster_that_grows_and_shrinks(tmp_path: Path) -> None:
    """One worker, then three, then two, in the middle of a batch, then three: the work follows, and no event is lost.

    The log is read in more tasks when there are more cores, and each worker that is there runs tasks.
    """
    seed = random.randrange(1_000_000)
    choice = random.Random(seed)
    events = tmp_path / "event-log"
    events.mkdir()
    hosts = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
    with standalone_cluster(tmp_path / "cluster", hosts) as cluster:
        for late in cluster.workers[1:]:
            late.kill()
        with churned_job(cluster, tmp_path, seed, {**PLAIN, **event_log_conf(events)}) as job:
            wait_for_batches(job)
            assert set(task_hosts(events)) == {hosts[0]}
            for late in cluster.workers[1:]:
                late.restart()
            cluster.wait_whole()
            cluster.wait_executors()
            grown = "the cluster has grown, continuing with 3 tasks that read the log (2 before)"
            job.wait_until(lambda: grown in job.log.read_text())
            wait_for_work(job, events, set(hosts))

            lost = choice.choice(cluster.workers)
            time.sleep(choice.uniform(0, 2))  # the moment is what is random here; nothing waits for it
            lost.kill()
            wait_for_batches(job)
            lost.restart()
            cluster.wait_whole()
            wait_until(lost.executors)
            wait_for_work(job, events, set(hosts))


def wait_for_work(job: SubmittedJob, events: Path, hosts: set[str]) -> None:
    """Waits until tasks that end from now on have run on each of these addresses."""
    before = len(task_hosts(events))
    job.wait_until(lambda: set(task_hosts(events)[before:]) == hosts)


def test_copies_of_tasks(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """With speculation, copies of tasks that read the state and write to the sink run to their end: nothing is wrong.

    The Python workers of an executor, or the executor, stand still until a copy has done their work, and then go on.
    """
    seed = random.randrange(1_000_000)
    choice = random.Random(seed)
    events = tmp_path / "event-log"
    events.mkdir()
    conf = {**SPECULATION, **PLAIN, **event_log_conf(events)}
    with churned_job(cluster, tmp_path, seed, conf) as job:
        for turn in range(MOST_TURNS):
            wait_for_batches(job)
            cluster.wait_executors()
            if len(finished_copies(events)) >= COPIES:
                break
            worker = choice.choice(cluster.workers)
            time.sleep(choice.uniform(0, 2))  # the moment is what is random here; nothing waits for it
            if turn % 3:
                # Its blocks cannot be read meanwhile: the batch may have to wait for it.
                with standstill([*worker.executors(), *worker.python_workers()]):
                    time.sleep(choice.uniform(2, 5))  # what is random is how far a copy comes
            else:
                wait_until(worker.python_workers)
                with standstill(worker.python_workers()):
                    wait_for_batches(job)
        print(f"{turn} turns, {len(finished_copies(events))} of {len(task_copies(events))} copies")  # noqa: T201
        assert len(finished_copies(events)) >= COPIES, task_copies(events)


def finished_copies(events: Path) -> list[TaskCopy]:
    """Copies of tasks that read and write the state and write to the sink, which have run to their end."""
    return [one for one in task_copies(events) if one.is_stateful and one.reason == "Success"]


@contextmanager
def standstill(pids: list[int]) -> Iterator[None]:
    """Stops these processes while the block runs; those that Spark kills meanwhile need not go on."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def daemon_module(worker: ClusterWorker) -> str:
    """The module from which the executor of this worker forks Python workers, by its command line."""
    (daemon,) = worker.daemons()
    words = psutil.Process(daemon).cmdline()
    return words[words.index("-m") + 1]
