"""Events as CloudEvents: attributes, sizes, schemas, and a stranger's parser."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_structured_event
from jsonschema import Draft202012Validator, FormatChecker

from groupreplay.state.display.phrases import timestamp
from groupreplay.state.events.event import Fact
from groupreplay.state.output.catalogue import EVENTS
from groupreplay.state.output.envelope import cloud_event
from groupreplay.state.output.schemas import json_schemas
from support.histories.builders import CONTEXT, generation, member, replay
from support.histories.golden import load_events, load_schemas
from support.histories.samples import one_of_each, written


def test_every_event_is_said_once_at_least() -> None:
    """The sample of this file leaves nothing out."""
    assert {type(event.fact) for event in one_of_each()} == set(EVENTS)


@pytest.mark.parametrize("fact", EVENTS, ids=lambda fact: fact.NAME)
def test_events_are_valid_by_their_schema(fact: type[Fact]) -> None:
    """Against the shipped JSON Schema, formats included; and the schema itself is valid."""
    schema = json_schemas()[fact.NAME]
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema, format_checker=FormatChecker())
    for event in one_of_each():
        if type(event.fact) is fact:
            assert list(validator.iter_errors(written(event))) == []


@pytest.mark.parametrize("fact", EVENTS, ids=lambda fact: fact.NAME)
def test_a_schema_refuses_another_field(fact: type[Fact]) -> None:
    """A field nobody declared, and one that is missing, are errors: the validation above can fail."""
    validator = Draft202012Validator(json_schemas()[fact.NAME])
    document = written(next(event for event in one_of_each() if type(event.fact) is fact))
    document["data"]["surprise"] = 1
    assert not validator.is_valid(document)
    del document["data"]["surprise"], document["data"]["cause"]
    assert not validator.is_valid(document)


def test_a_strangers_parser_reads_them() -> None:
    """The CloudEvents SDK takes every event from a Kafka message and finds the same attributes."""
    for event in one_of_each():
        message = cloud_event(event, CONTEXT, event.time_ms)
        headers = dict(message.headers)
        parsed = from_structured_event(KafkaMessage(headers, b"g", message.value))
        assert (parsed.get_id(), parsed.get_type(), parsed.get_source()) == (
            message.id,
            message.type,
            message.source,
        )
        assert parsed.get_data()["cluster_id"] == "test-cluster"


@pytest.mark.parametrize("fact", EVENTS, ids=lambda fact: fact.NAME)
def test_golden_events(fact: type[Fact]) -> None:
    """A changed field, name or value shows here before it reaches somebody's dashboard."""
    golden = load_events()
    assert [written(event) for event in one_of_each() if type(event.fact) is fact] == golden[fact.NAME]


def test_golden_schemas() -> None:
    """The schemas are a contract: a change of them is a change of ``tests/golden/schemas.json``."""
    assert json_schemas() == load_schemas()


def test_late_events_say_so() -> None:
    """An event recorded more than a minute after it happened carries ``catch_up``."""
    event = one_of_each()[0]
    flags = [
        json.loads(cloud_event(event, CONTEXT, event.time_ms + late_ms).value)["data"]["catch_up"]
        for late_ms in (0, 60_000, 60_001)
    ]
    assert flags == [False, False, True]


def test_a_huge_group_fits() -> None:
    """500 members with 30 000-byte names: 64 KiB, the counts kept, and it says that it was cut."""
    members = [member(f"{number}-" + "m" * 30_000, [number]) for number in range(500)]
    _, events = replay([generation(1, *members, at=5)])
    message = cloud_event(events[0], CONTEXT, 5)
    parsed = json.loads(message.value)
    assert len(message.value) <= 64 * 1024
    assert (parsed["data"]["member_count"], parsed["data"]["truncated"]) == (500, True)
    assert Draft202012Validator(json_schemas()["rebalance.completed"]).is_valid(parsed)


def test_a_hostile_group_id() -> None:
    """The subject is safe to show; the data keep the exact text."""
    event = replace(one_of_each()[0], group_id="\x1b[31m\n\u202e")
    parsed = written(event)
    assert (parsed["subject"], parsed["data"]["group_id"]) == (
        "\\u{1b}[31m\\u{a}\\u{202e}",
        "\x1b[31m\n\u202e",
    )
    assert written(replace(event, group_id=""))["subject"] == "(empty)"


def test_times_are_written_in_utc() -> None:
    """Milliseconds are kept; a moment no calendar can write does not fail the event."""
    assert timestamp(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert timestamp(2**62).startswith("1970-01-01T00:00:00.")
