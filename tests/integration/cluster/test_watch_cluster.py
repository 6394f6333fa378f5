"""``watch`` on three brokers that are killed and come back, among groups that come and go.

In the end its events are those of a replay of a capture: nothing is lost, nothing is wrong, and each has the same id.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from groupreplay.state import OFFSETS_TOPIC
from support.job.watch_process import WatchProcess
from support.kafka.three_brokers import NODES, ThreeBrokers, three_brokers
from support.kafka.waiting import wait_until
from support.ordeals.churn import PARTITIONS
from support.ordeals.watched import watching_groups

pytestmark = pytest.mark.broker

#: GROUPREPLAY_KILLS makes it fewer.
MANY_KILLS = int(os.environ.get("GROUPREPLAY_KILLS", "51"))


@contextmanager
def besieged_watch(folder: Path, seed: int) -> Iterator[tuple[WatchProcess, ThreeBrokers]]:
    """A watch on three brokers; its events are compared when the block ends and all replicas are in sync."""
    with (
        three_brokers(PARTITIONS, min_insync_replicas=2) as cluster,
        watching_groups(cluster.bootstrap_servers, folder, seed) as watch,
    ):
        yield watch, cluster
        for number in range(PARTITIONS):
            await_in_sync(cluster, number)


def await_in_sync(cluster: ThreeBrokers, partition: int) -> None:
    """All three have all records of a partition of the offsets topic."""
    wait_until(lambda: cluster.in_sync(TopicPartition(OFFSETS_TOPIC, partition)) == [*NODES])


def goes_on(watch: WatchProcess) -> None:
    """Events of after this call arrive."""
    seen = len(watch.events())
    wait_until(lambda: len(watch.events()) > seen + 1, pause=0.5)


def lose_leader(cluster: ThreeBrokers, partition: int) -> int:
    """Kills the leader of a partition of the offsets topic; the node, as soon as another one leads."""
    lost = cluster.await_leader(OFFSETS_TOPIC, partition, lambda node: node is not None)
    assert lost is not None
    cluster.nodes[lost].kill()
    cluster.await_leader(OFFSETS_TOPIC, partition, lambda node: node not in (None, lost))
    return lost


def lose_controller(cluster: ThreeBrokers) -> int:
    """Kills the node whose controller is active; the node, as soon as another one is."""
    lost = wait_until(cluster.controller)
    cluster.nodes[lost].kill()
    wait_until(lambda: cluster.controller() not in (None, lost))
    return lost


def test_a_leader_and_the_controller_are_lost(tmp_path: Path) -> None:
    """The same process goes on while each of them is away, and when it is back."""
    with besieged_watch(tmp_path, random.randrange(1_000_000)) as (watch, cluster):
        process = watch.process
        assert process is not None
        goes_on(watch)
        for lose in (lambda: lose_leader(cluster, 0), lambda: lose_controller(cluster)):
            lost = lose()
            goes_on(watch)
            cluster.start(lost)
            await_in_sync(cluster, 0)
            goes_on(watch)
        assert (watch.process, process.exit_code) == (process, None)


@pytest.mark.long
@pytest.mark.timeout(4_800)
def test_many_kills(tmp_path: Path) -> None:
    """Leaders, the controller, any node, and the watch itself, each at a random moment; it is also killed with one."""
    seed = random.randrange(1_000_000)
    moments = random.Random(seed)
    with besieged_watch(tmp_path, seed) as (watch, cluster):

        def start_again() -> None:
            watch.kill()
            watch.start()

        def and_back(lose: Callable[[], int]) -> None:
            lost = lose()
            if moments.random() < 0.3:
                start_again()
            cluster.start(lost)

        def any_node() -> int:
            node = moments.choice(NODES)
            cluster.nodes[node].kill()
            return node

        kinds: dict[str, Callable[[], None]] = {
            "leader": lambda: and_back(lambda: lose_leader(cluster, moments.randrange(PARTITIONS))),
            "controller": lambda: and_back(lambda: lose_controller(cluster)),
            "node": lambda: and_back(any_node),
            "watch": start_again,
        }
        start = time.monotonic()
        for number in range(1, MANY_KILLS + 1):
            goes_on(watch)
            # The moment is what is random here; nothing waits for it.
            time.sleep(moments.uniform(0, 2))
            kind = moments.choice([*kinds])
            print(f"{time.monotonic() - start:.0f} s, kill {number}: {kind}", flush=True)  # noqa: T201
            kinds[kind]()
        goes_on(watch)
