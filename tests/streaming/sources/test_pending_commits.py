"""Commits of open transactions in a broker's folder: which, of whom, and which offset wins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from groupreplay.codecs import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.conditions.transaction_hanging import TransactionHanging
from groupreplay.state.output.envelope import event_type
from groupreplay.state.policy.pending import PendingCommit
from groupreplay.streaming.config.settings import RetentionFlags
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.sources.log_folders import LogFolderSource
from groupreplay.streaming.sources.source import context_of
from support.histories.log_files import ABORT, COMMIT, batch, marker, write_segment

KeyAndValue = tuple[bytes | None, bytes | None]


def commit(partition: int, offset: int | None) -> KeyAndValue:
    """A commit of the group ``g``; None: its tombstone."""
    value = (
        None
        if offset is None
        else OffsetCommitValue(version=3, offset=offset, metadata="", commit_timestamp_ms=1)
    )
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=partition))
    return key, None if value is None else encode_value(value)


def pending_in(folder: Path, *batches: bytes) -> list[dict[str, Any]]:
    """Partition, offset, producer and the newer offset of what is pending in this log."""
    write_segment(folder / f"{OFFSETS_TOPIC}-7", *batches)
    fields = ("partition", "offset", "producer_id", "newer_offset")
    return [
        {name: getattr(one, name) for name in fields} for one in LogFolderSource([folder]).open().pending()
    ]


def test_a_pending_commit(tmp_path: Path) -> None:
    """All that is known of it, also as a field of ``describe``; the offset before stays committed."""
    folder = tmp_path / f"{OFFSETS_TOPIC}-7"
    write_segment(
        folder, batch(4, commit(0, 40)), batch(5, commit(0, 42), producer=9), batch(6, commit(1, 1))
    )
    source = LogFolderSource([folder])
    expected = PendingCommit(
        group="g",
        topic="t",
        partition=0,
        offset=42,
        log_partition=7,
        log_offset=5,
        held_from=5,
        written_ms=1_005,
        since_ms=1_005,
        producer_id=9,
        producer_epoch=0,
        newer_offset=None,
        first_offset=5,
        open_ms=1_006,
    )
    rows = source.open()
    context = context_of(rows, RetentionFlags())
    assert context.pending == {"g": (expected,)}
    replay = Replay(context)
    list(replay.feed(rows))
    (group,) = replay.groups()
    described = group.describe()
    assert [(one["partition"], one["offset"]) for one in described["offsets"]] == [(0, 40)]
    assert described["pending_offsets"] == [expected.document()]


def test_events_are_at_the_times_of_their_thresholds(tmp_path: Path) -> None:
    """As a prober's: a minute and a quarter of an hour after the begin, as far as records show that it is open."""
    warning = ("1970-01-01T00:01:01.005Z", "WARN", 60_000)
    error = ("1970-01-01T00:15:01.005Z", "ERROR", 900_000)
    for last, until_ms, expected in (
        (60_003, None, []),
        (60_005, None, [warning]),
        (2_000_000, None, [warning, error]),
        (2_000_000, 800_000, [warning]),
    ):
        folder = tmp_path / f"{last}-{until_ms}" / f"{OFFSETS_TOPIC}-7"
        # The time of a record is its offset and a second.
        write_segment(folder, batch(5, commit(0, 42), producer=9), batch(last, commit(1, 1)))
        rows = LogFolderSource([folder]).open()
        replay = Replay(context_of(rows, RetentionFlags()), until_ms=until_ms)
        wanted = Filter(types={event_type(TransactionHanging.NAME)})
        events = [json.loads(event) for event in events_in_order(replay.feed(rows), wanted)]
        told = [(one["time"], one["severitytext"], one["data"]["elapsed_ms"]) for one in events]
        assert told == expected
        assert {one["data"]["since_ms"] for one in events} <= {1_005}


def test_ended_transactions_leave_nothing(tmp_path: Path) -> None:
    """Committed, aborted, and no transaction at all."""
    assert not pending_in(
        tmp_path,
        batch(0, commit(0, 1), producer=1),
        marker(1, 1, COMMIT),
        batch(2, commit(0, 2), producer=2),
        marker(3, 2, ABORT),
        batch(4, commit(0, 3)),
    )


def test_which_offset_wins(tmp_path: Path) -> None:
    """A later commit wins, with or without a transaction, but not an aborted one; the last of one producer counts."""
    assert pending_in(
        tmp_path,
        batch(0, commit(0, 1), commit(1, 1), commit(2, 1), commit(3, 1), producer=1),
        batch(4, commit(0, 5), producer=1),
        batch(5, commit(1, 6)),
        batch(6, commit(2, 7), producer=2),
        marker(7, 2, COMMIT),
        batch(8, commit(3, 8), producer=3),
        marker(9, 3, ABORT),
    ) == [
        {"partition": 0, "offset": 5, "producer_id": 1, "newer_offset": None},
        {"partition": 1, "offset": 1, "producer_id": 1, "newer_offset": 6},
        {"partition": 2, "offset": 1, "producer_id": 1, "newer_offset": 7},
        {"partition": 3, "offset": 1, "producer_id": 1, "newer_offset": None},
    ]


def test_a_tombstone_ends_what_is_pending(tmp_path: Path) -> None:
    """Of any producer; records of groups are passed by."""
    group = encode_key(GroupMetadataKey(group="g")), None
    assert pending_in(
        tmp_path,
        batch(0, commit(0, 1), commit(1, 1), producer=1),
        batch(2, commit(0, 2), producer=2),
        batch(3, commit(0, None), group),
    ) == [{"partition": 1, "offset": 1, "producer_id": 1, "newer_offset": None}]
