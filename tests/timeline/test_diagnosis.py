"""The forms of a diagnosis: texts with times, evidence, members."""

from __future__ import annotations

from typing import Any

import pytest

from groupreplay.timeline.diagnosis import (
    BlamedMember,
    LinkEvidence,
    RecordPlace,
    blamed_member,
    certainty_of,
    evidence_of,
    link,
    plain,
)
from groupreplay.timeline.event_reading import ReadEvent

#: 2026-01-01T00:00:00Z
BEGIN = 1_767_225_600_000
HOUR = 3_600_000
DAY = (BEGIN, BEGIN + HOUR)


def event(name: str = "e-1", **data: Any) -> ReadEvent:
    """An event with this id."""
    return ReadEvent(index=0, id=name, name="x", time_ms=BEGIN, severity="INFO", data=data, body={})


def test_times_in_a_text() -> None:
    """With the day where the document has several; the parts keep the number for pages with another zone."""
    parts = ["at ", BEGIN + 61_000, "."]
    assert plain(parts, DAY) == "at 00:01:01."
    assert plain(parts, (BEGIN - 1, BEGIN + HOUR)) == "at 2026-01-01 00:01:01."
    made = link("ended", parts, DAY, evidence_of([event()]))
    assert made.label == "end"
    assert (made.text, made.parts, made.certainty, made.sum) == ("at 00:01:01.", tuple(parts), "proven", "")


def test_evidence() -> None:
    """Ids and records, each once; answers by their times; nothing is no evidence."""
    told = event(cause={"topic": "o", "partition": 3, "offset": 7})
    assert evidence_of([told, told, event("e-2")], [5]) == LinkEvidence(
        events=("e-1", "e-2"), records=(RecordPlace(partition=3, offset=7),), probes_ms=(5,)
    )
    assert not LinkEvidence()
    assert evidence_of([told])


@pytest.mark.parametrize(
    ("data", "certainty"),
    [
        ({"evidence": "log"}, "proven"),
        ({"evidence": "probe"}, "proven"),
        ({"evidence": "inferred"}, "inferred"),
        ({"evidence": "log", "assumed": {"retention_ms": 1}}, "assumed"),
        ({"evidence": "inferred", "assumed_release": "3.2 or later"}, "assumed"),
    ],
)
def test_certainty(data: dict[str, Any], certainty: str) -> None:
    """What rests on a number that nobody has given is assumed, however it was concluded."""
    assert certainty_of(event(**data)) == certainty


def test_members() -> None:
    """By instance id, else by client id; one without either has no name, and what is no object is none."""
    member = {"member_id": "m", "client_id": "c", "client_host": "/10.0.0.1", "instance_id": None}
    assert blamed_member(member) == BlamedMember(
        name="c", member_id="m", client_id="c", client_host="10.0.0.1", instance_id=None
    )
    assert blamed_member({**member, "instance_id": "i"}) == BlamedMember(
        name="i", member_id="m", client_id="c", client_host="10.0.0.1", instance_id="i"
    )
    assert blamed_member({"member_id": "m"}) is None
    assert blamed_member("m") is None
