"""What the brokers are set to for the sessions of KIP-848, share and streams groups; the log does not hold it."""

from __future__ import annotations

from typing import Final, NamedTuple

from groupreplay.codecs.kafka_terms import DEFAULT_SESSION_TIMEOUT_MS


class SessionSettings(NamedTuple):
    """The settings of the brokers for the groups of one kind.

    ``group.KIND.session.timeout.ms``, the least one that a group may have for itself
    (``group.KIND.min.session.timeout.ms``), and ``group.KIND.heartbeat.interval.ms``. ``assumed``: nobody has said so.
    """

    timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS
    least_ms: int = DEFAULT_SESSION_TIMEOUT_MS
    heartbeat_ms: int = 5_000
    assumed: bool = False


#: Kafka's defaults, where no broker has told its own; no session is shorter than the least one of classic groups.
ASSUMED_SESSIONS: Final = SessionSettings(least_ms=6_000, assumed=True)
