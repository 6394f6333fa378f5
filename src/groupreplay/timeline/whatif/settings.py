"""The settings that can be asked about: one table, with what each belongs to and how it enters a play.

Values, defaults and bounds are those of ``coordinator.simulation.settings_table``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from groupreplay.coordinator.requests import Settings
from groupreplay.coordinator.simulation.script import STATIC
from groupreplay.coordinator.simulation.settings_table import (
    BROKER_SETTINGS,
    CLIENT_SETTINGS,
    Setting,
    SettingValue,
    contradictions,
    fields_of,
)

SESSION: Final = "session.timeout.ms"
HEARTBEAT: Final = "heartbeat.interval.ms"
POLL: Final = "max.poll.interval.ms"
STRATEGY: Final = "partition.assignment.strategy"
PROTOCOL: Final = "group.protocol"
INSTANCE: Final = "group.instance.id"
COMMIT: Final = "auto.commit.interval.ms"
CLOSE: Final = "group.membership.operation"
INITIAL_DELAY: Final = "group.initial.rebalance.delay.ms"
RETENTION: Final = "offsets.retention.minutes"
CHECK: Final = "offsets.retention.check.interval.ms"
CONSUMER_SESSION: Final = "group.consumer.session.timeout.ms"
CONSUMER_HEARTBEAT: Final = "group.consumer.heartbeat.interval.ms"
#: The values of ``group.instance.id``: the members of each lineage have an id of their own, or none has any.
AUTO: Final = "auto"
NONE: Final = "none"

Protocol = Literal["classic", "consumer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSetting:
    """A setting that ``--set`` takes. ``protocols``: in which it has an effect."""

    name: str
    whose: Literal["client", "broker"]
    protocols: tuple[Protocol, ...] = ("classic", "consumer")
    effect: str

    @property
    def setting(self) -> Setting:
        """Its values, default and bounds."""
        return (CLIENT_SETTINGS if self.whose == "client" else BROKER_SETTINGS)[self.name]

    def parsed(self, text: str) -> SettingValue:
        """The value of a flag.

        Raises:
            ValueError: it is not allowed; the text says what is.
        """
        if self.name != INSTANCE:
            return self.setting.parsed(text)
        if text not in (AUTO, NONE):
            raise ValueError(f"{INSTANCE} must be {AUTO} or {NONE}, not {text}")
        return text


_CLASSIC: Final[tuple[Protocol, ...]] = ("classic",)
_CONSUMER: Final[tuple[Protocol, ...]] = ("consumer",)
_TABLE: Final = (
    AskedSetting(
        name=INSTANCE,
        whose="client",
        effect=f"{AUTO}: a member that comes back keeps its instance id; {NONE}: members are dynamic",
    ),
    AskedSetting(name=SESSION, whose="client", protocols=_CLASSIC, effect="when a silent member is removed"),
    AskedSetting(
        name=HEARTBEAT, whose="client", protocols=_CLASSIC, effect="how soon members notice a rebalance"
    ),
    AskedSetting(
        name=POLL,
        whose="client",
        effect="when a member that hangs leaves, and how long a rebalance waits for it",
    ),
    AskedSetting(
        name=STRATEGY,
        whose="client",
        protocols=_CLASSIC,
        effect="which partitions stand still, and which move",
    ),
    AskedSetting(name=PROTOCOL, whose="client", effect="classic, or consumer (KIP-848)"),
    AskedSetting(
        name=CLOSE, whose="client", effect="whether a member that shuts down leaves the group (KIP-1092)"
    ),
    AskedSetting(
        name=INITIAL_DELAY,
        whose="broker",
        protocols=_CLASSIC,
        effect="how long the first rebalance of an empty group waits",
    ),
    AskedSetting(name=RETENTION, whose="broker", effect="when the offsets of an empty group are removed"),
    AskedSetting(
        name=CONSUMER_SESSION, whose="broker", protocols=_CONSUMER, effect="when a silent member is removed"
    ),
    AskedSetting(
        name=CONSUMER_HEARTBEAT,
        whose="broker",
        protocols=_CONSUMER,
        effect="how soon members notice a new assignment",
    ),
)
#: By Kafka's names.
ASKED: Final[Mapping[str, AskedSetting]] = {setting.name: setting for setting in _TABLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaySettings:
    """The settings of a play, by Kafka's names; Kafka's defaults for all others."""

    values: Mapping[str, SettingValue]

    def __getitem__(self, name: str) -> Any:
        """The value of a setting in Kafka's unit."""
        if name in self.values:
            return self.values[name]
        return (CLIENT_SETTINGS if name in CLIENT_SETTINGS else BROKER_SETTINGS)[name].default

    @property
    def is_consumer(self) -> bool:
        """Whether the clients have the protocol of KIP-848."""
        return bool(self[PROTOCOL] == "consumer")

    @property
    def session_ms(self) -> int:
        """How long a member may be silent."""
        return int(self[CONSUMER_SESSION if self.is_consumer else SESSION])

    @property
    def notice_ms(self) -> int:
        """How long the members of a rebalance need at most to notice it, before any of them has joined."""
        return 0 if self.is_consumer else int(self[HEARTBEAT])

    def changed(self, values: Mapping[str, SettingValue]) -> PlaySettings:
        """With these in place of their own; a heartbeat interval that nobody named stays below its session."""
        whole = {**self.values, **values}
        if SESSION in values and HEARTBEAT not in values:
            whole[HEARTBEAT] = min(self[HEARTBEAT], max(1, int(session_of(whole)) // 3))
        return PlaySettings(values=whole)

    def contradiction(self) -> str | None:
        """What a client or a broker would refuse to start with; None: nothing."""
        tables = (CLIENT_SETTINGS, BROKER_SETTINGS)
        return next((text for table in tables for text in contradictions(table, self._of(table))), None)

    def script_fields(self) -> dict[str, Any]:
        """The fields of a ``Script``."""
        fields = fields_of(CLIENT_SETTINGS, self._of(CLIENT_SETTINGS))
        return fields | {"instance_id": STATIC if self[INSTANCE] == AUTO else None}

    def broker_settings(self) -> Settings:
        """Those of the model's broker."""
        fields = fields_of(BROKER_SETTINGS, self._of(BROKER_SETTINGS))
        fields.pop("check_interval_ms", None)
        return Settings(**fields)

    def _of(self, table: Mapping[str, Setting]) -> dict[str, SettingValue]:
        return {name: value for name, value in self.values.items() if name in table}


def session_of(values: Mapping[str, SettingValue]) -> int:
    """The session timeout among values, or Kafka's default."""
    value = values.get(SESSION, CLIENT_SETTINGS[SESSION].default)
    assert isinstance(value, int)
    return value
