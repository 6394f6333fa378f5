"""Kafka's own classes, for the tests that compare records with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from groupreplay.streaming.local.jars import jar_paths
from support.kafka.kafka_classes import KafkaClasses, kafka_classes


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaClasses]:
    """The classes of 4.3.1, which also read records of older brokers."""
    with kafka_classes(jar_paths("broker-4.3.1")) as classes:
        yield classes
