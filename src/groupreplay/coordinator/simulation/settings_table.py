"""The settings of simulated brokers and clients, by Kafka's names, with Kafka's defaults and bounds.

Defaults and bounds are those of Kafka 4.3.1 (the ``ConfigDef`` of ``GroupCoordinatorConfig`` and ``ConsumerConfig``).
Where Kafka has no lower bound, the bound is the least value with a meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, Final, TypeAlias

from groupreplay.codecs import PROTOCOL_VERSIONS
from groupreplay.coordinator.consumer.assignors import ASSIGNORS
from groupreplay.coordinator.requests import MIGRATION_POLICIES
from groupreplay.coordinator.simulation.consumer import DEFAULT_STRATEGIES, STRATEGIES
from groupreplay.coordinator.simulation.script import DEFAULT_CLOSE, EVERY_START, LEAVE_GROUP, REMAIN_IN_GROUP

#: A value as Kafka has it: a number, a word or text, or a list of words.
SettingValue: TypeAlias = int | str | tuple[str, ...]
INT_MAX: Final = 2**31 - 1
#: Only brokers before 4.0 have it.
PROTOCOL_VERSION: Final = "inter.broker.protocol.version"
_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting. A number has bounds, another value may have a fixed choice of ``words``; both bounds are inclusive.

    ``field``: of ``Settings``, ``SimulationPlan`` or ``Script``; "" for a bound that only restricts other settings.
    ``unit``: the factor from Kafka's unit to that of the field. ``meanings``: the field's values of the words.
    """

    name: str
    field: str
    default: SettingValue
    doc: str
    least: int = 0
    most: int = INT_MAX
    words: tuple[str, ...] = ()
    unit: int = 1
    meanings: Mapping[str, Any] = dataclass_field(default_factory=dict)

    @property
    def allowed(self) -> str:
        """What is allowed, for people."""
        if isinstance(self.default, int):
            most = f" to {self.most}" if self.most < INT_MAX else " or more"
            return f"a whole number, {self.least}{most}"
        if self.words:
            kind = "one or several of" if isinstance(self.default, tuple) else "one of"
            return f"{kind} {', '.join(word or 'nothing' for word in self.words)}"
        return "text"

    def parsed(self, text: str) -> SettingValue:
        """The value of a flag. Raises as ``checked``."""
        try:
            return self.checked(int(text) if isinstance(self.default, int) else text)
        except ValueError:
            raise self._refused(text) from None

    def checked(self, value: object) -> SettingValue:
        """The value, if it is allowed; a list may also be one text with commas.

        Raises:
            ValueError: it is not allowed; the text names the setting, the value and what is allowed.
        """
        converted = self._converted(value)
        if converted is None:
            raise self._refused(value)
        return converted

    def _refused(self, value: object) -> ValueError:
        return ValueError(f"{self.name} must be {self.allowed}, not {shown(value)}")

    def _converted(self, value: object) -> SettingValue | None:
        if isinstance(self.default, int):
            return self._number(value)
        if isinstance(self.default, tuple):
            return self._words(value)
        if not isinstance(value, str):
            return None
        return self._word(value) if self.words else value

    def _number(self, value: object) -> int | None:
        if isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most:
            return value
        return None

    def _words(self, value: object) -> tuple[str, ...] | None:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
            return None
        words = [self._word(part.strip()) for part in parts]
        spellings = tuple(word for word in words if word is not None)
        return spellings if spellings and len({*spellings}) == len(words) else None

    def _word(self, text: str) -> str | None:
        """Kafka does not distinguish upper and lower case."""
        return next((word for word in self.words if word.lower() == text.lower()), None)

    def of_field(self, value: SettingValue) -> Any:
        """A value as the field has it; text that is empty is None there."""
        if isinstance(value, str):
            return self.meanings.get(value, value or None)
        return value * self.unit if isinstance(value, int) else value


def shown(value: object) -> str:
    """A value for people: lists with commas, text without quotes."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


_BROKER: Final = (
    Setting(
        name="group.max.size",
        field="max_size",
        default=INT_MAX,
        least=1,
        doc="The most members of a classic group. Others are refused with GROUP_MAX_SIZE_REACHED and try again.",
    ),
    Setting(
        name="group.initial.rebalance.delay.ms",
        field="initial_rebalance_delay_ms",
        default=3_000,
        doc="How long the first rebalance of an empty classic group waits for more members.",
    ),
    Setting(
        name="group.min.session.timeout.ms",
        field="min_session_timeout_ms",
        default=6_000,
        least=1,
        doc="The shortest session.timeout.ms that a classic member may have; INVALID_SESSION_TIMEOUT otherwise.",
    ),
    Setting(
        name="group.max.session.timeout.ms",
        field="max_session_timeout_ms",
        default=1_800_000,
        least=1,
        doc="The longest session.timeout.ms that a classic member may have.",
    ),
    Setting(
        name="offset.metadata.max.bytes",
        field="offset_metadata_max_bytes",
        default=4_096,
        doc="The most bytes of the metadata of a commit; OFFSET_METADATA_TOO_LARGE otherwise.",
    ),
    Setting(
        name="offsets.retention.minutes",
        field="retention_ms",
        default=7 * 24 * 60,
        least=1,
        unit=_MINUTE_MS,
        doc="How long offsets stay after the last member has left; give replay the same value.",
    ),
    Setting(
        name="offsets.retention.check.interval.ms",
        field="check_interval_ms",
        default=600_000,
        least=1,
        doc="How often the brokers look for offsets to remove.",
    ),
    Setting(
        name="offsets.topic.num.partitions",
        field="partitions",
        default=50,
        least=1,
        most=1_000,
        doc="The partitions of __consumer_offsets; 1000 is the simulation's bound, not Kafka's.",
    ),
    Setting(
        name="group.consumer.session.timeout.ms",
        field="consumer_session_timeout_ms",
        default=45_000,
        least=1,
        doc="The session timeout of members of consumer groups, which the broker decides.",
    ),
    Setting(
        name="group.consumer.min.session.timeout.ms",
        field="",
        default=45_000,
        least=1,
        doc="The lower bound of group.consumer.session.timeout.ms.",
    ),
    Setting(
        name="group.consumer.max.session.timeout.ms",
        field="",
        default=60_000,
        least=1,
        doc="The upper bound of group.consumer.session.timeout.ms.",
    ),
    Setting(
        name="group.consumer.heartbeat.interval.ms",
        field="consumer_heartbeat_interval_ms",
        default=5_000,
        least=1,
        doc="How often members of consumer groups send heartbeats, which the broker decides.",
    ),
    Setting(
        name="group.consumer.min.heartbeat.interval.ms",
        field="",
        default=5_000,
        least=1,
        doc="The lower bound of group.consumer.heartbeat.interval.ms.",
    ),
    Setting(
        name="group.consumer.max.heartbeat.interval.ms",
        field="",
        default=15_000,
        least=1,
        doc="The upper bound of group.consumer.heartbeat.interval.ms.",
    ),
    Setting(
        name="group.consumer.max.size",
        field="consumer_max_size",
        default=INT_MAX,
        least=1,
        doc="The most members of a consumer group.",
    ),
    Setting(
        name="group.consumer.assignors",
        field="consumer_assignors",
        default=tuple(ASSIGNORS),
        words=tuple(ASSIGNORS),
        doc="The broker's assignors; the first one is for members that do not choose.",
    ),
    Setting(
        name="group.consumer.assignment.interval.ms",
        field="consumer_assignment_interval_ms",
        default=1_000,
        doc="The least time between two target assignments of a consumer group.",
    ),
    Setting(
        name="group.consumer.min.assignment.interval.ms",
        field="",
        default=0,
        doc="The lower bound of group.consumer.assignment.interval.ms.",
    ),
    Setting(
        name="group.consumer.max.assignment.interval.ms",
        field="",
        default=15_000,
        doc="The upper bound of group.consumer.assignment.interval.ms.",
    ),
    Setting(
        name="group.consumer.migration.policy",
        field="migration_policy",
        default="bidirectional",
        words=MIGRATION_POLICIES,
        doc="Whether a classic group with members may become a consumer group (upgrade), and the reverse (downgrade).",
    ),
    Setting(
        name=PROTOCOL_VERSION,
        field="inter_broker_protocol_version",
        default=PROTOCOL_VERSIONS[-1],
        words=PROTOCOL_VERSIONS,
        doc="By which release brokers before 4.0 write records; only with --scala. The versions are in records.md.",
    ),
)
_CLIENT: Final = (
    Setting(
        name="session.timeout.ms",
        field="session_timeout_ms",
        default=45_000,
        least=1,
        doc="How long a classic member may be silent before it is removed.",
    ),
    Setting(
        name="heartbeat.interval.ms",
        field="heartbeat_interval_ms",
        default=3_000,
        least=1,
        doc="The time within which a classic member notices a rebalance; less than session.timeout.ms.",
    ),
    Setting(
        name="max.poll.interval.ms",
        field="rebalance_timeout_ms",
        default=300_000,
        least=1,
        doc="How long a member that does not poll stays in the group; also its rebalance timeout.",
    ),
    Setting(
        name="group.protocol",
        field="consumer_starts",
        default="classic",
        words=("classic", "consumer"),
        meanings={"classic": range(0), "consumer": EVERY_START},
        doc="The protocol: classic, or consumer (KIP-848).",
    ),
    Setting(
        name="group.instance.id",
        field="instance_id",
        default="",
        doc="The id of a static member; {group} and {member} stand for the group's id and the member's number. "
        "Empty: members are dynamic.",
    ),
    Setting(
        name="partition.assignment.strategy",
        field="strategies",
        default=DEFAULT_STRATEGIES,
        words=tuple(STRATEGIES),
        doc="The assignors of classic members, by preference; cooperative-sticky alone rebalances incrementally.",
    ),
    Setting(
        name="group.remote.assignor",
        field="remote_assignor",
        default="",
        words=("", *ASSIGNORS),
        doc="The broker's assignor that members of consumer groups choose; empty: the broker's first one.",
    ),
    Setting(
        name="auto.commit.interval.ms",
        field="commit_interval_ms",
        default=5_000,
        least=1,
        doc="The time between two commits of a member.",
    ),
    Setting(
        name="retention.time.ms",
        field="retention_time_ms",
        default=-1,
        least=-1,
        doc="How long offsets stay after their commit: the RetentionTimeMs of OffsetCommit v2 to v4, which other "
        "clients than Kafka's set. -1: the brokers' offsets.retention.minutes.",
    ),
    Setting(
        name="group.membership.operation",
        field="close",
        default=DEFAULT_CLOSE,
        words=(DEFAULT_CLOSE, LEAVE_GROUP, REMAIN_IN_GROUP),
        doc="What a member that shuts down does: the GroupMembershipOperation of CloseOptions (KIP-1092), which is an "
        "argument of close() in Kafka. DEFAULT: a dynamic member leaves, a static one remains.",
    ),
)
#: The settings of the brokers and of the clients, by Kafka's names.
BROKER_SETTINGS: Final[Mapping[str, Setting]] = {setting.name: setting for setting in _BROKER}
CLIENT_SETTINGS: Final[Mapping[str, Setting]] = {setting.name: setting for setting in _CLIENT}
#: (setting, lower bound, upper bound), each by name.
_WITHIN: Final = tuple(
    (f"group.consumer.{name}.ms", f"group.consumer.min.{name}.ms", f"group.consumer.max.{name}.ms")
    for name in ("session.timeout", "heartbeat.interval", "assignment.interval")
)
#: Pairs of settings of which the first must be less than the second.
_BELOW: Final = (
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
    ("heartbeat.interval.ms", "session.timeout.ms"),
)


def contradictions(table: Mapping[str, Setting], values: Mapping[str, SettingValue]) -> Iterable[str]:
    """What a broker or a client would refuse to start with: one sentence for each pair of settings."""
    whole = {name: values.get(name, setting.default) for name, setting in table.items()}
    orders = [
        *((least, name, "at most") for name, least, _ in _WITHIN),
        *((name, most, "at most") for name, _, most in _WITHIN),
        ("group.min.session.timeout.ms", "group.max.session.timeout.ms", "at most"),
        *((low, high, "less than") for low, high in _BELOW),
    ]
    for low, high, relation in orders:
        if low not in whole:
            continue
        first, second = whole[low], whole[high]
        assert isinstance(first, int)
        assert isinstance(second, int)
        if first > second or (first == second and relation == "less than"):
            yield f"{low} = {first} must be {relation} {high} = {second}"


def fields_of(table: Mapping[str, Setting], values: Mapping[str, SettingValue]) -> dict[str, Any]:
    """The fields that the values set, by name."""
    return {
        table[name].field: table[name].of_field(value) for name, value in values.items() if table[name].field
    }
