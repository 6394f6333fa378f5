"""A cluster of three brokers on this machine: three processes, each of them broker and controller (KRaft)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.local.broker import EmbeddedBroker, free_ports
from support.kafka.waiting import wait_until

NODES = (1, 2, 3)
#: A killed broker is fenced after two seconds instead of nine; three replicas of what the brokers keep.
_SETTINGS: Mapping[str, object] = {
    "broker.session.timeout.ms": 2_000,
    "broker.heartbeat.interval.ms": 500,
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.fetch.timeout.ms": 1_000,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "share.coordinator.state.topic.replication.factor": 3,
    "share.coordinator.state.topic.min.isr": 2,
    "default.replication.factor": 3,
}


class ThreeBrokers:
    """The brokers by node id; all have the same settings.

    A start waits for no coordinator: requests about groups can abort librdkafka, and so this process, while brokers
    come and go (its issue 4605).
    """

    def __init__(self, settings: Mapping[str, object], offsets_partitions: int) -> None:
        ports = dict(zip(NODES, zip(*[iter(free_ports(6))] * 2, strict=True), strict=True))
        voters = ",".join(f"{node}@127.0.0.1:{controller}" for node, (_, controller) in ports.items())
        self.nodes = {
            node: EmbeddedBroker(
                port=port,
                offsets_partitions=offsets_partitions,
                overrides={
                    "node.id": node,
                    "controller.quorum.voters": voters,
                    "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                    **settings,
                },
                wait_for_coordinator=False,
            )
            for node, (port, controller) in ports.items()
        }

    @property
    def bootstrap_servers(self) -> str:
        """All of them, for clients that must survive the loss of any."""
        return ",".join(broker.bootstrap_servers for broker in self.nodes.values())

    def start(self, *nodes: int) -> None:
        """Starts these (none named: all) at once: none is ready before two of three are there."""
        with ThreadPoolExecutor(len(NODES)) as pool:
            list(pool.map(lambda node: self.nodes[node].start(), nodes or NODES))

    def make_offsets_topic(self, partitions: int, replicas: int) -> None:
        """As a broker makes it; the first replica of a partition, which leads it, is on node ``partition % 3 + 1``."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        wait_until(lambda: len(admin.list_topics(timeout=20).brokers) == len(NODES))
        topic = NewTopic(
            OFFSETS_TOPIC,
            num_partitions=partitions,
            replica_assignment=[
                [NODES[(number + place) % len(NODES)] for place in range(replicas)]
                for number in range(partitions)
            ],
            config={"cleanup.policy": "compact", "compression.type": "producer"},
        )
        admin.create_topics([topic])[OFFSETS_TOPIC].result(30)
        for number in range(partitions):
            self.await_leader(OFFSETS_TOPIC, number, lambda leader: leader is not None)

    def controller(self) -> int | None:
        """The node whose controller is active, as the first broker that answers knows it; None during an election.

        Clients are told of another one: the node that takes their requests to the controller.
        """
        for broker in self.nodes.values():
            try:
                found = quorum_leader(broker.port)
            except (OSError, struct.error):
                # It is away, or knows of no controller and answers an error alone.
                continue
            return found if found in NODES else None
        return None

    def leader(self, topic: str, partition: int) -> int | None:
        """The node that leads a partition; None for a leaderless one."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        # A broker may not know a new topic yet.
        known = admin.list_topics(topic, timeout=20).topics[topic].partitions.get(partition)
        return known.leader if known is not None and known.leader in NODES else None

    def await_leader(self, topic: str, partition: int, wanted: Callable[[int | None], bool]) -> int | None:
        """The leader as soon as it is one that is wanted."""

        def look() -> list[int | None]:
            return list(filter(wanted, [self.leader(topic, partition)]))

        return wait_until(look)[0]

    def in_sync(self, place: TopicPartition) -> list[int]:
        """The nodes that have all records of a partition."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        known = admin.list_topics(place.topic, timeout=20).topics[place.topic]
        return sorted(known.partitions[place.partition].isrs)


@contextmanager
def three_brokers(offsets_partitions: int = 3, **overrides: object) -> Iterator[ThreeBrokers]:
    """The cluster, ready; ended with all its data afterwards. Settings have underscores in place of dots.

    With ``offsets_topic_replication_factor=1`` the loss of a node leaves its partitions of the offsets topic without a
    leader, and the others as they are.
    """
    settings = {**_SETTINGS, **{name.replace("_", "."): value for name, value in overrides.items()}}
    cluster = ThreeBrokers(settings, offsets_partitions)
    with ExitStack() as stack:
        for broker in cluster.nodes.values():
            stack.callback(broker.close)
        cluster.start()
        cluster.make_offsets_topic(offsets_partitions, int(str(settings["offsets.topic.replication.factor"])))
        yield cluster


def quorum_leader(port: int) -> int:
    """Who leads the metadata of the cluster: a request DescribeQuorum, version 0, for which no client has a method."""
    topic = b"__cluster_metadata"
    partitions = b"\x02" + struct.pack(">i", 0) + b"\x00"
    body = b"\x02" + bytes((len(topic) + 1,)) + topic + partitions + b"\x00\x00"
    request = struct.pack(">hhih", 55, 0, 1, -1) + b"\x00" + body
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as stream:
            answer = stream.read(struct.unpack(">i", stream.read(4))[0])
    # Behind the correlation id and tags: error, one topic with its name, one partition with its index and error.
    at = 4 + 1 + 2 + 1 + 1 + len(topic) + 1 + 4 + 2
    leader: int = struct.unpack_from(">i", answer, at)[0]
    return leader
