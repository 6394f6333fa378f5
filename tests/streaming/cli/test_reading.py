"""replay, list, describe and decode as they are typed."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from groupreplay.codecs import GroupMetadataKey, Malformed, Skipped, decode_key, encode_key
from groupreplay.state import Context
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.inspection.capture_file import read_captures
from support.histories.builders import asked_for, commit, generation, gone, member
from support.histories.modern_builders import (
    TOPIC,
    UNREVOKED,
    current,
    described,
    first_join,
    group_epoch,
    operation,
    target,
    target_epoch,
)
from support.histories.other_kinds import share_group
from support.histories.raw_records import Raw, commit_key
from support.histories.raw_records import commit as raw_commit
from support.job.captures import invoke, raw, write_capture

AT = 1_767_225_600_000
HOSTILE = "=x\x1b[31m\n\u202e"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A short life of group ``g``: created, two generations, a commit, empty."""
    life = [
        asked_for(at=AT),
        generation(1, member("a", [0, 1]), at=AT + 1_000),
        commit("t", 0, 5, at=AT + 2_000),
        generation(2, member("a", [0]), member("b", [1]), at=AT + 3_000),
    ]
    return write_capture(tmp_path / "a.parquet", raw(life))


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A group whose name would harm a terminal and a spreadsheet, and a record that is no record."""
    evil = member(HOSTILE, [0], topic=HOSTILE, instance_id=HOSTILE, client_id=HOSTILE, host=HOSTILE)
    key = encode_key(GroupMetadataKey(group=HOSTILE))
    life = raw([asked_for(at=AT), generation(1, evil, at=AT + 1, leader=HOSTILE)])
    rows = [*(one._replace(key=key) for one in life), Raw(0, 1, AT, commit_key(), b"\0\x03\x00")]
    return write_capture(tmp_path / "hostile.parquet", rows)


def test_replay_as_a_table(capture: Path) -> None:
    """One line an event: date, time, severity, group, words."""
    result = invoke("replay", "--from-file", capture)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert [" ".join(line.split()[:4]) for line in lines] == [
        "2026-01-01 00:00:00.000 INFO g",
        "2026-01-01 00:00:01.000 INFO g",
        "2026-01-01 00:00:03.000 INFO g",
    ]
    assert "generation 2" in lines[2]


def test_replay_as_events(capture: Path) -> None:
    """As jsonl it is exactly what the job would have written, a CloudEvent a line."""
    rows = read_captures([capture])
    driver = Replay(Context(cluster_id=rows.cluster_id, era=rows.era))
    expected = [event.decode() for event in events_in_order(driver.feed(rows), Filter())]
    assert invoke("replay", "--from-file", capture, "-o", "jsonl").stdout.splitlines() == expected


def test_replay_filters(capture: Path) -> None:
    """Group, kind, time and member events can be chosen."""
    words = ["replay", "--from-file", capture, "-o", "jsonl"]

    def types(*more: str) -> list[str]:
        return [json.loads(line)["type"] for line in invoke(*words, *more).stdout.splitlines()]

    completed = "groupreplay.rebalance.completed.v1"
    assert types("--type", "rebalance.completed") == [completed, completed]
    assert types("--since", "2026-01-01T00:00:03Z") == [completed]
    assert types("--until", str(AT + 1)) == ["groupreplay.group.created.v1"]
    assert types("--group", "other") == []
    assert "groupreplay.member.joined.v1" in types("--member-events")


def test_what_the_job_knows_can_be_said(tmp_path: Path) -> None:
    """A first commit proves a new group only where nothing was missed; labels go into every event."""
    capture = write_capture(tmp_path / "a.parquet", raw([commit("t", 0, 5, at=AT)]))
    words = ["replay", "--from-file", capture, "-o", "jsonl", "--label", "team=x"]
    assert invoke(*words).stdout == ""
    (event,) = invoke(*words, "--complete-since", str(AT)).stdout.splitlines()
    assert json.loads(event)["type"] == "groupreplay.group.created.v1"
    assert json.loads(event)["data"]["labels"] == {"team": "x"}


def test_bad_records_are_mentioned(hostile: Path) -> None:
    """What could not be read is said on stderr, and is an event."""
    result = invoke("replay", "--from-file", hostile, "--type", "record.malformed")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)
    assert result.stderr == "1 records could not be read; groupreplay decode tells which\n"


@pytest.mark.parametrize(
    "words",
    [
        ["replay"],
        ["replay", "-o", "jsonl"],
        ["list"],
        ["list", "-o", "csv"],
        ["list", "-o", "json"],
        ["describe", "--all-groups", "--state"],
        ["describe", "--all-groups", "--members", "--verbose"],
        ["describe", "--all-groups", "--members", "--verbose", "-o", "csv"],
        ["describe", "--all-groups", "-o", "jsonl"],
        ["describe", "--all-groups", "--history"],
        ["describe", "--all-groups", "--history", "-o", "csv"],
        ["describe", "--all-groups", "--history", "-o", "json"],
        ["decode"],
        ["describe", "--group", HOSTILE + "x"],
    ],
)
def test_no_command_lets_hostile_text_through(hostile: Path, words: list[str]) -> None:
    """Nothing from a record reaches stdout or stderr with its control characters."""
    result = invoke(*words, "--from-file", hostile)
    for text in (result.stdout, result.stderr):
        assert not {"\x1b", "\u202e"} & set(text)
    assert "31m" in result.stdout + result.stderr


def test_formulas_are_disarmed(hostile: Path) -> None:
    """A group id that begins as a formula is quoted in CSV."""
    (row,) = csv.DictReader(io.StringIO(invoke("list", "--from-file", hostile, "-o", "csv").stdout))
    assert row["GROUP"] == "'=x\\u{1b}[31m\\u{a}\\u{202e}"


def test_list_filters(capture: Path) -> None:
    """State and type are taken as Kafka's tools take them."""
    words = ["list", "--from-file", capture, "-o", "jsonl"]
    assert json.loads(invoke(*words, "--state", "stable,empty").stdout)["group_id"] == "g"
    assert invoke(*words, "--state", "empty").stdout == ""
    assert invoke(*words, "--type", "share").stdout == ""


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    """Group ``g``, in which a member has kept a partition from another one for four minutes."""
    life = [
        *first_join(at=AT),
        *operation(AT + 1_000, described("b"), group_epoch(3)),
        *operation(
            AT + 2_000,
            *(target("a", [0]), target("b", [1]), target_epoch(3)),
            *(current("a", 2, [0], state=UNREVOKED, revoking=[1]), current("b", 3)),
        ),
        *operation(AT + 242_000, current("b", 3)),
    ]
    return write_capture(tmp_path / "stuck.parquet", raw(life))


def test_conditions(stuck: Path) -> None:
    """The worst one in the list, all of them in the long form of the state."""
    (row,) = csv.DictReader(io.StringIO(invoke("list", "--from-file", stuck, "-o", "csv").stdout))
    assert row["RISK"] == "stuck"
    words = ("describe", "--from-file", stuck, "--group", "g", "--state", "--verbose", "-o", "csv")
    (row,) = csv.DictReader(io.StringIO(invoke(*words).stdout))
    assert row["CONDITIONS"] == (
        "rebalance.stuck (ERROR) since 2026-01-01T00:00:02.000Z; "
        "rebalance.slow (WARN) since 2026-01-01T00:00:01.000Z"
    )


@pytest.mark.parametrize(
    ("words", "exit_code", "found"),
    [
        (["--fail-on", "stuck,storm"], 6, "rebalance.stuck (ERROR) since 2026-01-01T00:00:02.000Z"),
        (["--fail-on", "rebalance.slow"], 6, "rebalance.slow (WARN) since 2026-01-01T00:00:01.000Z"),
        (["--fail-on", "storm,expired"], 0, None),
        ([], 0, None),
    ],
)
def test_failing_on_conditions(stuck: Path, words: list[str], exit_code: int, found: str | None) -> None:
    """The answer is printed all the same; what was found is on stderr, with an exit code of its own."""
    for command in (["describe", "--group", "g"], ["list"]):
        result = invoke(*command, "--from-file", stuck, *words)
        assert result.exit_code == exit_code
        assert result.stdout.startswith("GROUP ")
        assert result.stderr == ("" if found is None else f"found: g: {found}\n")


def test_what_cannot_be_found(stuck: Path) -> None:
    """An unknown name is an error that tells the known ones; the past is no state."""
    result = invoke("list", "--from-file", stuck, "--fail-on", "stucked")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'stucked' is nothing that can be found" in result.stderr
    assert "slow, stuck, suspected," in result.stderr
    words = ("--from-file", stuck, "--group", "g", "--history", "--fail-on", "stuck")
    assert invoke("describe", *words).exit_code == 2


def test_rules(stuck: Path, tmp_path: Path) -> None:
    """What is stuck, and what is said of it, is a matter of the rules; a flag of replay wins over the file."""
    path = tmp_path / "rules.toml"
    path.write_text(
        "[[group]]\nmatch = 'g'\nrebalance.stuck.threshold_ms = 250000\nlabels = { team = 'x' }\n"
    )
    listed = json.loads(invoke("list", "--from-file", stuck, "--rules", path, "-o", "jsonl").stdout)
    assert listed["risk"] == "slow"
    words = ["replay", "--from-file", stuck, "--type", "rebalance.stuck", "-o", "jsonl", "--rules", path]
    assert invoke(*words).stdout == ""
    result = invoke(*words, "--rule", "rebalance.stuck.threshold_ms=60000")
    data = json.loads(result.stdout.splitlines()[0])["data"]
    assert (data["threshold_ms"], data["labels"]) == (60_000, {"team": "x"})
    wrong = invoke(*words, "--rule", "rebalance.stuck.ms=1")
    assert (wrong.exit_code, wrong.stderr.splitlines()[0]) == (
        2,
        "error: unknown setting 'rebalance.stuck.ms' (--rule rebalance.stuck.ms=1)",
    )


def test_describe(capture: Path) -> None:
    """The views, and the whole picture as JSON whatever the view."""
    words = ["describe", "--from-file", capture, "--group", "g"]
    assert invoke(*words).stdout.splitlines()[1].split()[:7] == ["g", "t", "0", "5", "-", "-", "a"]
    assert invoke(*words, "--members").stdout.splitlines()[0].split()[-1] == "#PARTITIONS"
    assert invoke(*words, "--members", "--verbose").stdout.splitlines()[2].split()[7] == "t:1"
    assert invoke(*words, "--state").stdout.splitlines()[1].split()[1:5] == ["-", "range", "Stable", "2"]
    (picture,) = json.loads(invoke(*words, "--state", "-o", "json").stdout)
    assert (picture["generation"], [m["member_id"] for m in picture["members"]]) == (2, ["a", "b"])


def test_a_capture_names_the_topics(tmp_path: Path) -> None:
    """In describe and in events, as on the live topic; without names the id stays."""
    life = raw(first_join(at=AT))
    for topic_names, topic in (({}, TOPIC), ({TOPIC: "orders"}, "orders")):
        capture = write_capture(tmp_path / "a.parquet", life, topic_names=topic_names)
        (picture,) = json.loads(
            invoke("describe", "--from-file", capture, "--group", "g", "-o", "json").stdout
        )
        assert [one["partitions"] for one in picture["members"]] == [{topic: [0, 1]}]
        words = ("replay", "--from-file", capture, "--type", "rebalance.completed", "-o", "jsonl")
        (event,) = map(json.loads, invoke(*words).stdout.splitlines())
        assert event["data"]["members"][0]["partitions"] == {topic: "0-1"}


def test_describe_at_a_moment(capture: Path) -> None:
    """What was written later is as if it had never been; also what --members and --history show."""
    words = ["describe", "--from-file", capture, "--group", "g"]

    def at(later_ms: int, *more: str) -> list[list[str]]:
        lines = invoke(*words, "--at", AT + later_ms, *more).stdout.splitlines()
        return [line.split() for line in lines[1:]]

    assert at(0, "--state")[0][3:6] == ["Empty", "0", "0"]
    assert at(1_000, "--state")[0][3:6] == ["Stable", "1", "1"]
    assert at(3_000, "--state")[0][3:6] == ["Stable", "2", "2"]
    assert [row[1] for row in at(2_999, "--members")] == ["a"]
    assert [row[3] for row in at(1_999)] == ["-", "-"]
    assert [row[3] for row in at(2_000)] == ["5", "-"]
    assert [row[3] for row in at(2_000, "--history")] == ["group.created", "rebalance.completed"]
    before = invoke(*words, "--at", AT - 1)
    assert (before.exit_code, before.stdout) == (5, "")
    listed = invoke("list", "--from-file", capture, "--at", "2026-01-01T00:00:01Z", "-o", "jsonl").stdout
    assert (json.loads(listed)["members"], json.loads(listed)["generation"]) == (1, 1)
    assert invoke("list", "--from-file", capture, "--at", AT - 1, "-o", "jsonl").stdout == ""


def test_a_moment_closes_what_is_open(tmp_path: Path) -> None:
    """A tombstone waits for what may belong to it; at the moment asked for nothing more comes."""
    life = [asked_for(at=AT), gone(at=AT + 1_000), asked_for(at=AT + 2_000)]
    capture = write_capture(tmp_path / "a.parquet", raw(life))
    words = ["list", "--from-file", capture, "-o", "jsonl", "--at"]
    assert [len(invoke(*words, AT + at).stdout.splitlines()) for at in (0, 1_000, 2_000)] == [1, 0, 1]


def test_history(capture: Path) -> None:
    """The life of a group in every format; a group that is gone has a history, an unknown one has none."""
    words = ["describe", "--from-file", capture, "--group", "g", "--history"]
    table = invoke(*words).stdout.splitlines()
    assert table[0].split() == ["GROUP", "TIME", "GENERATION", "EVENT", "WHO", "WHY"]
    assert [line.split()[1:4] for line in table[1:]] == [
        ["2026-01-01T00:00:00.000Z", "0", "group.created"],
        ["2026-01-01T00:00:01.000Z", "1", "rebalance.completed"],
        ["2026-01-01T00:00:03.000Z", "2", "rebalance.completed"],
    ]
    rows = json.loads(invoke(*words, "-o", "json").stdout)
    assert [json.loads(line) for line in invoke(*words, "-o", "jsonl").stdout.splitlines()] == rows
    last = list(csv.DictReader(io.StringIO(invoke(*words, "-o", "csv").stdout)))[-1]
    assert last == {
        "GROUP": "g",
        "TIME": rows[2]["time"],
        "GENERATION": "2",
        "EVENT": "rebalance.completed",
        "WHO": "joined client-b@10.0.0.1; kept client-a@10.0.0.1",
        "WHY": "member_joined",
    }
    assert invoke(*words, "--type", "share", "-o", "jsonl").stdout == ""
    unknown = invoke("describe", "--from-file", capture, "--group", "x", "--history")
    assert (unknown.exit_code, unknown.stdout) == (5, "")


def test_history_of_a_deleted_group(tmp_path: Path) -> None:
    """A group that is gone cannot be described, but its life can be told."""
    capture = write_capture(tmp_path / "a.parquet", raw([asked_for(at=AT), gone(at=AT + 1_000)]))
    words = ["describe", "--from-file", capture, "--group", "g"]
    assert invoke(*words).exit_code == 5
    told = [
        json.loads(line)["event"] for line in invoke(*words, "--history", "-o", "jsonl").stdout.splitlines()
    ]
    assert told == ["group.created", "group.deleted"]


def test_kinds_side_by_side(tmp_path: Path) -> None:
    """A table for each kind, an empty line between; CSV has one heading; JSON is one list."""
    mine, others = raw([asked_for(at=AT)]), raw(share_group(AT), partition=1)
    keyed = [replace_group(one.key) for one in others]
    moved = [one._replace(key=key) for one, key in zip(others, keyed, strict=True)]
    capture = write_capture(tmp_path / "a.parquet", [*mine, *moved])
    words = ["describe", "--from-file", capture, "--all-groups", "--state"]
    lines = invoke(*words).stdout.splitlines()
    assert [line.split()[:1] for line in lines] == [["GROUP"], ["g"], [], ["GROUP"], ["s"]]
    rows = list(csv.DictReader(io.StringIO(invoke(*words, "-o", "csv").stdout)))
    assert [(row["GROUP"], row["STATE"], row["GENERATION"]) for row in rows] == [
        ("g", "Empty", "0"),
        ("s", "Stable", ""),
    ]
    assert [one["group_id"] for one in json.loads(invoke(*words, "-o", "json").stdout)] == ["g", "s"]


def replace_group(key: bytes) -> bytes:
    """The key of the same record of group ``s``."""
    decoded = decode_key(key)
    assert not isinstance(decoded, Skipped | Malformed)
    return encode_key(replace(decoded, group="s"))


def test_describe_an_unknown_group(capture: Path) -> None:
    """An answer about nothing is an error, on stderr, with its exit code."""
    result = invoke("describe", "--from-file", capture, "--group", "x")
    assert (result.exit_code, result.stdout) == (5, "")
    assert result.stderr.startswith(f"error: there is no group 'x' ({capture})\n")


def test_decode(capture: Path, hostile: Path) -> None:
    """A JSON value a line, or one array; what is left out is counted; --strict makes that an exit code."""
    lines = invoke("decode", "--from-file", capture, "--with-position").stdout.splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["key"]["type"] for record in records] == [2, 2, 1, 2]
    assert records == json.loads(
        invoke("decode", "--from-file", capture, "--with-position", "-o", "json").stdout
    )
    third = records[2]["offset"]
    picked = invoke("decode", "--from-file", capture, "--offset", third, "--with-position")
    assert picked.stdout.splitlines() == [lines[2]]
    assert invoke("decode", "--from-file", capture, "--partition", "0").stdout == ""
    assert invoke("decode", "--from-file", capture, "--strict").exit_code == 0
    for more, code in (([], 0), (["--strict"], 5)):
        result = invoke("decode", "--from-file", hostile, *more)
        assert (result.exit_code, len(result.stdout.splitlines())) == (code, 2)
        assert result.stderr.splitlines()[-1] == "1 malformed (type 1: 1)"


@pytest.mark.parametrize("words", [("replay", "--member-events", "-o", "jsonl"), ("decode",)])
def test_names_that_are_hidden(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Nothing that was asked to be hidden is printed anywhere; members can still be told apart."""
    secrets = {"instance_id": "sec-instance", "client_id": "sec-client", "host": "/sec-host"}
    one, two = member("sec-1", [0], **secrets), member("sec-2", [0, 1])
    life = [
        asked_for(at=AT),
        generation(1, one, at=AT + 1),
        generation(1, replace(one, member_id="sec-3", client_host="/sec-other"), at=AT + 2),
        generation(2, two, at=AT + 3),
        gone(at=AT + 4),
    ]
    path, key = write_capture(tmp_path / "a.parquet", raw(life)), tmp_path / "key"
    key.write_text("0123456789abcdef\n")
    names = "hosts,client-id,member-id,instance-id"
    plain = invoke(*words, "--from-file", path).stdout
    hidden = invoke(*words, "--from-file", path, "--redact", names, "--redact-key-file", key).stdout
    assert len(plain.splitlines()) == len(hidden.splitlines()) >= 5
    assert ("sec-" in plain, "sec-" in hidden) == (True, False)
    assert len({text for text in hidden.split('"') if text.startswith("~")}) >= 8


def test_decode_of_hexadecimal() -> None:
    """One record from a dump; what cannot be decoded is an error with the reason."""
    key, value = raw_commit("g", "t", 1, offset=9)
    done = invoke("decode", "--key-hex", key.hex(" "), "--value-hex", "0x" + value.hex())
    assert json.loads(done.stdout)["value"]["data"]["offset"] == 9
    assert json.loads(invoke("decode", "--key-hex", key.hex()).stdout)["value"] is None
    bad = invoke("decode", "--key-hex", key.hex(), "--value-hex", "0004")
    assert (bad.exit_code, bad.stdout) == (5, "")
    assert bad.stderr.startswith("error: the record cannot be decoded: ")
