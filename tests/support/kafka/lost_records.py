"""How brokers lose records that clients have read: by an unclean election, or with the end of a disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from confluent_kafka import TopicPartition

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.kafka.three_brokers import ThreeBrokers
from support.kafka.waiting import wait_until

#: Settings of the brokers: two replicas of the offsets topic, so that two of the three controllers are always left.
TWO_REPLICAS = {"unclean_leader_election_enable": "true", "offsets_topic_replication_factor": 2}


def elect_uncleanly(
    cluster: ThreeBrokers,
    place: TopicPartition,
    *,
    write_lost: Callable[[], object],
    write_more: Callable[[], object],
) -> None:
    """Lets the leader alone take some records, and the other replica lead without them and take others.

    Afterwards all brokers run, and the former leader follows.
    """
    former = cluster.await_leader(place.topic, place.partition, lambda node: node is not None)
    replicas = cluster.in_sync(place)
    assert former is not None
    assert len(replicas) == 2
    (other,) = set(replicas) - {former}
    cluster.nodes[other].stop()
    wait_until(lambda: cluster.in_sync(place) == [former])
    write_lost()
    cluster.nodes[former].kill()
    # Two of three controllers are needed to replace the leader, so the broker is not ready before it leads.
    cluster.nodes[other]._wait_for_coordinator = False
    cluster.start(other)
    cluster.await_leader(place.topic, place.partition, lambda node: node == other)
    write_more()
    cluster.start(former)
    wait_until(lambda: cluster.in_sync(place) == replicas)


def restart_in_turn(cluster: ThreeBrokers, place: TopicPartition, between: Callable[[], object]) -> None:
    """A rolling restart: each broker waits until the one before is in sync again."""
    replicas = cluster.in_sync(place)
    for broker in cluster.nodes.values():
        broker.restart()
        wait_until(lambda: cluster.in_sync(place) == replicas)
        between()


def log_size(broker: EmbeddedBroker, place: TopicPartition) -> int:
    """The bytes of a partition's newest segment, which a later ``cut_log`` keeps."""
    return _segment(broker, place).stat().st_size


def cut_log(broker: EmbeddedBroker, place: TopicPartition, size: int) -> None:
    """Restarts the broker with a log that ends there: its leader begins a new epoch, as every leader does."""
    broker.stop()
    segment = _segment(broker, place)
    with segment.open("r+b") as file:
        file.truncate(size)
    # The broker then reads the segments again and takes nothing from an index or a snapshot.
    for made in ("*.index", "*.timeindex", "*.snapshot"):
        for file_path in segment.parent.glob(made):
            file_path.unlink()
    (broker.folder / "data" / ".kafka_cleanshutdown").unlink()
    broker.start()


def _segment(broker: EmbeddedBroker, place: TopicPartition) -> Path:
    return max((broker.folder / "data" / f"{place.topic}-{place.partition}").glob("*.log"))
