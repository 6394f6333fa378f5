"""Events in words."""

from __future__ import annotations

from typing import Any

import pytest

from groupreplay.app.text.event_text import TEXTS, Line, event_name, line_of, page_of
from groupreplay.state.output.envelope import EVENTS
from support.histories.samples import one_of_each, written
from support.job.event_words import MEMBER, ROUND, STUCK, WORDS


def event(name: str, group: str = "shipping", severity: str = "INFO", **data: Any) -> dict[str, Any]:
    """A CloudEvent as the sink topic carries it."""
    return {
        "type": f"groupreplay.{name}.v1",
        "subject": group,
        "time": "2026-01-31T02:03:04.567Z",
        "severitytext": severity,
        "data": {"group_id": group, "catch_up": False, **data},
    }


@pytest.mark.parametrize(("name", "data", "words"), WORDS)
def test_words(name: str, data: dict[str, Any], words: str) -> None:
    """Each kind of event is told by the fields that matter; an unknown kind by all its simple ones."""
    is_condition = isinstance(data.get("status"), str)
    expected = Line(
        time="02:03:04.567",
        severity="INFO",
        group="shipping",
        text=f"{name.replace('.', ' ')}: {words}",
        status=data["status"] if is_condition else "",
    )
    assert expected == line_of(event(name, **data))


def test_every_event_has_words() -> None:
    """No event of this release is told as an unknown one."""
    assert {fact.NAME for fact in EVENTS} == set(TEXTS)


def test_the_words_fit_the_fields() -> None:
    """Of every kind of event the fields that it really has are told, on one line, and none is missing."""
    lines = [line_of(written(event)).text for event in one_of_each()]
    assert [line for line in lines if "?" in line or "None" in line or not line.isprintable()] == []


def test_late_events_say_so() -> None:
    """An event that was emitted long after it happened is marked."""
    line = line_of(event("group.deleted", generation=1, catch_up=True))
    assert line.text == "group deleted (caught up late): the group is gone, after generation 1"


def test_hostile_text_is_harmless() -> None:
    """Control characters from a client never reach the terminal, wherever they stand."""
    evil = "\x1b[31m\u202e\n"
    shown = [
        line_of(
            event(
                "member.left", group=evil, **{**MEMBER, "client_id": evil, "client_host": evil}, reason=evil
            )
        ),
        line_of(event("static.replaced", instance_id=evil, old_host=evil, new_host="x")),
        line_of(event("member.updated", **{**MEMBER, "instance_id": evil}, changed=[evil])),
        line_of(event("record.skipped", topic=evil, partition=0, offset=0, reason=evil)),
        line_of(event("rebalance.completed", **{**ROUND, "trigger": evil})),
        line_of(event("rebalance.stuck", **{**STUCK, "blockers": [{**MEMBER, "revoking": {evil: evil}}]})),
        line_of(event("rebalance.stuck", state=evil, reason=evil, suspects_note=evil)),
        line_of(event("static.conflict", instance_id=evil, places=[evil])),
        line_of(event("job.blind", what=evil, fix=evil)),
        line_of(event("offsets.expired", reason=evil, partitions=[{"topic": evil}])),
        line_of(event(f"new{evil}", **{"field" + evil: evil})),
        line_of({"type": evil, "time": evil, "severitytext": evil, "subject": evil, "data": {}}),
        line_of({}),
    ]
    assert [line for line in shown if not line.plain().isprintable()] == []


def test_plain_line() -> None:
    """The columns of a plain line stand where a reader's eye and `cut` expect them."""
    line = line_of(event("group.emptied", severity="WARN", generation=4))
    expected = "02:03:04.567  WARN   shipping        group emptied: the last member has gone, generation 4"
    assert expected == line.plain()


@pytest.mark.parametrize(
    ("type_name", "name"),
    [
        ("groupreplay.rebalance.completed.v1", "rebalance.completed"),
        ("groupreplay.rebalance.completed.v12", "rebalance.completed"),
        ("rebalance.view", "rebalance.view"),
        ("unknown", "unknown"),
    ],
)
def test_event_name(type_name: str, name: str) -> None:
    """Prefix and version of the type are not for people."""
    assert name == event_name({"type": type_name})


def test_the_page_of_an_event() -> None:
    """Cluster, group and moment, with characters of every id; an event of the job has none."""
    told = {**event("rebalance.stuck", group="a/b c?"), "source": "kafka://c-1/__consumer_offsets"}
    address = "https://groups.example.com/groups/a%2Fb%20c%3F?cluster=c-1&at=1769824984567"
    assert page_of(told, "https://groups.example.com") == address
    assert page_of({**told, "data": {}}, "https://groups.example.com") == ""
    assert page_of({**told, "time": "never"}, "https://groups.example.com") == ""
