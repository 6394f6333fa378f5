"""What the log does not hold of the brokers: retention of committed offsets, release, and session timeouts.

A flag wins, then a broker's answer, then what a capture has recorded. Nothing here asks a broker.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.phrases import milliseconds, safe_text
from groupreplay.state.policy.context import ASSUMED_SESSIONS, BrokerRelease, OwnSettings, SessionSettings
from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.config.settings import RetentionFlags

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
#: The setting names the release until 3.9; 4.0 removed it.
RELEASE_SETTING: Final = "inter.broker.protocol.version"
#: The first release without the setting.
_UNNAMED: Final = (4, 0)
RELEASE_NUMBER: Final = re.compile(r"(\d{1,4})\.(\d{1,4})(?!\d)")
_NAMED: Final = re.compile(rf"(?:^|\bKafka ){RELEASE_NUMBER.pattern}")
_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The settings and the release of the brokers; None: neither a flag nor a broker gives it.

    ``sessions`` are by type of group; empty: not known. ``own_settings`` are those of groups; None: nobody asked.
    """

    retention_ms: int | None = None
    check_interval_ms: int | None = None
    broker_release: BrokerRelease | None = None
    sessions: Mapping[str, SessionSettings] = field(default_factory=dict)
    own_settings: OwnSettings | None = None

    def for_context(self) -> dict[str, Any]:
        """As fields of ``Context``."""
        return {
            "retention_ms": self.retention_ms,
            "retention_check_interval_ms": self.check_interval_ms,
            "broker_release": self.broker_release,
            "sessions": self.sessions,
            "own_settings": self.own_settings,
        }


def answered(answer: Mapping[str, str], recorded: Retention | None = None) -> Retention:
    """What a broker answers (its settings), or what a capture has ``recorded``."""
    recorded = recorded or Retention()
    minutes = _number(answer, RETENTION)
    return Retention(
        retention_ms=recorded.retention_ms if minutes is None else minutes * _MINUTE_MS,
        check_interval_ms=_number(answer, CHECK_INTERVAL) or recorded.check_interval_ms,
        broker_release=_release(answer) or recorded.broker_release,
        sessions=_sessions(answer) or recorded.sessions,
        own_settings=recorded.own_settings,
    )


def effective(flags: RetentionFlags, answer: Retention) -> Retention:
    """The flags, and where a flag is missing what the brokers or a capture have ``told``.

    A flag that contradicts them is named in the log.
    """
    for contradicted in _overruled(flags, answer):
        log.warning("%s", contradicted)
    return with_flags(flags, answer)


def with_flags(flags: RetentionFlags, answer: Retention) -> Retention:
    """As ``effective``, without a word."""
    minutes = flags.retention_minutes
    return Retention(
        retention_ms=answer.retention_ms if minutes is None else minutes * _MINUTE_MS,
        check_interval_ms=flags.check_interval_ms or answer.check_interval_ms,
        broker_release=flags.broker_release or answer.broker_release,
        sessions={**answer.sessions, **_given_sessions(flags, answer)},
        own_settings=answer.own_settings,
    )


def _given_sessions(flags: RetentionFlags, answer: Retention) -> dict[str, SessionSettings]:
    """By type of group, where a flag has given one of its settings."""
    return {
        kind: answer.sessions.get(kind, ASSUMED_SESSIONS).override(*map(flags.session_settings.get, names))
        for kind, names in SESSIONS.items()
        if not flags.session_settings.keys().isdisjoint(names)
    }


def _overruled(flags: RetentionFlags, told: Retention) -> Iterator[str]:
    """What the brokers, or the capture, say otherwise than a flag, in one sentence each."""
    pairs: list[tuple[str, object, object]] = [
        (RETENTION, flags.retention_minutes, told.retention_ms and told.retention_ms // _MINUTE_MS),
        (CHECK_INTERVAL, flags.check_interval_ms, told.check_interval_ms),
    ]
    for kind, session in told.sessions.items():
        pairs += [
            (name, flags.session_settings.get(name), value)
            for name, value in zip(SESSIONS[kind], session[:3], strict=True)
        ]
    for name, flag, answer in pairs:
        if flag is not None and answer is not None and flag != answer:
            yield f"the brokers, or the capture, have {name}={answer}; the flag's {flag} is used"


def _sessions(answer: Mapping[str, str]) -> dict[str, SessionSettings]:
    """By type of group; brokers before 4.0 have no such groups."""
    sessions: dict[str, SessionSettings] = {}
    for kind, names in SESSIONS.items():
        timeout_ms, least_ms, heartbeat_ms = (_number(answer, name) for name in names)
        if timeout_ms and least_ms and heartbeat_ms:
            sessions[kind] = of_brokers(timeout_ms, min(least_ms, timeout_ms), heartbeat_ms)
    return sessions


def of_brokers(timeout_ms: int, least_ms: int, heartbeat_ms: int) -> SessionSettings:
    """The brokers' own numbers: a group may have others."""
    return SessionSettings(timeout_ms, least_ms, heartbeat_ms, "broker", "broker")


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


def parsed_release(text: str) -> BrokerRelease | None:
    """``2.8``, ``2.8.1``, ``2.8-IV1``, ``Kafka 2.8`` and ``Kafka 4.0 or later``; None: no release of Kafka."""
    match = _NAMED.search(text)
    return (int(match[1]), int(match[2])) if match else None


def told_release(settings: Mapping[str, str]) -> BrokerRelease | None:
    """The release by the settings of a broker, among which are others than ``RELEASE_SETTING``; None: it is unreadable.

    4.0 stands for each later one.
    """
    named = settings.get(RELEASE_SETTING)
    return _UNNAMED if named is None else parsed_release(named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """Settings of the brokers; None: what a broker or the capture says, else Kafka's default.

    ``retention_minutes`` is ``offsets.retention.minutes``, ``check_interval_ms`` is
    ``offsets.retention.check.interval.ms``, ``release`` the release of Kafka, such as ``3.9``.
    """

    retention_minutes: int | None = None
    check_interval_ms: int | None = None
    release: str | None = None

    def flags(self) -> RetentionFlags:
        """The same as the flags of the commands.

        Raises:
            GroupReplayError: the release is none of Kafka.
        """
        return RetentionFlags(
            retention_minutes=self.retention_minutes,
            check_interval_ms=self.check_interval_ms,
            broker_release=self._release(),
        )

    def _release(self) -> BrokerRelease | None:
        release = None if self.release is None else parsed_release(self.release)
        if self.release is not None and release is None:
            raise unusable(f"{self.release!r} is no release of Kafka", None, "give two numbers, such as 3.9")
        return release
