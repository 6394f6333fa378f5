"""One incarnation of a topic: a topic that is deleted and made again has another id."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from groupreplay.codecs.kafka_terms import partition_for

#: In place of a topic's id, where brokers have none.
NO_ERA: Final = "0"


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """One incarnation of a topic: ``era`` is the topic id in Kafka's text form, ``0`` on brokers without ids."""

    cluster_id: str
    topic: str
    era: str
    partitions: int
    leaders: Mapping[int, str]

    def coordinator_of(self, group_id: str) -> str | None:
        """The group's coordinator as ``host:port (id)``; None while its partition has no leader."""
        return self.leaders.get(partition_for(group_id, self.partitions))


def topic_id_of(topic_id: Any) -> str:
    """The client's value as Kafka prints it; ``NO_ERA`` where brokers have no ids."""
    if topic_id is None:
        return NO_ERA
    bits = [topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()]
    raw = b"".join((value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "big") for value in bits)
    return urlsafe_b64encode(raw).decode().rstrip("=") if any(raw) else NO_ERA
