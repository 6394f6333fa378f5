"""Checks what the flags of ``simulate`` name: a scenario, and settings of brokers and clients by Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping

from groupreplay.coordinator.simulation.scenario import Scenario
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.settings_table import (
    BROKER_SETTINGS,
    CLIENT_SETTINGS,
    PROTOCOL_VERSION,
    Setting,
    SettingValue,
    contradictions,
    shown,
)
from groupreplay.streaming.base.errors import GroupReplayError, did_you_mean, unusable


def scenario_named(name: str) -> Scenario:
    """A built-in scenario.

    Raises:
        GroupReplayError: there is no such scenario.
    """
    if name not in SCENARIOS:
        fix = f"{did_you_mean(name, SCENARIOS)}groupreplay simulate --list prints all; docs/simulations.md has the way "
        raise unusable(
            f"there is no scenario {name!r}", None, f"{fix}to simulate one of your own from Python"
        )
    return SCENARIOS[name]


def checked_properties(
    table: Mapping[str, Setting], properties: Mapping[str, str], flag: str
) -> dict[str, SettingValue]:
    """The settings of a flag such as ``--broker-property``, by Kafka's names.

    Raises:
        GroupReplayError: a name is unknown, or a value is not allowed.
    """
    values = {}
    for name, text in properties.items():
        if name not in table:
            raise _unknown(table, name, flag)
        try:
            values[name] = table[name].parsed(text)
        except ValueError as error:
            raise unusable(str(error), flag, "docs/simulations.md lists the settings") from None
    return values


def check_broker(values: Mapping[str, SettingValue], where: str, *, scala: bool = True) -> None:
    """Check that a broker would start with these settings; ``scala``: one with the older coordinator.

    Raises:
        GroupReplayError: two settings contradict each other, or the broker does not know one of them.
    """
    if PROTOCOL_VERSION in values and not scala:
        what = f"brokers since 4.0 do not know {PROTOCOL_VERSION}"
        raise unusable(what, where, "add --scala: earlier ones have the older coordinator")
    _need_none(next(iter(contradictions(BROKER_SETTINGS, values)), None), "broker", where)


def check_clients(scenario: Scenario, where: str) -> None:
    """Check that clients would start with the settings of a scenario.

    Raises:
        GroupReplayError: two settings contradict each other.
    """
    _need_none(scenario.contradiction(), "client", where)


def _need_none(contradiction: str | None, who: str, where: str) -> None:
    if contradiction is not None:
        what = f"a {who} does not start with these settings, {contradiction}"
        raise unusable(what, where, "change one of the two")


def _unknown(table: Mapping[str, Setting], name: str, where: str) -> GroupReplayError:
    other, others = ("client", CLIENT_SETTINGS) if table is BROKER_SETTINGS else ("broker", BROKER_SETTINGS)
    if name in others:
        return unusable(f"{name} is a setting of the {other}", where, f"give it with --{other}-property")
    fix = f"{did_you_mean(name, table)}known here: {', '.join(table)}"
    return unusable(f"unknown setting {shown(name)!r}", where, fix)
