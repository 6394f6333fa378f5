"""The records and commits of some groups, kept while the rows of a log pass by."""

from __future__ import annotations

from typing import Any

import pytest

from groupreplay.codecs import GroupMetadataKey, OffsetCommitKey
from groupreplay.streaming.engine.group_log import GroupLogs, LogGaps
from support.histories.builders import GROUP, commit, generation, gone, member, no_offset
from support.job.captures import raw, rows_batch

HISTORY = [
    commit("t", 0, 1, at=1_000, metadata="é"),
    commit("t", 1, 1, at=2_000),
    generation(1, member("a", (0,)), at=3_000),
    commit("t", 0, 2, at=4_000),
    commit("u", 0, 3, at=5_000),
    no_offset("t", 0, at=6_000),
    gone(at=7_000),
]


def read(groups: set[str], size: int, **given: Any) -> GroupLogs:
    """The logs of these groups, read in batches of so many rows."""
    logs, rows = GroupLogs(groups, **given), raw(HISTORY)
    batches = [rows_batch(rows[at : at + size]) for at in range(0, len(rows), size)]
    passed = list(logs.reading(iter(batches)))
    assert passed == batches
    return logs


def test_commits_and_records_in_batches_of_any_size() -> None:
    """Every commit counts, also with metadata that is not ASCII; records are in log order, whatever the batches are."""
    for size in (1, 2, 3, 100):
        log = read({GROUP}, size).logs[GROUP]
        commits = log.commits()
        found = [
            (commits.places[number], at) for number, at in zip(commits.place, commits.at_ms, strict=True)
        ]
        assert found == [(("t", 0), 1_000), (("t", 1), 2_000), (("t", 0), 4_000), (("u", 0), 5_000)]
        kinds = [(type(one.key), one.timestamp_ms, one.value is None) for one in log.records]
        assert [one for one in kinds if one[0] is GroupMetadataKey or one[2]] == [
            (GroupMetadataKey, 3_000, False),
            (OffsetCommitKey, 6_000, True),
            (GroupMetadataKey, 7_000, True),
        ]
        # States need the first commit of a group and the first one after a record; a topic's id is in its first one.
        assert [at for kind, at, is_gone in kinds if kind is OffsetCommitKey and not is_gone][:2] == [
            1_000,
            4_000,
        ] or (size == 1)
        assert {1_000, 4_000, 5_000} <= {at for _, at, _ in kinds}


def test_other_groups_are_left_out() -> None:
    """A group that was not asked for has no log."""
    assert dict(read({"other"}, 3).logs) == {}


def test_the_end_of_the_time() -> None:
    """Later records are neither counted nor kept; a time that cannot be is counted apart."""
    log = read({GROUP}, 100, until_ms=3_000).logs[GROUP]
    assert (len(log.commits().at_ms), max(one.timestamp_ms for one in log.records), log.undated) == (
        2,
        3_000,
        0,
    )
    logs = GroupLogs({GROUP})
    list(logs.reading(iter([rows_batch(raw([commit("t", 0, 1, at=-1), commit("t", 0, 2, at=5)]))])))
    assert (logs.logs[GROUP].undated, len(logs.logs[GROUP].commits().at_ms)) == (1, 1)


@pytest.mark.parametrize(
    ("offsets", "gaps"),
    [
        ([0, 1, 2, 3], ()),
        # The marker of a transaction takes one offset; before it there was a record.
        ([0, 2, 3, 5], ()),
        ([1, 2, 3, 4], ((0, 10_000),)),
        ([0, 3, 4, 5], ((10_000, 20_000),)),
        ([0, 3, 6, 7], ((10_000, 30_000),)),
        ([0, 3, 4, 9], ((10_000, 20_000), (30_000, 40_000))),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_times_of_which_the_log_lacks_records(
    offsets: list[int], gaps: tuple[tuple[int, int], ...], size: int
) -> None:
    """Between two records with at least two offsets between them, and before the first; whatever the batches are."""
    history = [commit("t", 0, at, at=10_000 * (at + 1)) for at in range(4)]
    rows = [row._replace(offset=offset) for row, offset in zip(raw(history), offsets, strict=True)]
    elsewhere = [row._replace(partition=row.partition + 1, offset=9, key=b"") for row in rows[:1]]
    logs, seen = GroupLogs({GROUP}), LogGaps()
    parted = GroupLogs({GROUP}, gaps=seen)
    for at in range(0, len(rows), size):
        batch = rows_batch([*rows[at : at + size], *elsewhere[at:]])
        list(logs.reading(iter([batch])))
        # A site keeps the rows of a group only: it shows all of them to the gaps.
        seen.see(batch)
        list(parted.reading(iter([rows_batch(rows[at : at + size])])))
    assert logs.logs[GROUP].commits().gaps == gaps
    assert parted.logs[GROUP].commits().gaps == gaps


def test_records_of_other_groups_fill_no_gap_of_a_group_without_records() -> None:
    """Which partition of the log is its own is not known then."""
    assert GroupLogs({GROUP}).logs[GROUP].commits().gaps == ()
