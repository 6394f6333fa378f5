"""The constants of a job: what brokers have said, and what is hidden."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from groupreplay.state.output.envelope import cloud_event, json_schemas
from groupreplay.state.policy.context import (
    ASSUMED_SESSIONS,
    FIELDS,
    MARK,
    OwnSettings,
    Redaction,
    SessionSettings,
)
from support.histories.builders import CONTEXT
from support.histories.samples import one_of_each

KEY = b"sixteen bytes or"
EVERYTHING = Redaction(frozenset(FIELDS), KEY)


def strings(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """(name of the field, text) of every text in a document; lists are their field's."""
    if isinstance(value, Mapping):
        for inner, one in value.items():
            yield from strings(one, inner)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one, name)
    elif isinstance(value, str):
        yield name, value


def test_the_same_text_and_key_give_the_same_hash() -> None:
    """Sixteen hexadecimal digits behind a mark; another key gives others, and nothing stays nothing."""
    hidden = EVERYTHING.hide("pod-7")
    assert hidden == "~98e8a9f7d28335eb" == Redaction(frozenset({"hosts"}), KEY).hide("pod-7")
    assert hidden != Redaction(frozenset(FIELDS), KEY[::-1]).hide("pod-7")
    assert (EVERYTHING.hide(""), EVERYTHING.hide("\ud800")[0]) == ("", MARK)
    assert KEY.decode() not in repr(EVERYTHING)


def test_a_key_that_is_none() -> None:
    """Too short, or for a field that nobody knows."""
    with pytest.raises(ValueError, match="has 15 bytes; it must have at least 16"):
        Redaction(frozenset({"hosts"}), KEY[1:])
    with pytest.raises(ValueError, match="cannot hide names; there are hosts, client-id"):
        Redaction(frozenset({"names"}), KEY)


def test_every_event_stays_valid_and_hides_its_fields() -> None:
    """By its schema; every text under a hidden name is a hash, and every other text is what it was."""
    names = frozenset[str]().union(*FIELDS.values())
    seen = set[str]()
    for event in one_of_each():
        plain, hidden = (
            json.loads(cloud_event(event, replace(CONTEXT, redaction=one), 0).value)
            for one in (None, EVERYTHING)
        )
        assert Draft202012Validator(json_schemas()[event.fact.NAME]).is_valid(hidden)
        for (name, text), (_, shown) in zip(strings(plain), strings(hidden), strict=True):
            assert shown == (EVERYTHING.hide(text) if name in names else text)
            seen |= {name} & names
    assert seen >= {
        "client_host",
        "client_id",
        "member_id",
        "leader",
        "joined",
        "instance_id",
        "places",
        "old_host",
    }


def test_names_of_topics_are_no_fields() -> None:
    """A topic or a label may be called like one; member ids go with the client ids that they begin with."""
    member = {"member_id": "a-1", "client_id": "a", "client_host": "/h", "partitions": {"leader": "0-3"}}
    document = {"members": [member], "labels": {"host": "ours"}, "leader": None}
    hide = Redaction(frozenset({"client-id"}), KEY)
    assert hide.of(document) == {
        "members": [{**member, "member_id": hide.hide("a-1"), "client_id": hide.hide("a")}],
        "labels": {"host": "ours"},
        "leader": None,
    }


def test_an_assumption_is_marked_and_excludes_nothing_above_the_least_session() -> None:
    """Kafka's defaults, but a session may be as short as those of classic groups."""
    marked = SessionSettings(45_000, 6_000, 5_000, "default", "default")
    assert marked == ASSUMED_SESSIONS
    assert marked.assumed == {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 5_000}
    assert SessionSettings(50_000, 45_000, 5_000).assumed == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((60_000, None, None), SessionSettings(60_000, 6_000, 5_000, "group", "default")),
        ((60_000, 50_000, 9_000), SessionSettings(60_000, 50_000, 9_000)),
        ((None, None, 9_000), SessionSettings(45_000, 6_000, 9_000, timeout_from="default")),
        # A broker that has so short a session has no longer least one, and no longer interval.
        ((4_000, None, None), SessionSettings(4_000, 4_000, 4_000, "group", "default")),
    ],
)
def test_only_what_is_given_is_not_assumed(
    given: tuple[int | None, int | None, int | None], expected: SessionSettings
) -> None:
    """Each number by itself: the timeout does not say how often members send heartbeats."""
    assert ASSUMED_SESSIONS.override(*given) == expected
    assert SessionSettings().override(None, None, None) == SessionSettings()


BROKERS = SessionSettings(45_000, 6_000, 5_000, "broker", "broker")


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (None, BROKERS),
        ({}, SessionSettings(45_000, 45_000, 5_000)),
        # Of another kind of group: Kafka keeps it, and nothing goes by it.
        ({"share.session.timeout.ms": 8_000}, SessionSettings(45_000, 45_000, 5_000)),
        ({"consumer.session.timeout.ms": 8_000}, SessionSettings(8_000, 8_000, 5_000)),
        ({"consumer.heartbeat.interval.ms": 9_000}, SessionSettings(45_000, 45_000, 9_000)),
    ],
)
def test_the_settings_of_a_group(own: dict[str, int] | None, expected: SessionSettings) -> None:
    """Its own number, else the brokers'; that of the brokers is assumed only while nobody has asked about the group."""
    settings = BROKERS.of_group("consumer", own)
    assert settings == expected
    assert settings.assumed == (
        {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 5_000} if own is None else {}
    )


def test_a_group_without_own_settings_on_brokers_that_tell_nothing() -> None:
    """Kafka's default stays assumed; a number of the group itself does not."""
    assert ASSUMED_SESSIONS.of_group("consumer", {}) == ASSUMED_SESSIONS
    own = ASSUMED_SESSIONS.of_group("share", {"share.session.timeout.ms": 50_000})
    assert own == SessionSettings(50_000, 50_000, 5_000, "group", "default")


def test_which_groups_somebody_asked_about() -> None:
    """All groups of a capture; of a live cluster those that a broker has described."""
    settings = {"a": {"consumer.session.timeout.ms": 8_000}}
    everything, listed = OwnSettings(settings), OwnSettings(settings, {"a", "b"})
    assert [everything.of(group) for group in "abc"] == [settings["a"], {}, {}]
    assert [listed.of(group) for group in "abc"] == [settings["a"], {}, None]
