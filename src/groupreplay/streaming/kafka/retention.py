"""Asks the brokers for what the log does not hold (``config.retention``), once or while a job runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import chain
from typing import Final

from confluent_kafka import KafkaException

from groupreplay.state.policy.context import NEWEST_RULES
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.retention import (
    CHECK_INTERVAL,
    RELEASE_SETTING,
    RETENTION,
    SESSIONS,
    Retention,
    contradiction,
    effective,
)
from groupreplay.streaming.config.settings import RetentionFlags
from groupreplay.streaming.kafka.clients import Connection

log = logging.getLogger(__name__)

#: A broker setting rarely changes while the job runs.
_ASK_AGAIN_SECONDS: Final = 3_600.0


def effective_retention(
    flags: RetentionFlags, connection: Connection | None, recorded: Retention | None = None
) -> Retention:
    """The flags, and where a flag is missing the brokers' answer, or what a capture has ``recorded``. Never raises."""
    answer: dict[str, str] = {}
    if connection is not None:
        try:
            answer = connection.broker_settings(
                (RETENTION, CHECK_INTERVAL, RELEASE_SETTING, *chain(*SESSIONS.values()))
            )
        except (KafkaException, GroupReplayError) as error:
            log.debug("broker settings cannot be read: %s", error)
    return effective(flags, answer, recorded)


class RetentionWatch:
    """The retention while a job runs; asks a broker again every hour. ``known`` is the last answer.

    ``seconds``: a clock that no one can set.
    """

    def __init__(
        self,
        flags: RetentionFlags,
        connect: Callable[[], Connection],
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._flags = flags
        self._connect = connect
        self._seconds = seconds
        self._asked = seconds()
        self.known = effective_retention(flags, connect())
        if self.known.retention_ms is None:
            log.warning(
                "%s cannot be read from a broker; 7 days are assumed and events that depend on it are marked as "
                "inferred; grant this login DescribeConfigs on the cluster, or give --retention-minutes",
                RETENTION,
            )
        elif self.known.broker_release is None:
            log.warning(
                "the release of the brokers cannot be read; the rules of expiry of Kafka %s are assumed; grant this "
                "login DescribeConfigs on the cluster, or give --broker-release",
                NEWEST_RULES,
            )
        if odd := contradiction(self.known.retention_ms, self.known.check_interval_ms):
            log.warning("%s", odd)

    def changed(self) -> bool:
        """Whether ``known`` has changed since the last call."""
        now = self._seconds()
        if now - self._asked < _ASK_AGAIN_SECONDS:
            return False
        self._asked = now
        # A failed answer does not mean that a setting has changed.
        found = effective_retention(self._flags, self._connect(), self.known)
        if found == self.known:
            return False
        log.warning(
            "settings of the brokers have changed: %s, before %s",
            found,
            self.known,
        )
        self.known = found
        return True
