"""Topics on a broker, created and written by a test."""

from __future__ import annotations

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic


class WrittenTopics:
    """The topics of one broker, and its consumer groups."""

    def __init__(self, servers: str) -> None:
        self.admin = AdminClient({"bootstrap.servers": servers})
        # The first batch into a new topic may be refused and sent again, behind the second one.
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})

    def create(self, *topics: str, partitions: int = 2) -> None:
        """Returns when the topics exist."""
        made = self.admin.create_topics([NewTopic(name, partitions, 1) for name in topics])
        for answer in made.values():
            answer.result(30)

    def write(
        self, topic: str, key: bytes, *values: bytes | None, at_ms: int = 0, partition: int = -1
    ) -> None:
        """Messages of one key; ``at_ms`` 0 stands for now, partition -1 for the key's."""
        for value in values:
            self._producer.produce(topic, value, key, partition, timestamp=at_ms)
        assert self._producer.flush(30) == 0

    def groups(self) -> set[str]:
        """The consumer groups of the cluster."""
        return {found.group_id for found in self.admin.list_consumer_groups().result(30).valid}
