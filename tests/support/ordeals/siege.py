"""A job among churning groups, on one broker or on three; its events are compared when all is over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import TopicPartition

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import RunningJob, last_batch, running_job, topic_names
from support.kafka.blank_brokers import blank_broker
from support.kafka.clients import make_topics
from support.kafka.three_brokers import NODES, ThreeBrokers, three_brokers
from support.kafka.waiting import wait_until
from support.ordeals.churn import ORDERS, PARTITIONS, churning
from support.ordeals.comparison import compare

HEALING_SECONDS = 120.0


@dataclass(frozen=True)
class Siege:
    """The job and the cluster that it watches and writes to."""

    job: RunningJob
    cluster: ThreeBrokers

    def heal(self) -> None:
        """Waits until every node has all records of the topics of the job and of the groups."""
        topics = {OFFSETS_TOPIC: PARTITIONS, self.job.topics.probes: 1, self.job.topics.job: 1}
        for topic, partitions in topics.items():
            for number in range(partitions):
                wait_until(partial(self._is_whole, TopicPartition(topic, number)), HEALING_SECONDS)

    def _is_whole(self, place: TopicPartition) -> bool:
        return self.cluster.in_sync(place) == [*NODES]

    def goes_on(self) -> None:
        """The same process catches up; how soon is printed."""
        since_ms = now_ms()
        self.job.wait_caught_up()
        print(f"caught up {now_ms() - since_ms} ms after the cluster was whole")  # noqa: T201


@contextmanager
def among_groups(
    server: str, folder: Path, seed: int, name: str, *, same_process: bool = False
) -> Iterator[RunningJob]:
    """A job among churning groups; when the block ends and all is quiet again, its events are compared with a replay.

    ``name`` begins the names of its topics. ``same_process``: the process of the job must never have ended.
    """
    print(f"seed {seed}")  # noqa: T201
    make_topics(server, {ORDERS: 4})
    # What happened before the first start would not be said.
    with running_job(server, folder / "checkpoint", topic_names(name), "--member-events") as job:
        job.wait_until(lambda: last_batch(job.checkpoint) >= 0)
        process = job.process
        with churning(server, seed):
            yield job
        compare(job)
        assert not same_process or (job.process, process.exit_code) == (process, None)


@contextmanager
def besieged(folder: Path, seed: int, name: str) -> Iterator[tuple[RunningJob, EmbeddedBroker]]:
    """The same with a broker of its own."""
    with (
        blank_broker(PARTITIONS) as broker,
        among_groups(broker.bootstrap_servers, folder, seed, name) as job,
    ):
        yield job, broker


@contextmanager
def besieged_cluster(
    folder: Path, seed: int, *, replicas: int = 3, same_process: bool = True
) -> Iterator[Siege]:
    """The events of the job are compared with a replay when the block ends and all is quiet again.

    The output topics have three replicas, of which two must be in sync; ``replicas`` are those of the log.
    """
    with (
        three_brokers(
            PARTITIONS, offsets_topic_replication_factor=replicas, min_insync_replicas=2
        ) as cluster,
        among_groups(cluster.bootstrap_servers, folder, seed, "cluster", same_process=same_process) as job,
    ):
        yield Siege(job, cluster)
