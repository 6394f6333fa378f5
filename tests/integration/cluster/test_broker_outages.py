"""Three brokers, of which one or more are away: the same process goes on, nothing is lost and nothing is wrong.

The output topics have three replicas and need two of them. The unclean election has a test of its own.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from groupreplay.state import OFFSETS_TOPIC
from support.kafka.three_brokers import NODES
from support.kafka.waiting import wait_until
from support.ordeals.siege import besieged_cluster

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1_200)]

#: What is tested is an outage of this length.
OUTAGE_SECONDS = 45.0


def test_a_rolling_restart(tmp_path: Path) -> None:
    """Each broker is restarted in turn, as soon as the one before has caught up."""
    with besieged_cluster(tmp_path, random.randrange(1_000_000)) as siege:
        for broker in siege.cluster.nodes.values():
            broker.restart()
            siege.heal()
        siege.goes_on()


def test_another_controller(tmp_path: Path) -> None:
    """The node of the active controller is killed; another one takes over, and the killed one comes back."""
    with besieged_cluster(tmp_path, random.randrange(1_000_000)) as siege:
        cluster = siege.cluster
        former = cluster.controller()
        assert former is not None
        cluster.nodes[former].kill()
        wait_until(lambda: cluster.controller() not in (None, former))
        time.sleep(OUTAGE_SECONDS / 3)
        siege.job.wait_caught_up()  # two of three are enough for everything
        cluster.start(former)
        siege.heal()
        siege.goes_on()


def test_two_of_three_are_lost(tmp_path: Path) -> None:
    """Nobody can write or elect a leader until one of them is back; the job waits."""
    with besieged_cluster(tmp_path, random.randrange(1_000_000)) as siege:
        lost = random.sample(NODES, 2)
        for node in lost:
            siege.cluster.nodes[node].kill()
        time.sleep(OUTAGE_SECONDS)
        siege.cluster.start(*lost)
        siege.heal()
        siege.goes_on()


def test_a_partition_without_a_leader(tmp_path: Path) -> None:
    """One partition of the log has its only replica on a node that is away, and comes back with it."""
    with besieged_cluster(tmp_path, random.randrange(1_000_000), replicas=1) as siege:
        cluster, partition = siege.cluster, 1
        node = cluster.leader(OFFSETS_TOPIC, partition)
        assert node is not None
        cluster.nodes[node].kill()
        cluster.await_leader(OFFSETS_TOPIC, partition, lambda leader: leader is None)
        time.sleep(OUTAGE_SECONDS)
        cluster.start(node)
        cluster.await_leader(OFFSETS_TOPIC, partition, lambda leader: leader == node)
        siege.goes_on()
