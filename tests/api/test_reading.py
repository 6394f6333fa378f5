"""Events, groups, records and the timeline of a log: the same as the commands print."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from dataclasses import replace as changed
from datetime import datetime, timezone
from html import unescape
from pathlib import Path

import pytest

import groupreplay
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from support.histories.raw_records import Raw
from support.job.captures import invoke, write_capture
from support.remedies import read_remedy


def test_the_events_are_those_of_the_command(mixed: Path) -> None:
    """To the byte, of captures and folders of them, with the same choice of events."""
    done = invoke("replay", "--from-file", mixed, "-o", "jsonl")
    assert [event.json.decode() for event in groupreplay.replay(mixed)] == done.stdout.splitlines()
    words = (
        "--group",
        "mixed-*1",
        "--min-severity",
        "info",
        "--type",
        "rebalance.completed",
        "--member-events",
    )
    done = invoke("replay", "--from-file", mixed.parent, "-o", "jsonl", *words)
    found = groupreplay.replay(
        mixed.parent, group="mixed-*1", types=["rebalance.completed"], member_events=True
    )
    assert [event.json.decode() for event in found] == done.stdout.splitlines()
    assert done.stdout


def test_an_event_has_its_head_as_fields(mixed: Path) -> None:
    """With the time in UTC and the name without its version; events are values that can be compared and hashed."""
    event = next(groupreplay.replay(mixed, types=["rebalance.completed"]))
    assert (event.name, event.type) == ("rebalance.completed", "groupreplay.rebalance.completed.v1")
    assert (event.severity, event.group) == ("INFO", event.data["group_id"])
    assert event.time == datetime.fromtimestamp(event.time_ms / 1000, timezone.utc)
    assert {event} == {changed(event)}
    assert f'"id":"{event.id}"' in event.json.decode()


def test_times_choose_events(mixed: Path) -> None:
    """A datetime and milliseconds mean the same; the end is excluded."""
    events = list(groupreplay.replay(mixed))
    begin, end = events[3], events[-3]
    expected = [event for event in events if begin.time_ms <= event.time_ms < end.time_ms]
    assert list(groupreplay.replay(mixed, since=begin.time, until=end.time_ms)) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"group": "nobody"}, "there is no group 'nobody' in "),
        ({"types": ["rebalance.ended"]}, "There is no event 'rebalance.ended'"),
        ({"min_severity": "loud"}, "'loud' is no severity"),
        ({"types": "rebalance.ended"}, "There is no event 'rebalance.ended'"),
        ({"since": datetime(2026, 1, 1)}, "the datetime has no time zone"),
        ({"since": "yesterday"}, "'yesterday' is no time: give an aware datetime, or milliseconds"),
        ({"since": 2_000, "until": 2_000}, "until is not after since"),
        ({"rules": "missing.toml"}, "missing.toml"),
    ],
)
def test_what_cannot_be_found_is_an_error(mixed: Path, arguments: dict[str, object], words: str) -> None:
    """As in the command, with what is there instead."""
    with pytest.raises(GroupReplayError) as error:
        list(groupreplay.replay(mixed, **arguments))  # type: ignore[arg-type]
    assert words in str(error.value)
    assert error.value.exit_code in (ExitCode.USAGE, ExitCode.DATA)


def test_a_file_that_is_no_capture_is_an_error(tmp_path: Path) -> None:
    """Before the first event is asked for; and so is a file that is not there."""
    (tmp_path / "a.parquet").write_text("no capture")
    for path in (tmp_path / "a.parquet", tmp_path / "b.parquet"):
        with pytest.raises(GroupReplayError) as error:
            groupreplay.replay(path)
        assert error.value.where is not None
        assert path.name in error.value.where


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, ()),
        ({"types": ["classic"], "states": ["stable"]}, ("--type", "classic", "--state", "stable")),
        ({"group": ["mixed-000001", "*2"]}, ("--group", "mixed-000001", "--group", "*2")),
        ({"at": 1_767_225_700_000}, ("--at", "1767225700000")),
    ],
)
def test_the_groups_are_those_of_list(
    mixed: Path, arguments: dict[str, object], words: tuple[str, ...]
) -> None:
    """Of the whole capture, of some groups, and at a time."""
    done = invoke("list", "--from-file", mixed, "-o", "json", *words)
    found = groupreplay.list_groups(mixed, **arguments)  # type: ignore[arg-type]
    assert [asdict(group) for group in found] == json.loads(done.stdout)
    assert found


def test_one_name_is_a_name(mixed: Path) -> None:
    """Not its letters, of types and states as of groups; one that nobody knows is an error, as in the command."""
    assert groupreplay.list_groups(mixed, types="classic", states="Stable") == groupreplay.list_groups(
        mixed, types=["classic"], states=["stable"]
    )
    for arguments in ({"states": ["stabl"]}, {"types": "clasic"}):
        with pytest.raises(
            GroupReplayError, match=r"unknown name '(stabl'; did you mean Stable|clasic'; did )"
        ):
            groupreplay.list_groups(mixed, **arguments)


def test_the_document_is_that_of_describe(mixed: Path) -> None:
    """With members, offsets and conditions."""
    done = invoke("describe", "--from-file", mixed, "-o", "json", "--group", "mixed-000001")
    assert [groupreplay.describe(mixed, "mixed-000001")] == json.loads(done.stdout)


def test_one_group_is_described(mixed: Path) -> None:
    """No group and several groups are errors that name what is there."""
    with pytest.raises(GroupReplayError, match=r"there is no group .mixed-1. in .* did you mean mixed-"):
        groupreplay.describe(mixed, "mixed-1")
    with pytest.raises(
        GroupReplayError, match=r"groups match 'mixed-\*': mixed-000000, .*give the id of one"
    ):
        groupreplay.describe(mixed, "mixed-*")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, ()),
        (
            {"group": "mixed-000001", "kind": "groups", "members": True},
            ("--group", "mixed-000001", "--kind", "groups", "--members"),
        ),
        (
            {"partitions": [1, 6], "with_position": True},
            ("--partition", "1", "--partition", "6", "--with-position"),
        ),
        (
            {"since": 1_767_225_700_000, "until": 1_767_225_800_000},
            ("--since", "1767225700000", "--until", "1767225800000"),
        ),
    ],
)
def test_the_records_are_those_of_decode(
    mixed: Path, arguments: dict[str, object], words: tuple[str, ...]
) -> None:
    """All, and chosen ones."""
    done = invoke("decode", "--from-file", mixed, *words)
    found = list(groupreplay.decode(mixed, **arguments))  # type: ignore[arg-type]
    assert found == [json.loads(line) for line in done.stdout.splitlines()]
    assert found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"group": "nobody"}, "there is no group 'nobody' in "),
        ({"kind": "offsets"}, "'offsets' is no kind of records: give commits or groups"),
        ({"since": 2_000, "until": 1_000}, "until is not after since"),
    ],
)
def test_no_records_of_what_there_is_not(mixed: Path, arguments: dict[str, object], words: str) -> None:
    """They read like a log in which nothing happened, and of an unknown kind all records of groups came."""
    with pytest.raises(GroupReplayError) as error:
        list(groupreplay.decode(mixed, **arguments))  # type: ignore[arg-type]
    assert words in str(error.value)


def test_what_cannot_be_decoded_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At the end, with the place of the record; alone it is an error."""
    path = write_capture(tmp_path / "bad.parquet", [Raw(3, 7, 1_000, b"\0", b"")])
    with caplog.at_level(logging.WARNING, "groupreplay"):
        assert list(groupreplay.decode(path)) == []
    assert caplog.messages[0].startswith("partition 3, offset 7: malformed")
    with pytest.raises(GroupReplayError, match="the record cannot be decoded: "):
        groupreplay.decode_record(b"\0", b"")


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


def test_a_time_without_records(mixed: Path) -> None:
    """The error names the times that there are."""
    with pytest.raises(
        GroupReplayError, match=r"record of 'mixed-000001' of this time .* records from 2026-01-01"
    ):
        groupreplay.group_timeline(mixed, "mixed-000001", until=1_000)


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


@pytest.mark.parametrize(
    ("wrong", "remedy", "right"),
    [
        ({"kind": "offsets"}, "api.reading: give commits or groups", {"kind": "commits"}),
        ({"since": 2_000, "until": 1_000}, "api.sources: give a later until", {"since": 2_000}),
        (
            {"since": "2026-01-01"},
            "streaming.base.clock: give an aware datetime",
            {"since": datetime(2026, 1, 1, tzinfo=timezone.utc)},
        ),
    ],
)
def test_what_an_error_names_helps(
    mixed: Path, wrong: dict[str, object], remedy: str, right: dict[str, object]
) -> None:
    """The remedy is in the error, and with it there are records."""
    with pytest.raises(GroupReplayError) as error:
        list(groupreplay.decode(mixed, **wrong))  # type: ignore[arg-type]
    read_remedy(remedy, str(error.value))
    assert next(groupreplay.decode(mixed, **right))  # type: ignore[arg-type]
