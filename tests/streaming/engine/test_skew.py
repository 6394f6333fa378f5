"""One group that is far larger or busier than all others: what it makes of a batch, and of the other groups."""

from __future__ import annotations

from collections.abc import Sequence

from groupreplay.state import Context
from groupreplay.streaming.engine.advance import advance
from support.histories.builders import generation, member
from support.histories.raw_records import Raw, commit, log
from support.job.captures import in_bytes
from support.job.packed import packed_by_key

CONTEXT = Context(cluster_id="c")
NOW_MS = 3_600_000


def applied(blob: bytes | None, blobs: Sequence[bytes]) -> bytes:
    """The state after a call."""
    result = advance(b"g:g", blob, blobs, now_ms=NOW_MS, recorded_ms=NOW_MS, context=CONTEXT)
    assert result.blob is not None
    return result.blob


def busy(count: int) -> list[Raw]:
    """Commits of one group, each ahead of the one before, with one of another group behind each hundred."""
    return log([commit("h" if number % 100 == 99 else "g", "t", offset=number) for number in range(count)])


def test_commits_of_a_busy_group_are_one_row() -> None:
    """What reaches its call, and its state, do not grow with the commits: ten times as many, and the same size."""
    few, many = (packed_by_key(busy(count))[b"g:g"] for count in (1_000, 10_000))
    assert (len(few), len(many)) == (1, 1)
    assert len(many[0]) < len(few[0]) + 20
    assert len(applied(None, many)) < len(applied(None, few)) + 20


def test_other_groups_do_not_notice() -> None:
    """The rows of another group are those of a log without the busy one, but for how far the chunk was seen."""
    alone = [row for row in busy(1_000) if (row.key or b"")[4:5] == b"h"]
    (of_both,), (of_one,) = packed_by_key(busy(1_000))[b"g:h"], packed_by_key(alone)[b"g:h"]
    assert len(of_both) == len(of_one)


def test_a_group_of_very_many_partitions() -> None:
    """Its state is some 60 bytes for each partition, and one commit is a row of its own size."""
    partitions, members = 2_000, 80
    owners = [member(f"m-{one}", range(one, partitions, members)) for one in range(members)]
    begin = in_bytes(generation(1, *owners, at=1_000))
    rows = log([begin, *(commit("g", "t", partition, offset=1) for partition in range(partitions))])
    state = applied(None, packed_by_key(rows)[b"g:g"])
    assert 40 * partitions < len(state) < 100 * partitions
    more = packed_by_key(log([commit("g", "t", offset=2)], first_offset=len(rows)))[b"g:g"]
    assert sum(map(len, more)) < 300
    assert abs(len(applied(state, more)) - len(state)) < 200
