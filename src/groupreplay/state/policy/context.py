"""The constants of one job that its events depend on. There is no clock among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from groupreplay.codecs.kafka_terms import DEFAULT_SESSION_TIMEOUT_MS
from groupreplay.state.policy.redaction import Redaction
from groupreplay.state.policy.rules import Policy


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


#: The topic that is read. Its name is Kafka's own and no setting.
OFFSETS_TOPIC = "__consumer_offsets"
#: Major and minor number of a release of Kafka.
BrokerRelease: TypeAlias = tuple[int, int]
#: The releases whose rules of expiry are assumed where nobody has given the release.
NEWEST_RULES = "3.2 or later"
#: ``offsets.retention.minutes`` and ``offsets.retention.check.interval.ms`` where nobody has set them.
DEFAULT_RETENTION_MS = 7 * 24 * 3_600_000
DEFAULT_CHECK_INTERVAL_MS = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Constants of one job on one cluster.

    ``era`` names one life of the offsets topic (its topic id in Kafka's text form, ``0`` when unknown): ids
    of events and the guard against applying a record twice hold inside one era only.
    ``emit_since_ms``: events of an earlier time are not emitted (0: all are).
    ``told_until_ms``: another job has emitted the events of an earlier time; they count here, and are not written.
    ``complete_since_ms``: the whole log before this moment was read, so that from then on a first commit of an
    unknown group proves that the group was created (None: not known).
    ``catch_up_after_ms``: an event emitted later than this after it happened carries ``catch_up``.
    ``topic_names``: names of topic ids (text form), for what the log itself does not name.
    ``retention_ms`` is how long the brokers keep offsets, and ``retention_check_interval_ms`` how often they remove the
    expired ones; None: not known, Kafka's default is assumed. ``broker_release`` is the brokers' release (None: not
    known, the newest rules are assumed).
    ``release`` is the running release; a group that another one quarantined is tried again. ``retry_run`` (the id of
    this run, or None): groups that another run quarantined are tried again, too.
    ``probing``: a prober asks the brokers which groups rebalance. ``redaction``: what events and documents hide.
    ``clock_correction_ms`` is what must be added to the clock of the job's machine to get the brokers' time.
    ``job_id`` names the job in messages about its own state. ``sessions``: by type of group, what the brokers are set
    to for sessions, as far as it is known.
    """

    cluster_id: str
    era: str = "0"
    emit_since_ms: int = 0
    complete_since_ms: int | None = None
    catch_up_after_ms: int = 60_000
    topic_names: Mapping[str, str] = field(default_factory=dict)
    member_events: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    probing: bool = False
    retention_ms: int | None = None
    retention_check_interval_ms: int | None = None
    broker_release: BrokerRelease | None = None
    policy: Policy = field(default_factory=Policy)
    redaction: Redaction | None = None
    release: str = ""
    retry_run: str | None = None
    clock_correction_ms: int = 0
    job_id: str = ""
    told_until_ms: int = 0
    sessions: Mapping[str, SessionSettings] = field(default_factory=dict)

    @property
    def own_since_ms(self) -> int:
        """Since when the job's own conditions count: those of another job are not this one's."""
        return max(self.emit_since_ms, self.told_until_ms)

    @property
    def assumed_retention_ms(self) -> int:
        """The retention that deadlines are calculated with."""
        return DEFAULT_RETENTION_MS if self.retention_ms is None else self.retention_ms

    @property
    def assumed_retention(self) -> dict[str, int]:
        """The retention as an event names it (``event.Assumed``) if nobody has given it; else nothing."""
        return {} if self.retention_ms is not None else {"retention_ms": DEFAULT_RETENTION_MS}

    @property
    def assumed_check_interval_ms(self) -> int:
        """The interval of clean-ups that is expected."""
        known_ms = self.retention_check_interval_ms
        return DEFAULT_CHECK_INTERVAL_MS if known_ms is None else known_ms

    @property
    def assumed_check_interval(self) -> dict[str, int]:
        """The interval of clean-ups as an event names it (``event.Assumed``) if nobody has given it; else nothing."""
        return (
            {}
            if self.retention_check_interval_ms is not None
            else {"check_interval_ms": DEFAULT_CHECK_INTERVAL_MS}
        )
