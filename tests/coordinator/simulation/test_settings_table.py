"""The table of settings against Kafka's own, and what is refused."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import pytest

from groupreplay.coordinator.requests import Settings
from groupreplay.coordinator.simulation.script import EVERY_START, Script
from groupreplay.coordinator.simulation.settings_table import (
    BROKER_SETTINGS,
    CLIENT_SETTINGS,
    INT_MAX,
    contradictions,
    fields_of,
)
from groupreplay.coordinator.simulation.simulation import SimulationPlan

#: Name, default and validator as the ``ConfigDef`` of Kafka 4.3.1 prints them (``GroupCoordinatorConfig``,
#: ``OffsetConfig``, ``ConsumerConfig``).
KAFKA_BROKER = """\
group.max.size|2147483647|[1,...]
group.initial.rebalance.delay.ms|3000|null
group.min.session.timeout.ms|6000|null
group.max.session.timeout.ms|1800000|null
offset.metadata.max.bytes|4096|null
offsets.retention.minutes|10080|[1,...]
offsets.retention.check.interval.ms|600000|[1,...]
offsets.topic.num.partitions|50|[1,...]
group.consumer.session.timeout.ms|45000|[1,...]
group.consumer.min.session.timeout.ms|45000|[1,...]
group.consumer.max.session.timeout.ms|60000|[1,...]
group.consumer.heartbeat.interval.ms|5000|[1,...]
group.consumer.min.heartbeat.interval.ms|5000|[1,...]
group.consumer.max.heartbeat.interval.ms|15000|[1,...]
group.consumer.max.size|2147483647|[1,...]
group.consumer.assignors|[uniform, range]|
group.consumer.assignment.interval.ms|1000|[0,...]
group.consumer.min.assignment.interval.ms|0|[0,...]
group.consumer.max.assignment.interval.ms|15000|[0,...]
group.consumer.migration.policy|bidirectional|(case insensitive) [DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL]
"""
KAFKA_CLIENT = """\
session.timeout.ms|45000|null
heartbeat.interval.ms|3000|null
max.poll.interval.ms|300000|[1,...]
group.protocol|classic|(case insensitive) [CONSUMER, CLASSIC]
group.instance.id|null|non-empty string
partition.assignment.strategy|[RangeAssignor, CooperativeStickyAssignor]|
group.remote.assignor|null|null
auto.commit.interval.ms|5000|[0,...]
"""
ASSIGNORS = {"RangeAssignor": "range", "CooperativeStickyAssignor": "cooperative-sticky"}
#: An argument of close(), a field of a request, and a setting of brokers before 4.0.
ELSEWHERE = ("group.membership.operation", "retention.time.ms", "inter.broker.protocol.version")
#: Stricter than Kafka: the simulation's own bounds.
STRICTER = {"auto.commit.interval.ms": 1}


@pytest.mark.parametrize(
    ("table", "kafka"), [(BROKER_SETTINGS, KAFKA_BROKER), (CLIENT_SETTINGS, KAFKA_CLIENT)]
)
def test_names_defaults_and_bounds_are_kafkas(table: dict[str, Any], kafka: str) -> None:
    """In Kafka's order, without those that no ``ConfigDef`` of 4.3.1 has."""
    rows = [line.split("|") for line in kafka.splitlines()]
    assert [name for name in table if name not in ELSEWHERE] == [name for name, _, _ in rows]
    for name, default, validator in rows:
        one = table[name]
        if isinstance(one.default, tuple):
            words = default.strip("[]").split(", ")
            assert one.default == tuple(ASSIGNORS.get(word, word) for word in words)
        else:
            assert str(one.default) == default.replace("null", "")
        if validator.startswith("["):
            assert one.least == STRICTER.get(name, int(validator[1:].partition(",")[0]))
        if "insensitive" in validator:
            words = validator.partition("[")[2].strip("]").lower().split(", ")
            assert {word.lower() for word in one.words} == set(words)


@pytest.mark.parametrize(
    ("table", "kinds"), [(BROKER_SETTINGS, (Settings, SimulationPlan)), (CLIENT_SETTINGS, (Script,))]
)
def test_a_default_is_that_of_its_field(table: dict[str, Any], kinds: tuple[type, ...]) -> None:
    """So leaving a setting out and giving its default are the same; each field exists."""
    known = {field.name: field.default for kind in kinds for field in fields(kind)}
    for one in table.values():
        if one.field:
            assert known[one.field] is not MISSING
            assert one.of_field(one.default) == known[one.field], one.name


def test_only_bounds_have_no_field() -> None:
    """They restrict another setting, as Kafka's brokers do when they start."""
    assert {name for name, one in BROKER_SETTINGS.items() if not one.field} == {
        f"group.consumer.{bound}.{one}.ms"
        for bound in ("min", "max")
        for one in ("session.timeout", "heartbeat.interval", "assignment.interval")
    }
    assert all(setting.field for setting in CLIENT_SETTINGS.values())


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("group.max.size", "2", 2),
        ("group.max.size", "2147483647", INT_MAX),
        ("group.consumer.assignors", "range", ("range",)),
        ("group.consumer.assignors", "range, UNIFORM", ("range", "uniform")),
        ("group.consumer.migration.policy", "Upgrade", "upgrade"),
        ("group.protocol", "CONSUMER", "consumer"),
        ("group.instance.id", "i-{member}", "i-{member}"),
        ("group.instance.id", "", ""),
        ("group.membership.operation", "leave_group", "LEAVE_GROUP"),
    ],
)
def test_a_flag_is_parsed(name: str, text: str, value: object) -> None:
    """Words in Kafka's spelling, whatever their case."""
    assert {**BROKER_SETTINGS, **CLIENT_SETTINGS}[name].parsed(text) == value


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("group.max.size", 0, "a whole number, 1 or more"),
        ("group.max.size", INT_MAX + 1, "a whole number, 1 or more"),
        ("group.max.size", True, "a whole number, 1 or more"),
        ("group.max.size", 1.5, "a whole number, 1 or more"),
        ("group.max.size", "2", "a whole number, 1 or more"),
        ("offsets.topic.num.partitions", 1_001, "a whole number, 1 to 1000"),
        ("group.consumer.assignors", "sticky", "one or several of uniform, range"),
        ("group.consumer.assignors", [], "one or several of uniform, range"),
        ("group.consumer.assignors", ["range", "range"], "one or several of uniform, range"),
        ("group.consumer.assignors", [1], "one or several of uniform, range"),
        ("group.protocol", "streams", "one of classic, consumer"),
        ("group.remote.assignor", "sticky", "one of nothing, uniform, range"),
        ("group.instance.id", 3, "text"),
    ],
)
def test_a_value_that_is_refused(name: str, value: object, allowed: str) -> None:
    """The sentence names the setting, the value and what is allowed."""
    with pytest.raises(ValueError, match="must be") as caught:
        {**BROKER_SETTINGS, **CLIENT_SETTINGS}[name].checked(value)
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    assert str(caught.value) == f"{name} must be {allowed}, not {text}"


def test_a_number_of_a_flag_that_is_no_number_is_refused() -> None:
    """With the text as it was given."""
    with pytest.raises(ValueError, match=r"group\.max\.size must be a whole number, 1 or more, not two"):
        BROKER_SETTINGS["group.max.size"].parsed("two")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, None),
        ({"group.min.session.timeout.ms": 6_000, "group.max.session.timeout.ms": 6_000}, None),
        (
            {"group.max.session.timeout.ms": 5_000},
            "group.min.session.timeout.ms = 6000 must be at most group.max.session.timeout.ms = 5000",
        ),
        (
            {"group.consumer.session.timeout.ms": 10_000},
            "group.consumer.min.session.timeout.ms = 45000 must be at most "
            "group.consumer.session.timeout.ms = 10000",
        ),
        (
            {"group.consumer.heartbeat.interval.ms": 20_000},
            "group.consumer.heartbeat.interval.ms = 20000 must be at most "
            "group.consumer.max.heartbeat.interval.ms = 15000",
        ),
        (
            {"group.consumer.session.timeout.ms": 5_000, "group.consumer.min.session.timeout.ms": 5_000},
            "group.consumer.heartbeat.interval.ms = 5000 must be less than "
            "group.consumer.session.timeout.ms = 5000",
        ),
    ],
)
def test_settings_with_which_a_broker_does_not_start(values: dict[str, Any], sentence: str | None) -> None:
    """The first pair that contradicts itself; what is not given has Kafka's default."""
    assert next(iter(contradictions(BROKER_SETTINGS, values)), None) == sentence


def test_values_become_fields() -> None:
    """In the units of the fields, with words as they are there; bounds set nothing."""
    broker = {"offsets.retention.minutes": 2, "group.consumer.max.session.timeout.ms": 70_000}
    assert fields_of(BROKER_SETTINGS, broker) == {"retention_ms": 120_000}
    client = {"group.protocol": "consumer", "group.instance.id": "", "group.remote.assignor": "range"}
    assert fields_of(CLIENT_SETTINGS, client) == {
        "consumer_starts": EVERY_START,
        "instance_id": None,
        "remote_assignor": "range",
    }
