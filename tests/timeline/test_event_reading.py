"""Events of any release as the timeline reads them."""

from __future__ import annotations

from groupreplay.state.events.event import name_of
from groupreplay.timeline.event_reading import clock, read_events


def test_names() -> None:
    """The type without its prefix and version; a strange type is its own name."""
    kinds = ("groupreplay.rebalance.completed.v1", "other.v2x", "groupreplay.x", "")
    assert [name_of(kind) for kind in kinds] == ["rebalance.completed", "other.v2x", "x", ""]


def test_order_and_fields() -> None:
    """By time, then by sequence; fields of other types than expected read as missing."""
    early = {
        "id": "e",
        "time": "2026-01-01T00:00:00Z",
        "sequence": "2",
        "severitytext": "WARN",
        "type": "groupreplay.a.v1",
    }
    data = {"n": 1, "flag": True, "t": "x", "list": [{"a": 1}, 5], "cause": {"offset": 4}}
    events = read_events(
        [
            {"time": None},
            {**early, "time": "2026-01-01T00:00:01Z", "severitytext": 9},
            early,
            {**early, "sequence": "1", "data": data},
        ]
    )
    first = events[0]
    assert [(one.index, one.id, one.severity) for one in events] == [
        (0, "e", "WARN"),
        (1, "e", "WARN"),
        (2, "e", "INFO"),
    ]
    read = (first.number("n"), first.number("flag"), first.number("t"), first.text("t"), first.text("n"))
    assert read == (1, None, None, "x", "")
    assert (list(first.mappings("list")), list(first.mappings("n")), dict(first.cause)) == (
        [{"a": 1}],
        [],
        {"offset": 4},
    )
    assert dict(events[1].data) == {}


def test_clock() -> None:
    """Hours, minutes and seconds in UTC."""
    assert clock(1_767_225_661_999) == "00:01:01"
