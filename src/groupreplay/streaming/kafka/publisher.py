"""Writes messages to topics and waits until the brokers have them, and how large a message may be."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from groupreplay.state.phrases import counted
from groupreplay.streaming.base.clock import AppendedMessage
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.messages import OutputRow
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.output_topics import change_line, describe_topics

log = logging.getLogger(__name__)

#: Key, value (None: a tombstone) and headers.
WireMessage: TypeAlias = "tuple[bytes, bytes | None, Sequence[tuple[str, bytes]]]"

_FLUSH_SECONDS: Final = 10.0
#: What a batch with one record has beside its key, its value and its headers, at most.
_FRAME_BYTES: Final = 128
_TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})


class MessageTooLargeError(GroupReplayError):
    """The brokers refuse messages as too large; all others were written."""


def publish_smaller(
    publish: Callable[[bytes, bytes], None], encode: Callable[[int | None], tuple[bytes, bytes]]
) -> None:
    """Write a message, and a smaller one as long as the brokers refuse it; ``encode`` takes the limit of its value.

    Raises:
        MessageTooLargeError: it cannot get smaller.
    """
    key, value = encode(None)
    while True:
        try:
            return publish(key, value)
        except MessageTooLargeError:
            smaller = encode(len(value) // 2)[1]
            if len(smaller) >= len(value):
                raise
            value = smaller


@dataclass(slots=True)
class _Delivery:
    """What became of messages, by number, that were sent after the second ``sent`` of the monotonic clock."""

    sent: float
    outcomes: dict[int, KafkaError | None] = field(default_factory=dict)
    appended: list[AppendedMessage] = field(default_factory=list)
    _number: int = 0

    def send(self, producer: Producer, topic: str, message: WireMessage) -> None:
        """Sends the next message; its outcome arrives later."""
        key, value, headers = message
        number, self._number = self._number, self._number + 1
        try:
            producer.produce(
                topic,
                key=key,
                value=value,
                headers=list(headers),
                on_delivery=lambda error, message: self._take(number, error, message),
            )
        except KafkaException as error:
            # librdkafka has a limit of its own, and refuses at once.
            if error.args[0].code() not in _TOO_LARGE:
                raise
            self.outcomes[number] = error.args[0]

    def _take(self, number: int, error: KafkaError | None, message: Message) -> None:
        self.outcomes[number] = error
        if error is None:
            kind, append_ms = message.timestamp()
            if kind == TIMESTAMP_LOG_APPEND_TIME:
                self.appended.append(AppendedMessage(self.sent, time.monotonic(), append_ms))


class Publisher:
    """Writes to one cluster; the producer is created with the first message. Not thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._producer: Producer | None = None

    def publish(self, topic: str, messages: Iterable[tuple[bytes, bytes]]) -> list[AppendedMessage]:
        """``publish_all`` for messages without headers."""
        return self.publish_all(topic, ((key, value, ()) for key, value in messages))

    def publish_all(self, topic: str, messages: Iterable[WireMessage]) -> list[AppendedMessage]:
        """Write messages in order, and wait until they are acknowledged.

        Returns those that the broker has stamped with its own time: all or none, by the topic's setting.

        Raises:
            UnreachableError: the messages were not delivered in time.
            MessageTooLargeError: some are larger than the topic allows.
            KafkaException: the broker rejected one of them.
        """
        sent = list(messages)
        appended, refused = self._send(topic, sent)
        if refused and len(sent) > 1:
            # The limit is that of a batch of messages: alone most of them fit.
            again = [self._send(topic, [message]) for message in refused]
            appended += [message for some, _ in again for message in some]
            refused = [message for _, some in again for message in some]
        if refused:
            largest = max(map(_size, refused))
            raise MessageTooLargeError(
                f"{counted(len(refused), 'message')} of up to {largest} bytes refused as too large",
                where=topic,
                fix=change_line(
                    Connection(self._cluster), topic, f"max.message.bytes={largest + _FRAME_BYTES}"
                ),
            )
        return appended

    def publish_row(self, topic: str, row: OutputRow) -> list[AppendedMessage]:
        """``publish`` for a message of the job."""
        return self.publish_all(topic, [(row.key, row.value or b"", row.headers)])

    def _send(
        self, topic: str, messages: Sequence[WireMessage]
    ) -> tuple[list[AppendedMessage], list[WireMessage]]:
        """What the broker has stamped, and the messages that it has refused as too large."""
        if self._producer is None:
            self._producer = Connection(self._cluster).producer()
        delivery = _Delivery(time.monotonic())
        for message in messages:
            delivery.send(self._producer, topic, message)
        self._producer.flush(_FLUSH_SECONDS)
        if len(delivery.outcomes) < len(messages):
            # The old producer would send them later, perhaps after newer messages.
            self._producer = None
            raise UnreachableError(
                "messages were not delivered in time",
                where=topic,
                fix="check that the brokers that lead this topic run, and its min.insync.replicas",
                exit_code=ExitCode.CONNECTION,
            )
        failed = {number: error for number, error in delivery.outcomes.items() if error is not None}
        for error in failed.values():
            if error.code() not in _TOO_LARGE:
                raise KafkaException(error)
        return delivery.appended, [messages[number] for number in sorted(failed)]


def _size(message: WireMessage) -> int:
    key, value, headers = message
    return len(key) + len(value or b"") + sum(len(name) + len(text) for name, text in headers)


#: Above every message that the job writes: a group's document has at most 256 KiB, a dead letter two excerpts of
#: 64 KiB in base64, and names of groups add to both.
LARGEST_BYTES: Final = 1 << 20
#: Kafka's default of ``batch.size``.
BATCH_BYTES: Final = 16_384
#: Below this no message of the job fits.
_LEAST_BYTES: Final = 256


class MessageLimits:
    """The limits by field of ``TopicNames``; topics without a known limit are left out.

    Only logins with DescribeConfigs see ``max.message.bytes``. For others, and when a broker refuses what its settings
    allow, the limit is halved with each refusal.
    """

    def __init__(self, cluster: Cluster, names: TopicNames) -> None:
        self._cluster = cluster
        self._names = names
        self._own: int | None = None
        self._used: dict[str, int] = {}
        self._is_known = True
        self._is_suspected = False

    @property
    def batch_bytes(self) -> int:
        """The largest batch of messages for the limits that were read last; 0: each message alone.

        A broker counts the batch. Kafka's producer splits a refused one by its own ``batch.size``, which helps only if
        that is below the limit; otherwise all messages expire and no refusal is seen. So after messages have expired,
        and if a limit is not known, they are sent alone: then a refusal is seen.
        """
        if self._is_suspected and not self._is_known:
            return 0
        return min(BATCH_BYTES, *self._used.values()) if self._used else BATCH_BYTES

    def read(self) -> dict[str, int]:
        """The limits for a query that starts now; a cluster that does not answer leaves those of the last one."""
        shown = self._shown()
        if shown is None:
            return self._used
        self._is_known = None not in shown.values()
        self._used = {
            kind: min(LARGEST_BYTES if size is None else size, self._own or LARGEST_BYTES)
            for kind, size in shown.items()
            if size is not None or self._own is not None
        }
        return self._used

    def fallen(self) -> str | None:
        """Why a query that runs with the limits read last may never finish its batch, for the terminal; None: it may.

        A batch of messages above a limit that has fallen since is refused and split in vain.
        """
        shown = (self._shown() if self.batch_bytes else None) or {}
        below = {kind: size for kind, size in shown.items() if size is not None and size < self.batch_bytes}
        return f"the limits of messages have fallen ({_text(below)})" if below else None

    def tighten(self, *, is_refused: bool) -> str | None:
        """Call it after a refusal, or after messages have expired: what has changed, for the terminal.

        None: nothing has, or the limits cannot get lower.
        """
        before = self._used
        if self.read() != before:
            return f"the limits of messages have changed ({_text(self._used)})"
        if not is_refused:
            self._is_suspected = True
            return None
        smallest = min(before.values(), default=LARGEST_BYTES)
        if smallest <= _LEAST_BYTES:
            return None
        self._own = max(_LEAST_BYTES, smallest // 2)
        self.read()
        return f"a broker refuses a message as too large: all are limited to {self._own} bytes from now on"

    def _shown(self) -> dict[str, int | None] | None:
        """The limit of each topic, as far as this login may see it; None: no broker answers."""
        try:
            topics = describe_topics(Connection(self._cluster), self._names)
        except (GroupReplayError, KafkaException) as error:
            log.debug("the limits of messages are not known now: %s", error)
            return None
        return {topic.kind: topic.number("max.message.bytes") for topic in topics}


def _text(limits: dict[str, int]) -> str:
    return ", ".join(f"{kind}: {size} bytes" for kind, size in sorted(limits.items())) or "none is known"
