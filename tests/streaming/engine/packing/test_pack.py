"""What ``pack`` makes of raw records, held against a slow and obvious fold of scalar decoding."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from groupreplay.codecs import (
    ZERO_UUID,
    GroupMetadataKey,
    Malformed,
    OffsetCommitKey,
    OffsetCommitValue,
    Skipped,
    decode_value,
)
from groupreplay.state.job.bad_records import BadRecord, left_out
from groupreplay.state.job.observations import LogObservation, LogRecord
from groupreplay.state.snapshot.commit_steps import STEPS
from groupreplay.state.snapshot.observations import (
    COMMITS,
    LULL_MS,
    LULLS,
    SILENCE_MS,
    CommitRun,
    GroupRecord,
)
from groupreplay.state.stored_form import bounded_text
from groupreplay.streaming.engine.packing import pack as pack_module
from groupreplay.streaming.engine.packing.pack import pack
from groupreplay.streaming.engine.wire import unpack_bad_records, unpack_group, unpack_job
from support.histories.builders import is_step, rhythm_of
from support.histories.raw_records import Raw, batches, commit, commit_key, generation, log, random_log
from support.job.packed import packed_by_key
from support.tools.plain_times import dated_records, limit_of


def plain(item: GroupRecord | CommitRun) -> Any:
    """An observation as values that can be compared; a run by topic name instead of table place."""
    if isinstance(item, GroupRecord):
        return item
    rows = [dict(zip(COMMITS.names, row, strict=True)) for row in item.rows.tolist()]
    for place, row in enumerate(rows):
        row["topic"] = item.topics[row["topic"]]
        row["metadata"] = item.metadata.get(place, "")
    steps = [dict(zip(STEPS.names, row, strict=True)) for row in item.steps.tolist()]
    lulls = [dict(zip(LULLS.names, row, strict=True)) for row in item.lulls.tolist()]
    for one in (*steps, *lulls):
        row = rows[one["row"]]
        one["row"] = (row["topic"], row["partition"])
    return {
        "partition": item.partition,
        "rows": sorted(rows, key=lambda row: row["first_log_offset"]),
        "steps": sorted(steps, key=lambda step: step["log_offset"]),
        "lulls": sorted(lulls, key=lambda lull: lull["row"]),
        "topic_ids": {item.topics[place]: topic_id for place, topic_id in item.topic_ids.items()},
        "rhythm": item.rhythm.tobytes(),
    }


def folded_slowly(rows: list[Raw], caught_up_ms: int = 0) -> tuple[dict[str, list[Any]], list[BadRecord]]:
    """(observations by group, bad records) as ``pack`` must give them for one chunk of one partition."""
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    dated, bad = dated_records(rows, caught_up_ms)
    for raw, key, value, cut in dated:
        if isinstance(value, Skipped | Malformed):
            malformed = isinstance(value, Malformed)
            bad.append(
                BadRecord(
                    partition=raw.partition,
                    offset=raw.offset,
                    timestamp_ms=raw.timestamp_ms,
                    group=None if isinstance(key, Skipped | Malformed) else key.group,
                    kind="malformed" if malformed else "skipped",
                    key_type=value.key_type,
                    version=value.version,
                    field=value.field if malformed else None,
                    byte_position=value.at if malformed else None,
                    reason=value.reason,
                    read_ms=None if 0 <= raw.timestamp_ms <= limit_of(caught_up_ms) else caught_up_ms,
                )
            )
            continue
        items = groups[key.group]
        part = None if value is None or isinstance(value, OffsetCommitValue) else left_out(value)
        if part is not None:
            bad.append(
                BadRecord(
                    partition=raw.partition,
                    offset=raw.offset,
                    timestamp_ms=raw.timestamp_ms,
                    group=key.group,
                    kind="partial",
                    key_type=key.KEY_TYPE,
                    version=value.version,
                    field=part.field,
                    byte_position=None,
                    reason=f"{part.what}; all other values are applied",
                )
            )
        if not isinstance(value, OffsetCommitValue):
            items.append(
                GroupRecord(
                    partition=raw.partition,
                    offset=raw.offset,
                    timestamp_ms=raw.timestamp_ms,
                    key=key,
                    value=value,
                )
            )
            continue
        if not items or isinstance(items[-1], GroupRecord) or cut:
            parts: dict[str, Any] = {
                "rows": {},
                "steps": [],
                "lulls": [],
                "topic_ids": {},
                "gaps": [],
                "repeats": [],
            }
            items.append({"partition": raw.partition, **parts})
        add_commit(items[-1], raw, key, value)
    for items in groups.values():
        for item in items:
            if isinstance(item, dict):
                item["rows"] = list(item["rows"].values())
                item["lulls"].sort(key=lambda lull: lull["row"])
                item["rhythm"] = rhythm_of(item.pop("gaps"), item.pop("repeats")).tobytes()
    return dict(groups), sorted(bad, key=lambda one: one.offset)


def add_commit(run: dict[str, Any], raw: Raw, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
    """One more commit of a run, by the book."""
    place = (key.topic, key.partition)
    row = run["rows"].setdefault(
        place,
        {
            "topic": key.topic,
            "partition": key.partition,
            "count": 0,
            "first_offset": value.offset,
            "first_log_offset": raw.offset,
            "first_timestamp_ms": raw.timestamp_ms,
            "first_commit_timestamp_ms": value.commit_timestamp_ms,
            "changed_ms": -1,
            "moved_ms": -1,
            "first_leader_epoch": value.leader_epoch,
        },
    )
    gap_ms = 0
    if row["count"]:
        gap_ms = max(0, value.commit_timestamp_ms) - max(0, row["commit_timestamp_ms"])
        run["gaps"].append((raw.timestamp_ms, gap_ms))
        run["repeats"].append(value.offset == row["offset"])
        if value.offset != row["offset"]:
            row["changed_ms"] = value.commit_timestamp_ms
            row["moved_ms"] = raw.timestamp_ms if row["moved_ms"] == -1 else row["moved_ms"]
        if gap_ms >= LULL_MS:
            run["lulls"].append(
                {"row": place, "before_ms": row["commit_timestamp_ms"], "after_ms": raw.timestamp_ms}
            )
    if row["count"] and is_step(row["offset"], value.offset, row["leader_epoch"], value.leader_epoch, gap_ms):
        run["steps"].append(
            {
                "row": place,
                "old_offset": row["offset"],
                "new_offset": value.offset,
                "log_offset": raw.offset,
                "timestamp_ms": raw.timestamp_ms,
                "old_leader_epoch": row["leader_epoch"],
                "leader_epoch": value.leader_epoch,
            }
        )
    row["count"] += 1
    row["offset"], row["leader_epoch"] = value.offset, value.leader_epoch
    row["commit_timestamp_ms"], row["expire_timestamp_ms"] = (
        value.commit_timestamp_ms,
        value.expire_timestamp_ms,
    )
    row["log_offset"], row["timestamp_ms"] = raw.offset, raw.timestamp_ms
    row["metadata"] = bounded_text(value.metadata)
    if value.topic_id != ZERO_UUID:
        run["topic_ids"][key.topic] = value.topic_id


def unpacked(blobs: dict[bytes, list[bytes]]) -> tuple[dict[str, list[Any]], list[BadRecord]]:
    """``pack``'s result in the form of ``folded_slowly``."""
    groups = {
        key[2:].decode(): [plain(item) for item in unpack_group(packed).items]
        for key, packed in blobs.items()
        if key.startswith(b"g:")
    }
    bad = [
        one.record
        for key, packed in blobs.items()
        if key.startswith(b"x:")
        for one in unpack_bad_records(packed)
    ]
    return groups, bad


@pytest.mark.parametrize("seed", range(25))
def test_pack_equals_the_scalar_fold(seed: int) -> None:
    """Random records of every version, tombstones, odd and damaged bytes: folded exactly as one by one."""
    agree(random_log(seed, 2_000, partition=seed % 3))


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("caught_up_ms", [0, 2_000_000_000_000])
def test_pack_equals_the_scalar_fold_whatever_the_times(seed: int, caught_up_ms: int) -> None:
    """Records without a time, with times that cannot be, and with times that go back and forth."""
    random = Random(seed)
    share = random.choice((0.01, 0.3, 0.9))
    wild = (-(2**63), -2, -1, -1, 0, 500_000, 2_000_050_000_000, 2_000_100_000_000, 2**42, 2**62, 2**63 - 1)
    rows = [
        one._replace(timestamp_ms=random.choice(wild) if random.random() < share else one.timestamp_ms)
        for one in random_log(seed, 400, partition=seed % 3)
    ]
    agree(rows, caught_up_ms)


@pytest.mark.parametrize("seed", range(25))
def test_pack_equals_the_scalar_fold_of_groups_that_were_silent(seed: int) -> None:
    """Runs end where a group was silent, also beside groups that were not."""
    random = Random(seed)
    jumps = accumulate(random.choice((0, 0, 0, 0, SILENCE_MS - 1_000, SILENCE_MS)) for _ in range(400))
    rows = random_log(seed, 400, partition=seed % 3)
    agree([one._replace(timestamp_ms=one.timestamp_ms + jump) for one, jump in zip(rows, jumps, strict=True)])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1_000, 1_040))
def test_pack_equals_the_scalar_fold_of_a_million_records(seed: int) -> None:
    """The same for 40 times 25 000 records."""
    agree(random_log(seed, 25_000, partition=seed % 3))


def agree(rows: list[Raw], caught_up_ms: int = 0) -> None:
    """What ``pack`` makes of the rows of one partition is what the scalar decoder and a plain fold make."""
    groups, bad = unpacked(packed_by_key(rows, caught_up_ms=caught_up_ms))
    expected_groups, expected_bad = folded_slowly(rows, caught_up_ms)
    assert groups == expected_groups
    assert bad == expected_bad


def test_random_records_reach_every_path() -> None:
    """The generator makes what the parity test is about: regular and odd commits, tombstones, bad records."""
    groups, bad = folded_slowly(random_log(0, 1_500))
    items = [item for group in groups.values() for item in group]
    runs = [item for item in items if isinstance(item, dict)]
    assert any(len(run["rows"]) > 1 for run in runs)
    assert any(run["steps"] for run in runs)
    assert any(run["topic_ids"] for run in runs)
    assert any(isinstance(item, GroupRecord) and item.value is None for item in items)
    assert any(isinstance(item, GroupRecord) and item.value is not None for item in items)
    assert {one.kind for one in bad} == {"malformed", "skipped", "timestamp"}
    assert any(one.group is None for one in bad)
    assert any(one.group is not None for one in bad)


def test_how_spark_cuts_the_batches_does_not_matter() -> None:
    """The same rows in batches of any size give the same packed bytes, as long as they fit into one chunk."""
    rows = random_log(7, 500) + random_log(8, 500, partition=1)
    assert packed_by_key(rows, size=3) == packed_by_key(rows, size=1_000)


def test_partitions_are_kept_apart() -> None:
    """Each row of the output is about one Kafka partition and has the last offset of that partition."""
    rows = log([commit("a"), commit("b"), generation("other")], partition=3, first_offset=10)
    rows += log([commit("a")], partition=5, first_offset=70)
    blobs = packed_by_key(rows)
    assert {key: len(packed) for key, packed in blobs.items()} == {
        b"g:a": 2,
        b"g:b": 1,
        b"g:other": 1,
        b"j:": 1,
    }
    (observations,) = (unpack_group(blobs[b"g:b"]),)
    assert observations.seen_to == 12
    assert [(run.partition, run.first_offset) for run in unpack_group(blobs[b"g:a"]).items] == [
        (3, 10),
        (5, 70),
    ]


def test_a_chunk_out_of_order_is_put_in_order() -> None:
    """A capture may hold its rows in any order; the log's order is restored before anything is folded."""
    rows = random_log(3, 400) + random_log(4, 400, partition=1)
    shuffled = sorted(rows, key=lambda row: row.offset * 7919 % 997)
    assert unpacked(packed_by_key(shuffled)) == unpacked(packed_by_key(rows))


def test_another_record_of_the_group_cuts_its_run() -> None:
    """A tombstone between commits of its group makes two runs; another group's record cuts nothing."""
    rows = log([commit("a", offset=1), commit("a", offset=2), (commit_key("a"), None), commit("a", offset=3)])
    rows += log([generation("b"), commit("a", offset=4)], first_offset=4)
    items = unpack_group(packed_by_key(rows)[b"g:a"]).items
    assert [
        (
            type(item),
            item.first_offset,
            int(item.rows["count"].sum()) if isinstance(item, CommitRun) else None,
        )
        for item in items
    ] == [(CommitRun, 0, 2), (GroupRecord, 2, None), (CommitRun, 3, 2)]


def test_chunks_are_cut_by_rows_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays flat: no chunk has more rows or bytes than the limits, unless one value is larger."""
    monkeypatch.setattr(pack_module, "_CHUNK_ROWS", 100)
    monkeypatch.setattr(pack_module, "_CHUNK_BYTES", 50_000)
    rows = log([commit("a", offset=place) for place in range(1_000)])
    rows += log([(commit_key("a"), b"\0\x09" + bytes(60_000)) for _ in range(3)], first_offset=1_000)
    tables = list(pack_module._chunks(batches(rows, 450)))
    assert sum(table.num_rows for table in tables) == 1_003
    assert all(table.num_rows <= 100 for table in tables)
    assert all(table.nbytes <= 50_000 or table.num_rows == 1 for table in tables)
    run_counts = [
        int(item.rows["count"].sum()) for item in unpack_group(packed_by_key(rows, 450)[b"g:a"]).items
    ]
    assert sum(run_counts) == 1_000


def test_a_large_value_travels_whole_and_a_large_bad_one_is_cut() -> None:
    """A group record of 1 MB is passed on; of a malformed value of 1 MB 64 KiB remain, and its hash."""
    key, value = generation("big")
    large = value + bytes(1 << 20)
    rows = log([(key, large), (key, b"\0\x03" + b"\xff" * (1 << 20))])
    blobs = packed_by_key(rows)
    (record,) = unpack_group(blobs[b"g:big"]).items
    assert record == GroupRecord(
        partition=0,
        offset=0,
        timestamp_ms=0,
        key=GroupMetadataKey(group="big"),
        value=decode_value(GroupMetadataKey(group="big"), large),
    )
    (bad,) = unpack_bad_records(blobs[b"x:0"])
    assert (bad.record.group, bad.record.kind, bad.value_length) == ("big", "malformed", (1 << 20) + 2)
    assert bad.value is not None
    assert len(bad.value) == 64 << 10


def test_no_rows_give_no_rows() -> None:
    """An empty task of Spark is no error."""
    empty = pa.RecordBatch.from_pylist([], schema=next(iter(batches(log([commit()])))).schema)
    assert list(pack(iter([]))) == []
    assert list(pack(iter([empty]))) == []


def test_run_rows_cannot_be_written() -> None:
    """Observations are views of the packed bytes: whoever wants to change one must copy it."""
    (run,) = unpack_group(packed_by_key(log([commit()]))[b"g:g"]).items
    assert isinstance(run, CommitRun)
    with pytest.raises(ValueError, match="read-only"):
        run.rows["offset"] = np.int64(1)


def test_the_last_record_of_each_partition() -> None:
    """One row a chunk, with place and timestamp; whether that is wrong is decided where the heartbeats are known."""
    key, value = commit()
    rows = [Raw(7, 3, 1_000, key, value), Raw(7, 5, -4, b"junk", None), Raw(2, 9, 2**62, key, None)]
    (packed,) = packed_by_key(rows)[b"j:"]
    assert unpack_job([packed]) == [LogObservation((LogRecord(7, 5, -4), LogRecord(2, 9, 2**62)))]
