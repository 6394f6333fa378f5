"""The file of offsets from before an event."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groupreplay.app.inspection.offsets_plan import OffsetsPlan, offsets_plan
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError


def event(name: str, *partitions: dict[str, Any], **data: Any) -> bytes:
    """A CloudEvent about these partitions of topic ``t``."""
    places = [{"topic": "t", "partition": number, **one} for number, one in enumerate(partitions)]
    fields = {"group_id": "g", "partitions": places, "partition_count": len(places), **data}
    return json.dumps({"id": name, "type": f"groupreplay.{name}.v1", "data": fields}).encode()


EVENTS = [
    b"no json",
    event("offsets.expired", {"offset": 5}, {"offset": 7}),
    event("offsets.deleted", {"offset": 3}),
    event("offsets.reset", {"lost_offset": 4, "new_offset": 0}),
    event("offsets.set", {"from_offset": 2, "to_offset": 9}, {"from_offset": None, "to_offset": 9}),
    event("offset.rewound", {"old_offset": 8, "new_offset": 1}),
]


@pytest.mark.parametrize(
    ("name", "lines", "unknown"),
    [
        ("offsets.expired", ("t,0,5", "t,1,7"), ()),
        ("offsets.deleted", ("t,0,3",), ()),
        ("offsets.reset", ("t,0,4",), ()),
        ("offsets.set", ("t,0,2",), ("t-1",)),
        ("offset.rewound", ("t,0,8",), ()),
    ],
)
def test_offsets_from_before_the_event(name: str, lines: tuple[str, ...], unknown: tuple[str, ...]) -> None:
    """Each kind of event has the offset before it in a field of its own; what is not known is named."""
    plan = OffsetsPlan(group_id="g", lines=lines, unknown=unknown)
    assert offsets_plan(EVENTS, name, "file") == plan


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (event("group.emptied"), "no committed offsets that can be set back"),
        (event("offsets.expired", {"offset": 5}, partition_count=2), "1 of 2 partitions"),
        (event("offsets.expired", {"offset": 5}, truncated=True), "1 of 1 partitions"),
        (event("offsets.expired", {"offset": 5, "topic": "a,0,1\nb"}), "no committed offsets"),
        (event("offsets.expired", {"offset": 5, "partition": -1}), "no committed offsets"),
        (event("offsets.expired", {"offset": "5"}), "no committed offsets"),
    ],
)
def test_what_makes_no_file(value: bytes, what: str) -> None:
    """A file with a part of the offsets, or with a line that somebody else has made up, would be a new damage."""
    with pytest.raises(GroupReplayError, match=what) as raised:
        offsets_plan([value], json.loads(value)["id"], "file")
    assert raised.value.exit_code is ExitCode.DATA


def test_an_unknown_id() -> None:
    """The error names where the event was looked for, and how to find ids."""
    with pytest.raises(GroupReplayError, match=r"no event about offsets has the id 'x' \(group-events\)"):
        offsets_plan(EVENTS, "x", "group-events")
