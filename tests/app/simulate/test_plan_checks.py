"""Flags of ``simulate``: an error for each mistake."""

from __future__ import annotations

import pytest

from groupreplay.app.simulate.plan_checks import (
    check_broker,
    check_clients,
    checked_properties,
    scenario_named,
)
from groupreplay.coordinator.simulation.settings_table import BROKER_SETTINGS, CLIENT_SETTINGS
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError


def test_a_scenario_that_is_not_there() -> None:
    """The error has the nearest one, and where the others are."""
    assert scenario_named("storm").name == "storm"
    with pytest.raises(GroupReplayError) as caught:
        scenario_named("storn")
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.what == "there is no scenario 'storn'"
    assert "did you mean storm? groupreplay simulate --list prints all" in (caught.value.fix or "")


def test_clients_that_would_not_start() -> None:
    """The scenario with the settings of the flags is checked."""
    wrong = scenario_named("mixed").with_client({"heartbeat.interval.ms": 45_000})
    with pytest.raises(GroupReplayError, match=r"a client does not start with these settings, .* \(flag\)"):
        check_clients(wrong, "flag")


def test_settings_of_flags() -> None:
    """Text becomes numbers and lists; a mistake names the flag."""
    flags = {"group.max.size": "2", "group.consumer.assignors": "range"}
    assert checked_properties(BROKER_SETTINGS, flags, "--broker-property") == {
        "group.max.size": 2,
        "group.consumer.assignors": ("range",),
    }
    for name, text, sentence in (
        (
            "sesion.timeout.ms",
            "1",
            "unknown setting 'sesion.timeout.ms' (--client-property): did you mean session.timeout.ms? known here: ",
        ),
        (
            "group.max.size",
            "1",
            "group.max.size is a setting of the broker (--client-property): give it with --broker-property",
        ),
        (
            "session.timeout.ms",
            "10s",
            "session.timeout.ms = 10s is not allowed, but a whole number, 1 or more (--client-property): "
            "docs/simulations.md lists the settings",
        ),
    ):
        with pytest.raises(GroupReplayError) as caught:
            checked_properties(CLIENT_SETTINGS, {name: text}, "--client-property")
        assert str(caught.value).startswith(sentence)
        assert caught.value.exit_code is ExitCode.USAGE


def test_a_broker_that_would_not_start() -> None:
    """The flags and the file together are checked."""
    check_broker({"group.min.session.timeout.ms": 1, "group.max.session.timeout.ms": 1}, "flag")
    with pytest.raises(GroupReplayError, match=r"a broker does not start with these settings, .* \(flag\)"):
        check_broker({"group.min.session.timeout.ms": 2, "group.max.session.timeout.ms": 1}, "flag")


def test_a_broker_that_does_not_know_a_setting() -> None:
    """The versions of records follow from a setting that Kafka 4 does not have."""
    old = {"inter.broker.protocol.version": "1.1"}
    check_broker(old, "flag", scala=True)
    with pytest.raises(
        GroupReplayError, match=r"brokers since 4.0 do not know inter.broker.* \(flag\): add --scala"
    ):
        check_broker(old, "flag", scala=False)
