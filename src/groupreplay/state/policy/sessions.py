"""What the brokers are set to for the sessions of KIP-848, share and streams groups; the log does not hold it."""

from __future__ import annotations

from typing import Final, NamedTuple

from groupreplay.codecs.kafka_terms import DEFAULT_SESSION_TIMEOUT_MS


class SessionSettings(NamedTuple):
    """The settings of the brokers for the groups of one kind.

    ``group.KIND.session.timeout.ms``, the least one that a group may have for itself
    (``group.KIND.min.session.timeout.ms``), and ``group.KIND.heartbeat.interval.ms``. ``timeout_assumed`` and
    ``heartbeat_assumed``: nobody has said so.
    """

    timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS
    least_ms: int = DEFAULT_SESSION_TIMEOUT_MS
    heartbeat_ms: int = 5_000
    timeout_assumed: bool = False
    heartbeat_assumed: bool = False

    @property
    def assumed(self) -> dict[str, int]:
        """What nobody has said, as an event names it (``event.Assumed``)."""
        timeout = {"session_timeout_ms": self.timeout_ms} if self.timeout_assumed else {}
        return timeout | ({"heartbeat_interval_ms": self.heartbeat_ms} if self.heartbeat_assumed else {})

    def override(
        self, timeout_ms: int | None, least_ms: int | None, heartbeat_ms: int | None
    ) -> SessionSettings:
        """With these settings, None: as it is; brokers accept no least one and no interval above the timeout."""
        session_ms = timeout_ms or self.timeout_ms
        return SessionSettings(
            session_ms,
            min(least_ms or self.least_ms, session_ms),
            min(heartbeat_ms or self.heartbeat_ms, session_ms),
            self.timeout_assumed and timeout_ms is None,
            self.heartbeat_assumed and heartbeat_ms is None,
        )


#: Kafka's defaults, where no broker has told its own; no session is shorter than the least one of classic groups.
ASSUMED_SESSIONS: Final = SessionSettings(least_ms=6_000, timeout_assumed=True, heartbeat_assumed=True)
