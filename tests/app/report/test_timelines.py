"""``app/report/timelines.py``."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from groupreplay.app.report.timelines import TimelineQuery, group_timelines, read_trace
from groupreplay.state import Context
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.sources.capture import digest_of, read_captures
from support.histories.builders import commit, generation, member
from support.job.captures import CLUSTER_ID, ERA, raw, write_capture
from support.pictures.timelines import BEGIN, MINUTE, SOURCE, timeline_of

HISTORY = [
    generation(1, member("a", (0, 1)), at=BEGIN),
    *(commit("t", number, 5, at=BEGIN + 1_000) for number in (0, 1)),
    generation(2, member("a", (0,)), member("b", (1,)), at=BEGIN + MINUTE),
    commit("t", 1, 9, at=BEGIN + 2 * MINUTE),
]


def test_the_same_as_from_the_objects(tmp_path: Path) -> None:
    """A capture read in batches gives the lanes, owners, commits and generations of the history itself."""
    path = write_capture(tmp_path / "a.parquet", raw(HISTORY))
    context = Context(cluster_id=CLUSTER_ID, era=ERA, member_events=True)
    query = TimelineQuery(groups=["g", "no such group"], source=SOURCE)
    (found,), replay = group_timelines(read_captures([path]), context, query)
    direct = timeline_of(HISTORY, probed=False)
    for name in ("slots", "topics", "states", "since_ms", "until_ms", "bucket_ms", "verdict", "conditions"):
        assert getattr(found, name) == getattr(direct, name), name
    assert [one.generation for one in found.generations] == [1, 2]
    assert replay.dead_letters == 0
    assert {(one.topic, one.partitions) for one in found.deadlines} == set()


def test_lines_of_a_trace(tmp_path: Path) -> None:
    """Those of the groups that are asked for, by group; other files are refused with their line."""
    path = tmp_path / "a.trace.jsonl"
    lines = [{"group_id": "g", "kind": "request", "time_ms": 1}, {"group_id": "other"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_trace([path], {"g"}) == {"g": [lines[0]]}
    for text, what in (("{}\n", "line 1 has no group_id"), ("{\n", "line 1 is no JSON")):
        path.write_text(text)
        with pytest.raises(GroupReplayError, match=what):
            read_trace([path], {"g"})
    with pytest.raises(GroupReplayError, match="cannot be used"):
        read_trace([tmp_path / "none"], {"g"})


def test_digests(tmp_path: Path) -> None:
    """Of a file, and of the captures in a folder by name."""
    (tmp_path / "b.parquet").write_bytes(b"b")
    (tmp_path / "a.parquet").write_bytes(b"a")
    assert digest_of([tmp_path / "b.parquet"]) == hashlib.sha256(b"b").hexdigest()
    assert digest_of([tmp_path]) == hashlib.sha256(b"ab").hexdigest()


def test_a_capture_that_is_not_there(tmp_path: Path) -> None:
    """The error names the file and what to do."""
    with pytest.raises(GroupReplayError) as caught:
        digest_of([tmp_path / "c.parquet"])
    assert (caught.value.where, caught.value.fix) == (
        str(tmp_path / "c.parquet"),
        "check the path and its permissions",
    )
