"""The largest message that each output topic takes, as far as the brokers show it or have shown it by a refusal."""

from __future__ import annotations

import logging
from typing import Final

from confluent_kafka import KafkaException

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.output_topics import describe_topics

log = logging.getLogger(__name__)

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
        found = self._shown()
        if found is None:
            return self._used
        self._is_known = None not in found.values()
        self._used = {
            kind: min(LARGEST_BYTES if size is None else size, self._own or LARGEST_BYTES)
            for kind, size in found.items()
            if size is not None or self._own is not None
        }
        return self._used

    def fallen(self) -> str | None:
        """Why a query that runs with the limits read last may never finish its batch, for the terminal; None: it may.

        A batch of messages above a limit that has fallen since is refused and split in vain.
        """
        found = (self._shown() if self.batch_bytes else None) or {}
        below = {kind: size for kind, size in found.items() if size is not None and size < self.batch_bytes}
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
        return {one.kind: one.number("max.message.bytes") for one in topics}


def _text(limits: dict[str, int]) -> str:
    return ", ".join(f"{kind}: {size} bytes" for kind, size in sorted(limits.items())) or "none is known"
