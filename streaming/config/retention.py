"""How long the brokers keep committed offsets: what a flag says, else what a broker answers.

Knows the two settings and how to ask for them; must not know what follows from them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from groupreplay.state.policy.context import DEFAULT_CHECK_INTERVAL_MS
from groupreplay.streaming.base.errors import GroupReplayError

if TYPE_CHECKING:
    from groupreplay.streaming.kafka.clients import Connection

log = logging.getLogger(__name__)

RETENTION: Final = "offsets.retention.minutes"
CHECK_INTERVAL: Final = "offsets.retention.check.interval.ms"
_MINUTE_MS: Final = 60_000
#: A broker's settings change with its restart: asking now and then is enough.
_ASK_AGAIN_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """``retention_ms`` None: neither a flag nor a broker has told."""

    retention_ms: int | None = None
    check_interval_ms: int = DEFAULT_CHECK_INTERVAL_MS

    def for_context(self) -> dict[str, Any]:
        """The fields of ``Context`` that it fills."""
        return {
            "retention_ms": self.retention_ms,
            "retention_check_interval_ms": self.check_interval_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionFlags:
    """What a person has said; None leaves it to the broker."""

    retention_minutes: int | None = None
    check_interval_ms: int | None = None

    def resolve(self, connection: Connection | None) -> Retention:
        """Flags win; without one and without an answer nothing is known. Never raises."""
        told: dict[str, str] = {}
        if connection is not None and None in (self.retention_minutes, self.check_interval_ms):
            told = _ask(connection)
        minutes = (
            self.retention_minutes if self.retention_minutes is not None else _number(told.get(RETENTION))
        )
        interval = self.check_interval_ms or _number(told.get(CHECK_INTERVAL)) or DEFAULT_CHECK_INTERVAL_MS
        return Retention(
            retention_ms=None if minutes is None else minutes * _MINUTE_MS, check_interval_ms=interval
        )


def _ask(connection: Connection) -> dict[str, str]:
    from confluent_kafka import KafkaException

    try:
        return connection.broker_settings((RETENTION, CHECK_INTERVAL))
    except (KafkaException, GroupReplayError) as error:
        log.debug("no broker tells its settings: %s", error)
        return {}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


class RetentionWatch:
    """What holds while a job runs; asked again every hour. ``known`` is the last answer."""

    def __init__(
        self, flags: RetentionFlags, connect: Callable[[], Connection], clock: Callable[[], int]
    ) -> None:
        self._flags = flags
        self._connect = connect
        self._clock = clock
        self._asked_ms = clock()
        self.known = flags.resolve(connect())
        if self.known.retention_ms is None:
            log.warning(
                "no broker tells %s, so 7 days are assumed and what follows is marked as inferred; grant this "
                "login DescribeConfigs on the cluster, or give --retention-minutes",
                RETENTION,
            )

    def changed(self) -> bool:
        """Whether ``known`` has become another one since the last call."""
        now_ms = self._clock()
        if now_ms - self._asked_ms < _ASK_AGAIN_MS:
            return False
        self._asked_ms = now_ms
        found = self._flags.resolve(self._connect())
        # An answer that fails says nothing about a setting that was told before.
        if found == self.known or found.retention_ms is None:
            return False
        log.warning("the brokers' retention of offsets has changed: %s, before %s", found, self.known)
        self.known = found
        return True
