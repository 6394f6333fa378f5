"""The id of a topic as Kafka prints it."""

from __future__ import annotations

from confluent_kafka import Uuid

from groupreplay.streaming.kafka.topic_identity import topic_id_of

UUID = Uuid(0x19E5A0AA_60E34B90, -0x6F8B_9FF2_495C_D85E)


def test_era() -> None:
    """Kafka's text form of a topic id is URL-safe base64 without padding; brokers without ids have era 0."""
    eras = [topic_id_of(topic_id) for topic_id in (None, Uuid(0, 0), Uuid(-1, -1), UUID)]
    assert eras == ["0", "0", "_____________________w", "GeWgqmDjS5CQdGANtqMnog"]
