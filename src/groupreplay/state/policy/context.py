"""The constants of one job that its events depend on, with what it hides. There is no clock among them.

Redaction: names of machines and programs are replaced by a keyed hash in events, documents and Kafka's own JSON.
What is made of such a name, like the id of a condition, is keyed, too: there are few hosts, so that all hashes without
a secret can be tried out. The state is never redacted: records and answers of brokers are matched by these names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from groupreplay.codecs.kafka_terms import DEFAULT_SESSION_TIMEOUT_MS, GroupType
from groupreplay.state.policy.broker_log import BrokerLog
from groupreplay.state.policy.pending import PendingCommit
from groupreplay.state.policy.rules import Policy

#: The prefix of a hidden value: it is no name.
MARK: Final = "~"
LEAST_KEY_BYTES: Final = 16

#: The keys below these fields are names of topics or of labels: nothing to hide.
_BY_NAME: Final = frozenset({"labels", "partitions", "revoking", "tasks"})
_MEMBER_IDS: Final = frozenset(
    {
        *("member_id", "old_member_id", "new_member_id", "leader", "joined", "left", "kept", "memberId"),
        # The coordinator's words about a rebalance name the member that began it.
        *("previous_leader", "rebalance_timeout_member", "logged"),
    }
)
#: ``client id@host``.
_PLACES: Final = frozenset({"place", "places"})
#: What can be hidden -> the fields that show it. The clients make their member ids of their client id or instance id.
FIELDS: Final[Mapping[str, frozenset[str]]] = {
    # Bytes and texts of the clients may contain hosts, too: those of Connect and Streams do.
    "hosts": frozenset(
        {
            *("client_host", "old_host", "new_host", "url", "clientHost", "host"),
            *("subscription", "assignment", "metadata", "userData"),
            # The same, decoded: the leader of Connect workers by its address, and bytes that cannot be decoded.
            *("leaderUrl", "bytes"),
        }
    )
    | _PLACES,
    # The user of a request names a program, or a person.
    "client-id": frozenset({"client_id", "clientId", "principal"}) | _PLACES | _MEMBER_IDS,
    "member-id": _MEMBER_IDS,
    "instance-id": frozenset({"instance_id", "groupInstanceId", "instanceId"}) | _MEMBER_IDS,
}


def redacted(document: dict[str, Any], redaction: Redaction | None) -> dict[str, Any]:
    """The document as it is shown; unchanged without a redaction."""
    return document if redaction is None else redaction.of(document)


@dataclass(frozen=True, slots=True)
class Redaction:
    """What is hidden (names of ``FIELDS``), and the key: the same key gives the same hash for the same text.

    Raises:
        ValueError: an unknown name, or a key that is too short to be a secret.
    """

    hidden: frozenset[str]
    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if unknown := self.hidden - FIELDS.keys():
            raise ValueError(f"cannot hide {', '.join(sorted(unknown))}; there are {', '.join(FIELDS)}")
        if len(self.key) < LEAST_KEY_BYTES:
            raise ValueError(f"the key has {len(self.key)} bytes; it must have at least {LEAST_KEY_BYTES}")

    def hide(self, text: str) -> str:
        """A hash instead of a text; an empty one stays empty."""
        if not text:
            return text
        return (
            MARK + blake2b(text.encode("utf-8", "surrogatepass"), key=self._secret, digest_size=8).hexdigest()
        )

    def digest(self, data: str | bytes, size: int) -> str:
        """So many bytes that identify a text or bytes, in hexadecimal; without the key they cannot be tried out."""
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        return blake2b(raw, key=self._secret, digest_size=size, person=b"digest").hexdigest()

    @property
    def _secret(self) -> bytes:
        return blake2b(self.key, digest_size=32).digest()

    def of(self, document: dict[str, Any]) -> dict[str, Any]:
        """A document with every hidden field hashed, at any depth."""
        names = frozenset[str]().union(*(FIELDS[kind] for kind in self.hidden))
        shown: dict[str, Any] = self._within(document, names, hidden=False)
        return shown

    def _within(self, value: Any, names: frozenset[str], *, hidden: bool) -> Any:
        if isinstance(value, Mapping):
            return {
                name: inner if name in _BY_NAME else self._within(inner, names, hidden=name in names)
                for name, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._within(entry, names, hidden=hidden) for entry in value]
        return self.hide(value) if hidden and isinstance(value, str) else value


#: Where a number comes from: it holds for the group (its members or its settings have it, or a flag gave it); it is the
#: brokers', and nobody has asked whether the group has its own; or it is Kafka's default.
NumberOrigin: TypeAlias = Literal["group", "broker", "default"]


class SessionSettings(NamedTuple):
    """The settings for the groups of one kind, or for one group.

    ``group.KIND.session.timeout.ms``, the least one that the group may have
    (``group.KIND.min.session.timeout.ms``), and ``group.KIND.heartbeat.interval.ms``.
    """

    timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS
    least_ms: int = DEFAULT_SESSION_TIMEOUT_MS
    heartbeat_ms: int = 5_000
    timeout_from: NumberOrigin = "group"
    heartbeat_from: NumberOrigin = "group"

    @property
    def assumed(self) -> dict[str, int]:
        """What nobody has said about the group, as an event names it (``event.Assumed``)."""
        timeout = {} if self.timeout_from == "group" else {"session_timeout_ms": self.timeout_ms}
        return timeout | (
            {} if self.heartbeat_from == "group" else {"heartbeat_interval_ms": self.heartbeat_ms}
        )

    def override(
        self, timeout_ms: int | None, least_ms: int | None, heartbeat_ms: int | None
    ) -> SessionSettings:
        """With these settings, None: as it is; brokers accept no least one and no interval above the timeout."""
        session_ms = timeout_ms or self.timeout_ms
        return SessionSettings(
            session_ms,
            min(least_ms or self.least_ms, session_ms),
            min(heartbeat_ms or self.heartbeat_ms, session_ms),
            "group" if timeout_ms else self.timeout_from,
            "group" if heartbeat_ms else self.heartbeat_from,
        )

    def of_group(self, kind: str, own: Mapping[str, int] | None) -> SessionSettings:
        """Those of one group of this kind, whose ``own`` settings are known by Kafka's names; None: nobody asked."""
        if own is None:
            return self
        timeout_ms, heartbeat_ms = (own.get(name.format(kind)) for name in _OWN)
        settings = self.override(timeout_ms, timeout_ms, heartbeat_ms)
        if settings.timeout_from == "broker":
            settings = settings._replace(timeout_from="group", least_ms=settings.timeout_ms)
        return settings._replace(heartbeat_from="group") if settings.heartbeat_from == "broker" else settings


_OWN: Final = ("{}.session.timeout.ms", "{}.heartbeat.interval.ms")
#: Settings that a group may have for itself, and on which something rests.
OWN_SETTINGS: Final = frozenset(
    name.format(kind.value) for kind in GroupType if kind is not GroupType.CLASSIC for name in _OWN
)


@dataclass(frozen=True, slots=True)
class OwnSettings:
    """What groups have set for themselves (``OWN_SETTINGS``), by group and Kafka's name of the setting.

    ``asked``: the groups that were asked about (None: each in the records). A group without ``settings``
    has set nothing.
    """

    settings: Mapping[str, Mapping[str, int]]
    asked: Collection[str] | None = None

    def of(self, group_id: str) -> Mapping[str, int] | None:
        """Those of a group; None: nobody asked."""
        is_asked = self.asked is None or group_id in self.asked
        return self.settings.get(group_id, {}) if is_asked else None


#: Kafka's defaults, where no broker has told its own; no session is shorter than the least one of classic groups.
ASSUMED_SESSIONS: Final = SessionSettings(least_ms=6_000, timeout_from="default", heartbeat_from="default")


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
    to for sessions, as far as it is known. ``own_settings`` are those of groups, for a log without a prober's answers
    (None: nobody asked). ``broker_log`` is what the logs of brokers say, and ``pending`` are the
    commits of open transactions by group: for commands that read once.
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
    own_settings: OwnSettings | None = None
    broker_log: BrokerLog = field(default_factory=BrokerLog)
    pending: Mapping[str, Sequence[PendingCommit]] = field(default_factory=dict)

    @property
    def own_since_ms(self) -> int:
        """Since when the job's own conditions count: those of another job are not this one's."""
        return max(self.emit_since_ms, self.told_until_ms)

    def is_complete(self, at_ms: int) -> bool:
        """Whether the whole log before this moment is known: nothing of a group is older than its first record."""
        return self.complete_since_ms is not None and at_ms >= self.complete_since_ms

    def session_of(
        self, kind: str, group_id: str, answered: Mapping[str, int] | None = None
    ) -> SessionSettings:
        """The session of members without one of their own: their group's as far as somebody asked, else the brokers'.

        ``answered``: what the group has set for itself, by the last answer of a prober.
        """
        own = answered if self.own_settings is None else self.own_settings.of(group_id)
        return self.sessions.get(kind, ASSUMED_SESSIONS).of_group(kind, own)

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
