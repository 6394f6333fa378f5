"""The settings that can be asked about, and those of a play."""

from __future__ import annotations

import pytest

from groupreplay.coordinator.requests import Settings
from groupreplay.coordinator.simulation.settings_table import BROKER_SETTINGS, CLIENT_SETTINGS
from groupreplay.timeline.whatif.settings import ASKED, AUTO, HEARTBEAT, INSTANCE, SESSION, PlaySettings


def test_each_setting_is_one_of_the_model() -> None:
    """Of the clients or of the brokers, by Kafka's name."""
    tables = {"client": CLIENT_SETTINGS, "broker": BROKER_SETTINGS}
    assert [name for name, asked in ASKED.items() if name not in tables[asked.whose]] == []


def test_values_are_checked() -> None:
    """By Kafka's bounds; an instance id is automatic or none."""
    assert ASKED[SESSION].parsed("10000") == 10_000
    for name, text in ((SESSION, "soon"), (INSTANCE, "x")):
        with pytest.raises(ValueError, match="must be "):
            ASKED[name].parsed(text)


def test_a_shorter_session_takes_its_heartbeats_along() -> None:
    """Unless somebody names their interval, which may then contradict it."""
    recorded = PlaySettings(values={SESSION: 45_000})
    assert recorded.changed({SESSION: 6_000})[HEARTBEAT] == 2_000
    wrong = recorded.changed({SESSION: 6_000, HEARTBEAT: 7_000})
    assert wrong.contradiction() == (
        "heartbeat.interval.ms = 7000 must be less than session.timeout.ms = 6000"
    )


def test_the_fields_of_a_play() -> None:
    """Clients get an instance id each; the brokers have the defaults but for what is set."""
    settings = PlaySettings(values={INSTANCE: AUTO, "offsets.retention.minutes": 60})
    assert settings.script_fields() == {"instance_id": "{group}-i{member}"}
    assert settings.broker_settings() == Settings(retention_ms=3_600_000)
