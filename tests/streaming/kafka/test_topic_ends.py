"""The ends of a topic whose partitions do not all answer; the client is a fake."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.log_marks import EpochEnd
from groupreplay.streaming.kafka.topic_ends import TopicEnds

TIMED_OUT = KafkaException(KafkaError(KafkaError._TIMED_OUT))


class Admin:
    """A cluster with leaders and, by partition, an offset or an error; without leaders no broker answers."""

    def __init__(self, leaders: Mapping[int, int], answers: Mapping[int, Any]) -> None:
        self.leaders = leaders
        self.answers = answers
        self.asked: list[tuple[list[int], IsolationLevel]] = []

    def list_topics(self, topic: str, *, timeout: float) -> Any:
        """Metadata of the topic."""
        assert timeout <= 5
        if not self.leaders:
            raise TIMED_OUT
        partitions = {number: SimpleNamespace(leader=leader) for number, leader in self.leaders.items()}
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=partitions)})

    def list_offsets(
        self, wanted: Mapping[TopicPartition, Any], *, isolation_level: IsolationLevel, request_timeout: float
    ) -> Mapping[TopicPartition, Future[Any]]:
        """The ends of these partitions."""
        assert request_timeout <= 5
        self.asked.append(([one.partition for one in wanted], isolation_level))
        futures: dict[TopicPartition, Future[Any]] = {}
        for one in wanted:
            futures[one] = Future()
            answer = self.answers[one.partition]
            if isinstance(answer, Exception):
                futures[one].set_exception(answer)
            else:
                futures[one].set_result(SimpleNamespace(offset=answer, leader_epoch=3))
        return futures

    def poll(self, seconds: float) -> None:
        """Nothing to call back."""


def ends_of(admin: Admin, partitions: int = 4) -> TopicEnds:
    """The topic on this cluster."""
    connection = Connection(Cluster(bootstrap_servers="h:1"))
    connection._admin = cast("AdminClient", admin)
    return TopicEnds(connection, "t", partitions)


def test_all_answer() -> None:
    """The two kinds of ends differ by the isolation level; a partition that the job does not read is not asked for."""
    admin = Admin(dict.fromkeys(range(5), 1), {0: 7, 1: 0, 2: 5, 3: 9})
    ends = ends_of(admin)
    assert ends.stable() == {number: EpochEnd(end, 3) for number, end in ends.high_watermarks().items()}
    assert ends.high_watermarks() == {0: 7, 1: 0, 2: 5, 3: 9}
    assert admin.asked == [
        ([0, 1, 2, 3], IsolationLevel.READ_COMMITTED),
        *[([0, 1, 2, 3], IsolationLevel.READ_UNCOMMITTED)] * 2,
    ]


def test_a_partition_without_a_leader_is_not_asked_for() -> None:
    """Its request would only be answered when its time is over."""
    admin = Admin({0: 1, 1: -1, 2: 2}, {0: 7, 2: 5})
    assert ends_of(admin).stable() == {0: EpochEnd(7, 3), 2: EpochEnd(5, 3)}
    assert [numbers for numbers, _ in admin.asked] == [[0, 2]]


def test_a_leader_that_does_not_answer() -> None:
    """Its partitions have an error, or with librdkafka neither error nor offset; the next call has a new client."""
    admin = Admin(dict.fromkeys(range(4), 1), {0: 7, 1: TIMED_OUT, 2: OFFSET_INVALID, 3: 0})
    ends = ends_of(admin)
    assert ends.stable() == {0: EpochEnd(7, 3), 3: EpochEnd(0, 3)}
    assert ends.connection._admin is None


def test_a_cluster_that_is_away() -> None:
    """No partition answers, and nothing is raised."""
    assert ends_of(Admin({}, {})).stable() == {}
