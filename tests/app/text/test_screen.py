"""``app/text/screen.py``."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import Any

import pytest

from groupreplay.app.text.event_text import Line, line_of
from groupreplay.app.text.screen import ConditionLines, Screen
from streaming.base.test_status_line import Terminal


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


LINE = Line(
    time="02:03:04.567", severity="WARN", group="shipping", text="[bold]not markup[/bold] :smile: 12 ms"
)


def test_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """Events and actions go to stdout in plain lines; what is being waited for goes to stderr, once."""
    screen = Screen(colour=False)
    with screen.busy("starting"):
        screen.status("still starting")
        screen.line(LINE)
        screen.action("a starts")
    screen.heading("the end")
    captured = capsys.readouterr()
    first, second, third = captured.out.splitlines()
    assert captured.err == "starting ...\n"
    assert (first, third) == (LINE.plain(), "the end")
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}  >>>    a starts", second)


def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Stdout and stderr, as on a terminal both are the same; not a fixture, because pytest sets its own after those."""
    output = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr(sys, "stderr", output)
    return output


def test_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """In colour the words are the same, long lines are not cut, and the activity stands below until it is over."""
    terminal = on_a_terminal(monkeypatch)
    screen = Screen(colour=True)
    with screen.busy("starting [red]"):
        assert terminal.getvalue() == "\r\x1b[Kstarting [red] ...\r"
        screen.status("still")
        screen.line(LINE)
        assert terminal.getvalue().endswith("\n\r\x1b[Kstill ...\r")
    screen.note("aside")
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", terminal.getvalue())
    assert LINE.plain() in text
    assert text.endswith("still ...aside\n")
    assert "\x1b[33m" in terminal.getvalue()


def condition(status: str, second: int) -> dict[str, object]:
    """An event of a condition."""
    return {
        "type": "groupreplay.rebalance.stuck.v1",
        "time": f"2026-01-31T02:00:{second:02d}.000Z",
        "severitytext": "ERROR",
        "subject": "payments",
        "data": {"condition_id": "c", "status": status, "elapsed_ms": 1_000},
    }


def test_following_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a condition fires, the line below all others says so; its end is green, beside its begin once more."""
    terminal = on_a_terminal(monkeypatch)
    screen = Screen(colour=True, follows=True)
    begin, end = condition("firing", 1), condition("resolved", 2)
    screen.event(begin, line_of(begin))
    assert terminal.getvalue().endswith(
        "\r\x1b[K1 condition firing: payments rebalance.stuck since 02:00:01.000\r"
    )
    screen.event({}, LINE)
    before = len(terminal.getvalue())
    screen.event(end, line_of(end))
    screen.close()
    ended = terminal.getvalue()[before:]
    echo, resolved = (line for line in ended.split("\n") if "rebalance stuck" in line)
    assert "\x1b[2m" in echo
    assert "\x1b[32m└ rebalance stuck: resolved after 1.0 s, fired 02:00:01.000 (ERROR)" in resolved
    assert "31m" not in resolved
    assert ended.endswith("\r\x1b[K")


def test_conditions_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """Each event is one line there, and nothing is printed twice."""
    screen = Screen(colour=False, follows=True)
    for event in (condition("firing", 1), {}, condition("resolved", 2)):
        screen.event(event, line_of(event) if event else LINE)
    screen.close()
    captured = capsys.readouterr()
    assert (len(captured.out.splitlines()), captured.err) == (3, "")
    assert captured.out.splitlines()[2].startswith(
        "02:00:02.000  OK     payments        └ rebalance stuck: resolved"
    )
