"""``groupreplay timeline`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from groupreplay.timeline.document import timeline_schema
from support.histories.builders import commit, generation, member
from support.job.captures import invoke, raw, write_capture
from support.pictures.timelines import BEGIN, MINUTE

HISTORY = [
    generation(1, member("a", (0, 1)), at=BEGIN),
    commit("t", 0, 5, at=BEGIN + 1_000),
    generation(2, member("a", (0,)), member("b", (1,)), at=BEGIN + MINUTE),
]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A capture of the history."""
    return write_capture(tmp_path / "a.parquet", raw(HISTORY))


def test_the_document(capture: Path) -> None:
    """It fits its schema, which `schema timeline` prints, and says where it comes from."""
    done = invoke("timeline", "--from-file", capture, "--group", "g", "-o", "json")
    document = json.loads(done.stdout)
    schema = json.loads(invoke("schema", "timeline").stdout)
    assert schema == json.loads(json.dumps(timeline_schema()))
    jsonschema.Draft202012Validator(schema).validate(document)
    assert [one["generation"] for one in document["generations"]] == [1, 2]
    source = document["source"]
    assert source["command"] == "groupreplay timeline --from-file a.parquet --group g"
    assert (source["origin"], source["cluster_id"], len(source["digest"])) == ("a.parquet", "cluster-1", 64)


def test_a_part_of_the_time(capture: Path) -> None:
    """Between two points in time; an empty time is refused."""
    flags = ("timeline", "--from-file", capture, "--group", "g", "--since", str(BEGIN + 30_000))
    document = json.loads(invoke(*flags).stdout)
    assert [one["generation"] for one in document["generations"]] == [2]
    refused = invoke(*flags, "--until", str(BEGIN))
    assert (refused.exit_code, " is not after --since " in refused.stderr) == (2, True)


def test_an_unknown_group(capture: Path) -> None:
    """The error names it, and the command that lists groups."""
    done = invoke("timeline", "--from-file", capture, "--group", "h")
    assert (done.exit_code, "there is no group 'h'" in done.stderr) == (5, True)


def test_redaction(capture: Path, tmp_path: Path) -> None:
    """Clients and hosts appear nowhere in the document."""
    key = tmp_path / "key"
    key.write_bytes(b"0123456789abcdef0123456789abcdef")
    flags = ("--redact", "hosts,client-id,member-id,instance-id", "--redact-key-file", key)
    done = invoke("timeline", "--from-file", capture, "--group", "g", *flags)
    assert done.exit_code == 0, done.stderr
    assert [name for name in ("client-a", "client-b", "10.0.0.1") if name in done.stdout] == []
    assert json.loads(done.stdout)["source"]["redacted"] == ["client-id", "hosts", "instance-id", "member-id"]
