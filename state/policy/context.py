"""The constants of one job that its events depend on. There is no clock among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from groupreplay.state.events.event import Evidence
from groupreplay.state.policy.redaction import Redaction
from groupreplay.state.policy.rules import Policy
from groupreplay.state.policy.sessions import SessionSettings

#: The topic that is read. Its name is Kafka's own and no setting.
OFFSETS_TOPIC = "__consumer_offsets"
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
    ``retention_ms`` is how long the brokers keep offsets; None: not known, Kafka's default is assumed. They remove
    expired offsets every ``retention_check_interval_ms``.
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
    retention_check_interval_ms: int = DEFAULT_CHECK_INTERVAL_MS
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
    def retention_evidence(self) -> Evidence:
        """The evidence of a deadline: the log and the brokers' setting, or an assumption."""
        return Evidence.INFERRED if self.retention_ms is None else Evidence.LOG
