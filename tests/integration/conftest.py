"""Kafka's own classes, for the tests that compare records with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.kafka.kafka_classes import KafkaClasses, kafka_classes


@pytest.fixture(scope="module")
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaClasses]:
    """The classes of 4.4.0, which also read records of older brokers; a test may name another release."""
    with kafka_classes(getattr(request, "param", "4.4.0")) as classes:
        yield classes
