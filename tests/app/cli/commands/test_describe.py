"""``groupreplay describe`` on the command line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from groupreplay.codecs import Malformed, Skipped, decode_key, encode_key
from groupreplay.streaming.contract.partition_ends import PartitionEnds
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.sources.capture import read_captures
from groupreplay.streaming.sources.topic import TopicSource
from support.histories.builders import asked_for, gone
from support.histories.modern_builders import TOPIC, first_join
from support.histories.other_kinds import share_group
from support.job.captures import invoke, raw, write_capture
from support.kafka.answered_ends import AnsweredEnds

AT = 1_767_225_600_000


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
        "WHY": "member_joined, took at most 2.0 s",
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
    keyed = [replace_group(other.key) for other in others]
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
    assert [row["group_id"] for row in json.loads(invoke(*words, "-o", "json").stdout)] == ["g", "s"]


def replace_group(key: bytes) -> bytes:
    """The key of the same record of group ``s``."""
    decoded = decode_key(key)
    assert not isinstance(decoded, Skipped | Malformed)
    return encode_key(replace(decoded, group="s"))


def test_describe_an_unknown_group(capture: Path) -> None:
    """An answer about nothing is an error, on stderr, with its exit code."""
    result = invoke("describe", "--from-file", capture, "--group", "x")
    assert (result.exit_code, result.stdout) == (5, "")
    assert result.stderr == (
        f"nothing found: there is no group 'x' in {capture}: 1 group: g; "
        "4 records from 2026-01-01 00:00:00.000 to 2026-01-01 00:00:03.000 (UTC)\n"
    )


def test_states(capture: Path) -> None:
    """Every state with its bounds, in every format; up to a moment; an unknown group is an error."""
    words = ["describe", "--from-file", capture, "--group", "g", "--states"]
    rows = [json.loads(line) for line in invoke(*words, "-o", "jsonl").stdout.splitlines()]
    assert [(row["state"], row["generation"]) for row in rows][:4] == [
        ("Empty", 0),
        ("PreparingRebalance", 0),
        ("CompletingRebalance", 1),
        ("Stable", 1),
    ]
    assert rows[0] == {
        "group_id": "g",
        "group_type": "classic",
        "state": "Empty",
        "generation": 0,
        "since_ms": AT,
        "earliest_ms": AT,
        "until_ms": AT + 990,
        "until_earliest_ms": AT,
        "evidence": "record",
        "partition": rows[0]["partition"],
        "offset": 100,
    }
    table = invoke(*words).stdout.splitlines()
    assert table[0].split() == ["GROUP", "TYPE", "STATE", "SINCE", "LASTED", "GENERATION", "EVIDENCE"]
    assert "2026-01-01T00:00:00.000Z .. 2026-01-01T00:00:00.990Z" in table[2]
    assert table[-1].split()[-6:] == ["holds", "at", "the", "end", "2", "record"]
    early = invoke(*words, "--at", AT, "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line)["state"] for line in early] == ["Empty"]
    unknown = invoke("describe", "--from-file", capture, "--group", "x", "--states")
    assert (unknown.exit_code, "x" in unknown.stderr) == (5, True)
    fail_on = invoke(*words, "--fail-on", "warn")
    assert (fail_on.exit_code, "leave out --states" in fail_on.stderr) == (2, True)


def test_states_of_all_groups(capture: Path) -> None:
    """The same rows as of each group alone."""
    alone = invoke("describe", "--from-file", capture, "--group", "g", "--states", "-o", "jsonl").stdout
    together = invoke("describe", "--from-file", capture, "--all-groups", "--states", "-o", "jsonl").stdout
    assert [line for line in together.splitlines() if '"group_id":"g"' in line] == alone.splitlines()


class Measured(AnsweredEnds):
    """A cluster with the ends of one partition; one that does not answer if ``fails``."""

    def __init__(self, *, fails: bool = False) -> None:
        ends = {} if fails else {("t", 0): PartitionEnds(0, 9, 9)}
        super().__init__(ends, errors=dict.fromkeys(("t", "u"), KafkaError._TRANSPORT) if fails else {})

    def topic_names(self) -> dict[str, str]:
        """None."""
        return {}

    def broker_settings(self, names: Sequence[str]) -> dict[str, str]:
        """None that a login without DescribeConfigs may see."""
        return {}

    def admin(self) -> AdminClient:
        """It lists no groups."""
        client, listed = super().admin(), Future[SimpleNamespace]()
        listed.set_result(SimpleNamespace(valid=[], errors=[]))
        client.list_consumer_groups = lambda **_: listed
        return client


def live(monkeypatch: pytest.MonkeyPatch, capture: Path, cluster: Measured) -> None:
    """The commands read the capture as if this cluster had it."""
    rows = replace(read_captures([capture]), connection=cast(Connection, cluster))
    monkeypatch.setattr(TopicSource, "open", lambda *_, **__: replace(rows, batches=iter(batches)))
    batches = list(rows.batches)


WEEK = ("--retention-minutes", "10080", "--bootstrap-server", "h:1", "--group", "g")


def lag_of(*words: object) -> tuple[str, str]:
    """LOG-END-OFFSET and LAG of the first partition, and what is said on stderr."""
    result = invoke("describe", *WEEK, *words, "--columns", "log-end-offset,lag")
    assert result.exit_code == 0
    return result.stdout.splitlines()[1].replace("\t", " "), result.stderr


def test_the_lag_of_a_live_cluster(monkeypatch: pytest.MonkeyPatch, capture: Path) -> None:
    """It is asked for without a flag; not in another view; ends of now say nothing about an earlier time."""
    cluster = Measured()
    live(monkeypatch, capture, cluster)
    assert lag_of() == ("9 4", "")
    asked = list(cluster.asked)
    assert invoke("describe", *WEEK, "--state").exit_code == 0
    assert lag_of("--at", AT + 2_000) == ("- -", "")
    assert cluster.asked == asked
    assert lag_of("--at", AT + 2_000, "--with-lag") == ("- -", "")


def test_a_cluster_that_does_not_tell_the_lag(monkeypatch: pytest.MonkeyPatch, capture: Path) -> None:
    """The offsets are printed all the same, and stderr says what is missing; with --with-lag it is an error."""
    live(monkeypatch, capture, Measured(fails=True))
    missing = "the ends of the partitions and the lag are not known: no topic could be described: "
    values, said = lag_of()
    assert (values, said.startswith(missing)) == ("- -", True)
    result = invoke("describe", *WEEK, "--with-lag")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no topic could be described" in result.stderr
