"""``app/inspection/group_use.py``: readers of topics, unused groups, and what groups write."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.app.inspection.group_lag import GroupLags
from groupreplay.app.inspection.group_use import (
    CommitLoads,
    last_used_ms,
    load_table,
    of_topics,
    reader_rows,
    reader_table,
    unused,
    unused_row,
    unused_table,
)
from groupreplay.app.text.tables import Moment, Table
from groupreplay.codecs import LegacyOffsetCommitKey, Malformed, OffsetCommitKey, Skipped
from groupreplay.streaming.engine.group_choice import GroupChoice
from groupreplay.streaming.engine.packing.key_columns import usable_key
from groupreplay.streaming.sources.recorded_ends import RecordedEnds
from support.histories.builders import commit as commit_of
from support.histories.modern_builders import first_join
from support.histories.other_kinds import share_group, streams_group
from support.histories.raw_records import Raw, commit, generation, log, random_log
from support.job.captures import rows_batch
from support.job.described_groups import AT, of_kind, stable

DAY = 86_400_000
STREAMS = [*streams_group(AT), commit_of("t", 0, 5, at=AT)]
NO_ENDS = GroupLags(RecordedEnds("c"), AT)


@pytest.mark.parametrize(
    ("history", "topic", "row"),
    [
        (None, "t", ("t", "g", "classic", "Stable", 2, 1, 2, Moment(AT))),
        (first_join(at=AT), "orders", ("orders", "g", "consumer", "Stable", 1, 1, 0, None)),
        (first_join(at=AT), "t", ("t", "g", "consumer", "Stable", 1, 0, 0, None)),
        (share_group(AT), "orders", ("orders", "g", "share", "Stable", 1, 1, 0, None)),
        # Its members own tasks: which partitions these read is not in the log.
        (STREAMS, "t", ("t", "g", "streams", "Reconciling", 1, None, 1, Moment(AT))),
    ],
    ids=["classic", "consumer", "only subscribed", "share", "streams"],
)
def test_who_reads_a_topic(
    tmp_path: Path, history: list[Any] | None, topic: str, row: tuple[Any, ...]
) -> None:
    """Who has committed, who owns a partition, and who is only subscribed; of another topic there is nothing."""
    groups = stable(tmp_path) if history is None else of_kind(tmp_path, history)
    readers = reader_rows(of_topics(groups, GroupChoice([topic])), GroupChoice([topic]), NO_ENDS)
    headings = ("TOPIC", "GROUP", "TYPE", "STATE", "#MEMBERS", "#OWNERS", "#PARTITIONS", "LAST-COMMIT")
    table = reader_table([reader for reader in readers if reader.group_id == "g"], with_lag=False)
    assert table == Table(headings, [row])
    # A number is the name of a subtopology.
    assert of_topics(groups, GroupChoice(["another", "0"])) == []


def described(name: str, *commits_ms: int, since_ms: int | None = None, members: int = 0) -> dict[str, Any]:
    """The fields of a group that decide whether it is used."""
    return {
        "group_id": name,
        "type": "classic",
        "state": "Empty",
        "since_ms": since_ms,
        "members": [{}] * members,
        "offsets": [{"commit_timestamp_ms": at_ms} for at_ms in commits_ms],
    }


def test_groups_that_nobody_uses() -> None:
    """Neither members nor a commit nor a change since then; without any time nothing is proven."""
    groups = [
        described("commits", 1, 5 * DAY),
        described("old", 1, 2, since_ms=3),
        described("emptied later", 1, since_ms=5 * DAY),
        described("older", 1),
        described("has members", 1, members=1),
        described("without a time"),
    ]
    assert last_used_ms(groups[-1]) is None
    rows = [unused_row(group, 5 * DAY) for group in unused(groups, DAY)]
    assert unused_table(rows).rows == [
        ("older", "classic", "Empty", 1, Moment(1), None, "5 d 0 h"),
        ("old", "classic", "Empty", 2, Moment(2), Moment(3), "5 d 0 h"),
    ]
    assert unused(groups, 3) == [groups[3]]


def counted(rows: list[Raw]) -> tuple[Counter[str | None], dict[str, tuple[int, int]]]:
    """Record by record: the bytes of each group, and its commits behind the last gap with the time of that."""
    sizes, tails, last = Counter[str | None](), dict[int, tuple[int, Counter[str]]](), dict[int, int]()
    for row in rows:
        key = usable_key(row.key)
        group = None if isinstance(key, Skipped | Malformed) else key.group
        sizes[group] += len(row.key or b"") + len(row.value or b"")
        if row.offset - last.get(row.partition, row.offset) > 2 or row.partition not in tails:
            tails[row.partition] = row.timestamp_ms, Counter()
        last[row.partition] = row.offset
        if group is not None and isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            tails[row.partition][1][group] += row.value is not None
    return sizes, {
        group: (since_ms, number) for since_ms, groups in tails.values() for group, number in groups.items()
    }


@given(
    seed=st.integers(0, 2**32),
    size=st.integers(1, 40),
    missing=st.sets(st.integers(0, 79)),
    until=st.none() | st.integers(0, 80_000),
)
def test_the_load_is_that_of_the_single_records(
    seed: int, size: int, missing: set[int], until: int | None
) -> None:
    """Whatever the records, the batches and the gaps: the bytes of all, and the commits behind the last gap."""
    rows = [row for row in random_log(seed, 80) if row.offset not in missing]
    loads = CommitLoads(until)
    batches = [rows_batch(rows[start : start + size]) for start in range(0, len(rows), size)]
    assert list(loads.reading(iter(batches))) == batches
    sizes, commits = counted([row for row in rows if until is None or row.timestamp_ms <= until])
    assert +loads.bytes == +sizes
    groups = [described(name) for name in sorted(name for name in sizes if name is not None)]
    for row in loads.rows(groups, 100_000):
        since_ms, number = commits.get(row.group_id, (row.since_ms, 0))
        assert (row.commits, row.since_ms, row.bytes) == (number, since_ms, sizes[row.group_id])
        assert row.share == round(sizes[row.group_id] / sizes.total(), 6)


def test_the_busiest_first() -> None:
    """By commits a second; a marker of a transaction is no gap, and less than a minute behind a gap has no rate."""
    records = [commit("a"), commit("b"), commit("b"), generation("idle")]
    rows = [*log(records), *log([commit("b")], first_offset=5)]
    loads = CommitLoads()
    for _ in loads.reading(iter([rows_batch(rows)])):
        pass
    assert load_table(loads.rows([described("a"), described("b"), described("idle")], 100_000)).rows == [
        ("b", "classic", "Empty", 0, 3, "1 min 40 s", "0.03", 108, "58.7 %"),
        ("a", "classic", "Empty", 0, 1, "1 min 40 s", "0.01", 36, "19.6 %"),
        ("idle", "classic", "Empty", 0, 0, "1 min 40 s", "0", 40, "21.7 %"),
    ]
    assert [
        (row.commits, row.over_ms, row.commits_per_second) for row in loads.rows([described("b")], 59_000)
    ] == [(3, 59_000, None)]
    assert [row.commits_per_second for row in CommitLoads().rows([described("a")], 100_000)] == [None]
