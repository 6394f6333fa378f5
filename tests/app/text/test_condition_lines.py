"""The begin and the end of a condition in the live view."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from groupreplay.app.text.condition_lines import ConditionLines
from groupreplay.app.text.event_text import line_of


def event(
    second: int, status: str | None, condition_id: str = "c", group: str = "payments"
) -> dict[str, Any]:
    """An event of a condition, or another one."""
    data = {"group_id": group, "status": status, "condition_id": condition_id, "elapsed_ms": 30_000}
    return {
        "type": f"groupreplay.{'rebalance.stuck' if status else 'group.emptied'}.v1",
        "time": f"2026-01-31T02:00:{second:02d}.000Z",
        "severitytext": "ERROR" if status else "INFO",
        "subject": group,
        "data": data if status else {"group_id": group, "generation": 1},
    }


def test_an_end_names_its_begin() -> None:
    """The end is OK, not an error, and stands below its begin."""
    lines, begin, end = ConditionLines(), event(1, "firing"), event(31, "resolved")
    assert lines.related(begin, line_of(begin)) == [line_of(begin)]
    assert lines.firing() == "1 condition firing: payments rebalance.stuck since 02:00:01.000"
    (shown,) = lines.related(end, line_of(end))
    assert shown.plain() == (
        "02:00:31.000  OK     payments        └ rebalance stuck: resolved after 30.0 s, fired 02:00:01.000 (ERROR)"
    )
    assert lines.firing() == ""


def test_a_begin_is_shown_again_beside_its_end() -> None:
    """If other events came between, the begin is printed once more; one of another condition stays apart."""
    lines = ConditionLines()
    events = [event(1, "firing"), event(2, "firing", "d", "search"), event(3, None), event(4, "resolved")]
    shown = [[(one.time, one.is_echo) for one in lines.related(each, line_of(each))] for each in events]
    assert shown[:3] == [[(line_of(each).time, False)] for each in events[:3]]
    assert shown[3] == [("02:00:01.000", True), ("02:00:04.000", False)]
    assert lines.firing() == "1 condition firing: search rebalance.stuck since 02:00:02.000"


def test_an_end_without_a_begin() -> None:
    """What began before the first event shown is told by its end alone; it is green all the same."""
    end = event(31, "resolved")
    (shown,) = ConditionLines().related(end, line_of(end))
    assert (shown, shown.label) == (line_of(end), "OK")


def test_many() -> None:
    """The newest are named, the others counted; a condition that gets worse is one."""
    lines = ConditionLines()
    for number in (0, 0, 1, 2, 3):
        one = event(number, "firing", str(number), f"g{number}")
        lines.related(one, line_of(one))
    assert lines.firing() == (
        "4 conditions firing: g3 rebalance.stuck since 02:00:03.000, g2 rebalance.stuck since 02:00:02.000, "
        "g1 rebalance.stuck since 02:00:01.000, 1 more"
    )


def test_events_of_others() -> None:
    """Others may write to the topic: a status that no condition has means nothing."""
    odd = event(1, "firing")
    odd["data"]["status"] = ["firing"]
    assert ConditionLines().related(odd, line_of(odd)) == [replace(line_of(odd), status="")]
