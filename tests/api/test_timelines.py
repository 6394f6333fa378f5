"""``groupreplay.group_timeline``: the document and the page of the commands."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path

import pytest

import groupreplay
from groupreplay.streaming.base.errors import GroupReplayError
from support.job.captures import invoke


def test_the_document_is_that_of_report(mixed: Path, tmp_path: Path) -> None:
    """With the command that makes it again."""
    file = tmp_path / "timeline.json"
    invoke("report", "--from-file", mixed, "--group", "mixed-000001", "-o", file)
    document = json.loads(file.read_bytes())
    timeline = groupreplay.group_timeline(mixed, "mixed-000001")
    assert json.loads(timeline.json()) == document
    assert timeline.verdict == "\n".join(statement["text"] for statement in document["verdict"])
    assert repr(timeline) == f"GroupTimeline('mixed-000001')\n{timeline.verdict}"


def test_the_command_has_the_bounds_of_time(mixed: Path) -> None:
    """Else it would make another document."""
    since, until = 1_767_225_700_000, 1_767_225_900_000
    timeline = groupreplay.group_timeline(mixed, "mixed-000001", since=since, until=until)
    assert timeline.document.source.command == (
        f"groupreplay report --from-file {mixed.name} --since {since} --until {until} --group mixed-000001 "
        "-o timeline.json"
    )


def test_a_notebook_shows_the_page(mixed: Path) -> None:
    """In a frame of its own, whose scripts and styles reach nothing around it."""
    timeline = groupreplay.group_timeline(mixed, "mixed-000001", until=1_767_225_900_000)
    shown = timeline._repr_html_()
    assert shown.startswith("<iframe ")
    assert shown.count('"') == 4
    assert unescape(shown.split('srcdoc="')[1].split('"')[0]) == timeline.html()
    assert "mixed-000001" in timeline.html()


def test_one_group_is_drawn(mixed: Path) -> None:
    """No group and several groups are errors that name what is there."""
    with pytest.raises(GroupReplayError, match="there is no group 'nobody' in "):
        groupreplay.group_timeline(mixed, "nobody")
    with pytest.raises(GroupReplayError, match=r"12 groups match 'mixed-\*'"):
        groupreplay.group_timeline(mixed, "mixed-*")
