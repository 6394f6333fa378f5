"""``groupreplay decode``, ``capture`` and ``coordinator`` on the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from groupreplay.app.inspection import capture as module
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.sources.topic import ProbesPlace
from support.histories.builders import asked_for, generation, gone, member
from support.histories.raw_records import commit as raw_commit
from support.job.captures import invoke, raw, write_capture

AT = 1_767_225_600_000


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


@pytest.mark.parametrize(
    "words", [("replay", "--member-events", "-o", "jsonl"), ("decode",), ("decode", "--members")]
)
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


@pytest.mark.parametrize(
    ("words", "probes"),
    [
        ([], ProbesPlace(Cluster(bootstrap_servers="h:1"), "group-probes", asked_for=False)),
        (["--probes-topic", "p"], ProbesPlace(Cluster(bootstrap_servers="h:1"), "p")),
        (["--sink-bootstrap-server", "s:1"], ProbesPlace(Cluster(bootstrap_servers="s:1"), "group-probes")),
    ],
)
def test_flags(monkeypatch: pytest.MonkeyPatch, words: list[str], probes: ProbesPlace) -> None:
    """The probes topic must exist only if a flag names it or its cluster."""
    calls: list[object] = []

    def capture(plan: module.CapturePlan, **_: Any) -> int:
        calls.append(plan)
        return 1_234

    monkeypatch.setattr(module, "capture", capture)
    result = invoke("capture", "--bootstrap-server", "h:1", "-o", "x.parquet", "--duration", "2", *words)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1,234 records in x.parquet\n")
    cluster = Cluster(bootstrap_servers="h:1")
    assert calls == [
        module.CapturePlan(cluster=cluster, path=Path("x.parquet"), probes=probes, follow_seconds=2.0)
    ]


def test_coordinator() -> None:
    """The partition of a group, in every format; without a broker nobody knows the leader."""
    assumed = invoke("coordinator", "testgroup")
    assert assumed.stdout == "GROUP\tPARTITION\tCOORDINATOR (ID)\ntestgroup\t27\t-\n"
    assert assumed.stderr == (
        "assumed: 50 partitions, Kafka's default of offsets.topic.num.partitions; "
        "--bootstrap-server asks a cluster, --partitions gives the number\n"
    )
    given = invoke("coordinator", "my-group", "--partitions", "7", "-o", "jsonl")
    assert given.stderr == ""
    assert json.loads(given.stdout) == {
        "group_id": "my-group",
        "partition": 1,
        "coordinator": None,
        "partitions": 7,
        "assumed": False,
    }
    assert invoke("coordinator", "=x", "-o", "csv").stdout.splitlines()[1].startswith("'=x,")
    assert invoke("coordinator", "x", "--partitions", "0").exit_code == 2


def test_coordinators_of_several_groups() -> None:
    """Each group has its row, named as an argument or, as for other commands, by --group."""
    table = invoke(
        "coordinator", "testgroup", "--group", "my-group", "--group", "a", "--partitions", "50"
    ).stdout
    assert table == ("GROUP\tPARTITION\tCOORDINATOR (ID)\ntestgroup\t27\t-\nmy-group\t12\t-\na\t47\t-\n")
