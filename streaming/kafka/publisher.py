"""A producer for few messages at a time, which waits until the brokers have acknowledged them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from groupreplay.streaming.base.broker_clock import AppendedMessage
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection

_FLUSH_SECONDS: Final = 10.0


@dataclass(slots=True)
class _Delivery:
    """What became of messages that were sent after the second ``sent`` of the monotonic clock."""

    sent: float
    outcomes: list[KafkaError | None] = field(default_factory=list)
    appended: list[AppendedMessage] = field(default_factory=list)

    def take(self, error: KafkaError | None, message: Message) -> None:
        """The outcome of one message."""
        self.outcomes.append(error)
        if error is None:
            kind, append_ms = message.timestamp()
            if kind == TIMESTAMP_LOG_APPEND_TIME:
                self.appended.append(AppendedMessage(self.sent, time.monotonic(), append_ms))


class Publisher:
    """Writes to one cluster; the producer is created with the first message. Not thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._producer: Producer | None = None

    def publish(
        self,
        topic: str,
        messages: Iterable[tuple[bytes, bytes]],
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> list[AppendedMessage]:
        """Write (key, value) messages in order, each with ``headers``, and wait until they are acknowledged.

        Returns those that the broker has stamped with its own time: all or none, by the topic's setting.

        Raises:
            GroupReplayError: the messages were not delivered in time.
            KafkaException: the broker rejected one of them.
        """
        if self._producer is None:
            self._producer = Connection(self._cluster).producer()
        delivery, count = _Delivery(time.monotonic()), 0
        for key, value in messages:
            self._producer.produce(
                topic, key=key, value=value, headers=list(headers), on_delivery=delivery.take
            )
            count += 1
        self._producer.flush(_FLUSH_SECONDS)
        if len(delivery.outcomes) < count:
            # The old producer would send them later, perhaps after newer messages.
            self._producer = None
            raise GroupReplayError(
                "messages were not delivered in time", where=topic, exit_code=ExitCode.CONNECTION
            )
        for error in delivery.outcomes:
            if error is not None:
                raise KafkaException(error)
        return delivery.appended
