"""Documents that fit."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_structured_event
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from groupreplay.state.events.event import Fact
from groupreplay.state.output.envelope import EVENTS, cloud_event, fit_json, json_schemas
from groupreplay.state.phrases import timestamp
from support.histories.builders import CONTEXT, generation, member, replay
from support.histories.golden import load_events, load_schemas
from support.histories.samples import one_of_each, written


def test_a_small_document_is_untouched() -> None:
    """No mark, no cut."""
    assert json.loads(fit_json({"a": [1, 2], "b": "x"}, 100)) == {"a": [1, 2], "b": "x"}


def test_a_large_document_keeps_its_fields_and_says_so() -> None:
    """Lists and texts are cut, numbers and field names stay."""
    document = {"count": 5_000, "members": [{"id": "m" * 20}] * 5_000, "text": "x" * 5_000}
    cut = json.loads(fit_json(document, 4_096))
    assert (cut["count"], cut["truncated"]) == (5_000, True)
    assert 0 < len(cut["members"]) < 5_000
    assert cut["text"].endswith("…")


def test_both_levels_of_an_envelope_keep_their_fields() -> None:
    """The mark is put into the inner document."""
    cut = json.loads(fit_json({"id": "i", "data": {"list": ["x" * 100] * 900, "n": 1}}, 1_024, inner="data"))
    assert (cut["id"], cut["data"]["n"], cut["data"]["truncated"]) == ("i", 1, True)


texts = st.text(st.characters(codec="utf-8"), max_size=3).map(lambda text: text * 2_000)
lists = st.lists(texts, max_size=2).map(lambda items: items * 50)
maps = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), texts | lists, max_size=3)
hostile = st.integers(0, 2**62) | texts | lists | maps | maps.map(lambda entries: [entries] * 5)


@given(st.fixed_dictionaries(dict.fromkeys(("a", "b", "c"), hostile)))
def test_every_document_fits(document: dict[str, Any]) -> None:
    """Whatever strangers write into three fields, 16 KiB are never exceeded."""
    assert len(fit_json(document, 16 * 1024)) <= 16 * 1024


def test_facts_that_repeat_say_how_many_were_suppressed() -> None:
    """These can repeat without end; each has the field."""
    facts = {event.fact.NAME: event.fact for event in one_of_each() if event.fact.sameness() is not None}
    assert sorted(facts) == [
        "offset.rewound",
        "offsets.deleted",
        "offsets.expired",
        "offsets.reset",
        "static.replaced",
    ]
    assert all("suppressed" in {field.name for field in fields(fact)} for fact in facts.values())


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


def descriptions(schema: object) -> list[str]:
    """Each description inside a schema."""
    if isinstance(schema, list):
        return [text for part in schema for text in descriptions(part)]
    if not isinstance(schema, dict):
        return []
    own = schema.get("description")
    return [*([own] if isinstance(own, str) else []), *descriptions(list(schema.values()))]


@pytest.mark.parametrize("name", json_schemas())
def test_a_description_is_one_paragraph(name: str) -> None:
    """It stands in a cell of a table of the docs; and releases of msgspec differ in how they indent a second one."""
    assert [text for text in descriptions(json_schemas()[name]) if "\n" in text] == []


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
