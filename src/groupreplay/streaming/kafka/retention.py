"""What the log does not hold of the brokers: the retention of committed offsets, their release, and session timeouts.

A flag wins, otherwise a broker is asked.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.display.phrases import milliseconds
from groupreplay.state.display.safe_text import safe_text
from groupreplay.state.policy.context import NEWEST_RULES, BrokerRelease
from groupreplay.state.policy.sessions import SessionSettings
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import RetentionFlags
from groupreplay.streaming.kafka.broker_release import RELEASE_SETTING, told_release

if TYPE_CHECKING:
    from groupreplay.streaming.kafka.clients import Connection

log = logging.getLogger(__name__)

RETENTION: Final = "offsets.retention.minutes"
CHECK_INTERVAL: Final = "offsets.retention.check.interval.ms"
#: Type of group -> its settings in the order of ``SessionSettings``. In groups of classic members each has its own.
SESSIONS: Final[Mapping[str, tuple[str, str, str]]] = {
    kind.value: (
        f"group.{kind.value}.session.timeout.ms",
        f"group.{kind.value}.min.session.timeout.ms",
        f"group.{kind.value}.heartbeat.interval.ms",
    )
    for kind in GroupType
    if kind is not GroupType.CLASSIC
}
_MINUTE_MS: Final = 60_000
#: A broker setting rarely changes while the job runs.
_ASK_AGAIN_SECONDS: Final = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The settings and the release of the brokers; None: neither a flag nor a broker gives it.

    ``sessions`` are by type of group; empty: not known.
    """

    retention_ms: int | None = None
    check_interval_ms: int | None = None
    broker_release: BrokerRelease | None = None
    sessions: Mapping[str, SessionSettings] = field(default_factory=dict)

    def for_context(self) -> dict[str, Any]:
        """As fields of ``Context``."""
        return {
            "retention_ms": self.retention_ms,
            "retention_check_interval_ms": self.check_interval_ms,
            "broker_release": self.broker_release,
            "sessions": self.sessions,
        }


def effective_retention(
    flags: RetentionFlags, connection: Connection | None, recorded: Retention | None = None
) -> Retention:
    """The flags, and where a flag is missing the brokers' answer, or what a capture has ``recorded``. Never raises."""
    answer: dict[str, str] = {}
    if connection is not None:
        from confluent_kafka import KafkaException

        try:
            answer = connection.broker_settings(
                (RETENTION, CHECK_INTERVAL, RELEASE_SETTING, *chain(*SESSIONS.values()))
            )
        except (KafkaException, GroupReplayError) as error:
            log.debug("broker settings cannot be read: %s", error)
    recorded = recorded or Retention()
    minutes = flags.retention_minutes
    if minutes is None:
        minutes = _number(answer, RETENTION)
    interval = flags.check_interval_ms or _number(answer, CHECK_INTERVAL) or recorded.check_interval_ms
    return Retention(
        retention_ms=recorded.retention_ms if minutes is None else minutes * _MINUTE_MS,
        check_interval_ms=interval,
        broker_release=flags.broker_release or _release(answer) or recorded.broker_release,
        sessions=_sessions(answer) or recorded.sessions,
    )


def _sessions(answer: Mapping[str, str]) -> dict[str, SessionSettings]:
    """By type of group; brokers before 4.0 have no such groups."""
    known: dict[str, SessionSettings] = {}
    for kind, names in SESSIONS.items():
        timeout_ms, least_ms, heartbeat_ms = (_number(answer, name) for name in names)
        if timeout_ms and least_ms and heartbeat_ms:
            known[kind] = SessionSettings(timeout_ms, min(least_ms, timeout_ms), heartbeat_ms)
    return known


def _number(answer: Mapping[str, str], name: str) -> int | None:
    """A setting of which Kafka accepts 1 and more; another value is not used."""
    text = answer.get(name)
    if text is None:
        return None
    if text.isdigit() and int(text) > 0:
        return int(text)
    log.warning("a broker has %s=%s, which is no setting of Kafka: it is not used", name, safe_text(text))
    return None


def _release(answer: Mapping[str, str]) -> BrokerRelease | None:
    release = told_release(answer) if answer else None
    if answer and release is None:
        named = safe_text(answer[RELEASE_SETTING])
        log.warning("a broker has %s=%s, which names no release of Kafka", RELEASE_SETTING, named)
    return release


def contradiction(retention_ms: int | None, check_interval_ms: int | None) -> str | None:
    """What is odd about the two settings together, in one sentence; None: nothing."""
    if retention_ms is None or check_interval_ms is None or check_interval_ms <= retention_ms:
        return None
    return (
        f"{CHECK_INTERVAL} ({milliseconds(check_interval_ms)}) is longer than {RETENTION} "
        f"({milliseconds(retention_ms)}): an offset may stay for {milliseconds(check_interval_ms)} after its deadline"
    )


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
