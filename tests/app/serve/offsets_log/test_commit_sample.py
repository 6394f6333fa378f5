"""Counts of commits in a part of the offsets topic."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pyarrow as pa
import pytest

from groupreplay.app.serve.history.rows import CommitCounts
from groupreplay.app.serve.offsets_log import commit_sample
from groupreplay.app.serve.offsets_log.commit_sample import CommitSample, batch_commits, count_commits
from groupreplay.codecs import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.log import ROW_SCHEMA

HERE = Cluster(bootstrap_servers="127.0.0.1:1")


def rows(*pairs: tuple[bytes | None, bytes | None], partition: int = 0) -> pa.RecordBatch:
    """A batch of the offsets topic."""
    columns = [
        ["__consumer_offsets"] * len(pairs),
        [partition] * len(pairs),
        [*range(len(pairs))],
        [0] * len(pairs),
        [0] * len(pairs),
        [key for key, _ in pairs],
        [value for _, value in pairs],
    ]
    arrays = [pa.array(values, one.type) for values, one in zip(columns, ROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)


def commit(group: str, topic: str = "t") -> tuple[bytes, bytes]:
    """A commit of one partition."""
    key = OffsetCommitKey(group=group, topic=topic, partition=0)
    value = OffsetCommitValue(version=3, offset=1, metadata="", commit_timestamp_ms=1)
    return encode_key(key), encode_value(value)


def test_commits_only() -> None:
    """Tombstones, other records and noise do not count; an id that is unsafe counts under its label."""
    tombstone = (commit("a")[0], None)
    noise = [(b"", b"x"), (None, b"x"), (b"\x00\x02\x00\x01a", b"x"), (b"\xff" * 9, b"x")]
    found = batch_commits(
        rows(commit("a"), commit("b"), commit("a", "u"), tombstone, *noise, commit("ä\x00"))
    )
    assert {name.partition("#")[0]: count for name, count in found.items()} == {"a": 2, "b": 1, "ä\\u{0}": 1}
    assert batch_commits(rows()) == {}


def test_one_sample_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that ask at once read the topic once; the counts go to the history; later callers get the same."""
    taken, offered = [], []
    begun, go_on = threading.Event(), threading.Event()

    def count(_: object, since_ms: int) -> tuple[Mapping[str, int], bool]:
        taken.append(since_ms)
        begun.set()
        assert go_on.wait(30)
        return {"g": 3}, True

    monkeypatch.setattr(commit_sample, "count_commits", count)
    sample = CommitSample(HERE, lambda: 1_000_000, offered.append)
    threads = [threading.Thread(target=sample.counts) for _ in range(4)]
    for one in threads:
        one.start()
    assert begun.wait(30)
    go_on.set()
    for one in threads:
        one.join()
    found = sample.counts()
    assert (found.since_ms, found.until_ms, found.commits, found.error) == (
        700_000,
        1_000_000,
        {"g": 3},
        None,
    )
    assert (taken, offered) == ([700_000], [CommitCounts(700_000, 1_000_000, {"g": 3})])


def test_a_partition_that_is_read_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its groups are left out, not told with too few commits; those of the partitions before are exact."""
    parts = [rows(commit("a"), commit("a")), rows(commit("b"), partition=1)]
    monkeypatch.setattr(commit_sample, "read_messages", lambda *_: iter(parts))
    monkeypatch.setattr(commit_sample, "_MOST_RECORDS", 2)
    assert count_commits(Ends({0: 2, 1: 9}), 0) == ({"a": 2}, False)  # type: ignore[arg-type]
    monkeypatch.setattr(commit_sample, "_MOST_RECORDS", 3)
    assert count_commits(Ends({0: 2, 1: 1}), 0) == ({"a": 2, "b": 1}, True)  # type: ignore[arg-type]


class Ends:
    """A cluster whose partitions end here."""

    def __init__(self, ends: Mapping[int, int]) -> None:
        self.partitions, self._ends = len(ends), ends

    def identify(self, _: str) -> Ends:
        """The topic."""
        return self

    def end_offsets(self, *_: object) -> Mapping[int, int]:
        """The ends."""
        return self._ends

    def offsets_since(self, *_: object) -> Mapping[int, int]:
        """The begins."""
        return dict.fromkeys(self._ends, 0)


def test_a_topic_that_may_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is in the answer, and nothing goes to the history."""

    def refuse(_: object, __: int) -> None:
        raise GroupReplayError("not allowed to read", where="__consumer_offsets")

    monkeypatch.setattr(commit_sample, "count_commits", refuse)
    offered: list[CommitCounts] = []
    found = CommitSample(HERE, lambda: 1_000_000, offered.append).counts()
    assert (found.commits, found.complete, found.error) == (
        {},
        False,
        "not allowed to read (__consumer_offsets)",
    )
    assert offered == []
