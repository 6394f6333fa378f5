"""What messages about captures and events say to do helps: it is read in the message, done, and the message is gone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from groupreplay.streaming.base.errors import ExitCode
from support.histories.builders import asked_for, commit, emptied, generation, member, no_offset
from support.job.captures import invoke, printed_by, raw, write_capture
from support.remedies import Attempt, Remedy, Said, prove, read_remedy

AT = 1_767_225_600_000


def found_id(attempt: Attempt, said: Said) -> None:
    """The id of an event with one of the names, from the command of the message."""
    shown = printed_by(*said["command"].replace("FILE", "CAPTURE").split())
    events = [json.loads(line) for line in shown.splitlines()]
    (found,) = [one["id"] for one in events if one["type"].removeprefix("groupreplay.")[:-3] in said["names"]]
    attempt.words[1] = found


def written(attempt: Attempt, said: Said) -> None:
    """A trace by the command of the message."""
    printed_by(*said["command"].split(), "--groups", 1, "--seconds", 60, "-o", "sim.parquet")
    (trace,) = Path().glob("sim*trace*")
    attempt.put("CAPTURE.trace", str(trace))


CASES = (
    Remedy(
        line="explain --from-file CAPTURE",
        of="app.cli.options: Give either GROUP, which may be a glob, or --all-groups.",
        says="or (?P<add>--all-groups)",
        apply=lambda attempt, said: attempt.words.append(said["add"]),
    ),
    Remedy(
        line="advise --from-file CAPTURE",
        of="app.cli.options: Give either GROUP, which may be a glob, or --all-groups.",
        says="or (?P<add>--all-groups)",
        apply=lambda attempt, said: attempt.words.append(said["add"]),
    ),
    Remedy(
        line="list --from-file RENAMED",
        of="streaming.sources.capture_columns: a capture has the columns …",
        says=r"given by (?P<flag>--column) (?P<column>offset)=NAME, this file has .*(?P<name>kafka_offset)",
        apply=lambda attempt, said: attempt.words.extend([said["flag"], f"{said['column']}={said['name']}"]),
    ),
    Remedy(
        line="list --from-file RENAMED --column ofset=kafka_offset",
        of="streaming.sources.capture_columns: its columns are",
        says=r"its columns are .*\b(?P<column>offset)\b",
        apply=lambda attempt, said: attempt.put("ofset=kafka_offset", f"{said['column']}=kafka_offset"),
    ),
    Remedy(
        line="list --from-file RENAMED --column offset=x",
        of="streaming.sources.capture_columns: there are",
        says=r"there are .*\b(?P<name>kafka_offset)\b",
        apply=lambda attempt, said: attempt.put("offset=x", f"offset={said['name']}"),
    ),
    Remedy(
        line="list --from-file FOLDER",
        of="streaming.sources.capture_columns: give the capture",
        says="give the capture file itself",
        apply=lambda attempt, _: attempt.put("FOLDER", "FOLDER/night.data"),
    ),
    Remedy(
        line="replay --from-file EMPTY --since 1h",
        of="streaming.sources.source: give another",
        says="give another capture",
        apply=lambda attempt, _: attempt.put("EMPTY", "CAPTURE"),
    ),
    Remedy(
        line="report --from-file CAPTURE --group g -o new.json --trace CAPTURE.trace",
        of="app.report.timelines: give a file that",
        files={"CAPTURE.trace": "no trace\n"},
        says="give a file that groupreplay (?P<command>simulate --trace) has written",
        apply=written,
    ),
    Remedy(
        line="offsets-file x --from-file CAPTURE",
        of="app.inspection.offsets_plan: groupreplay events -o",
        says="capture (?P<command>replay --from-file FILE -o jsonl), prints ids; .* offsets are (?P<names>.*)",
        apply=found_id,
    ),
)


@pytest.mark.parametrize("remedy", CASES, ids=[f"{one.line}: {one.says}" for one in CASES])
def test_the_remedy_of_a_message_helps(
    remedy: Remedy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The capture or the event is refused; with what the message says it is not."""
    monkeypatch.chdir(tmp_path)
    life = raw(
        [
            asked_for(at=AT),
            generation(1, member("a", [0]), at=AT + 1_000),
            commit("t", 0, 5, at=AT + 2_000),
            emptied(2, at=AT + 3_000),
            no_offset("t", 0, at=AT + 4_000),
        ]
    )
    write_capture(Path("CAPTURE"), life)
    write_capture(Path("EMPTY"), [])
    names = pq.read_table("CAPTURE").column_names
    renamed = pq.read_table("CAPTURE").rename_columns(
        ["kafka_offset" if one == "offset" else one for one in names]
    )
    pq.write_table(renamed, "RENAMED")
    Path("FOLDER").mkdir()
    write_capture(Path("FOLDER/night.data"), life)
    prove(remedy)


def test_an_event_that_has_not_all_offsets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``describe``, with the flags of the message, prints all of them as they were just before."""
    monkeypatch.chdir(tmp_path)
    offsets = dict.fromkeys(range(2_000), 5)
    history = [commit("t", partition, offset, at=AT) for partition, offset in offsets.items()]
    history += [no_offset("t", partition, at=AT + 60_000) for partition in offsets]
    write_capture(Path("CAPTURE"), raw(history))
    listed = invoke("replay", "--from-file", "CAPTURE", "-o", "jsonl").stdout.splitlines()
    (event,) = [one for one in map(json.loads, listed) if one["data"].get("truncated")]
    refused = invoke("offsets-file", event["id"], "--from-file", "CAPTURE")
    assert refused.exit_code == ExitCode.DATA
    read_remedy("app.inspection.offsets_plan: groupreplay describe", refused.stderr)
    (words,) = re.findall(r"groupreplay (describe .*?),", " ".join(refused.stderr.split()))
    before = str(AT + 59_999)
    typed = [{"GROUP": event["data"]["group_id"], "TIME": before}.get(word, word) for word in words.split()]
    printed = invoke(*typed, "--from-file", "CAPTURE").stdout.splitlines()
    rows = [line.split("\t") for line in printed if line.startswith("g\t")]
    assert {int(row[2]): int(row[3]) for row in rows} == offsets


def test_an_event_without_offsets_is_none_of_those_that_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the others; the id of one of them has a plan (above)."""
    monkeypatch.chdir(tmp_path)
    write_capture(Path("CAPTURE"), raw([asked_for(at=AT), generation(1, member("a", [0]), at=AT + 1_000)]))
    events = [
        json.loads(line)
        for line in invoke("replay", "--from-file", "CAPTURE", "-o", "jsonl").stdout.splitlines()
    ]
    for event in events:
        refused = invoke("offsets-file", event["id"], "--from-file", "CAPTURE")
        assert refused.exit_code == ExitCode.DATA
        read_remedy("app.inspection.offsets_plan: events with offsets are", refused.stderr)
        assert (
            event["type"].removeprefix("groupreplay.")[:-3] not in refused.stderr.partition("offsets are ")[2]
        )
