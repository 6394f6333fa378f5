"""Commits over time, and the moments of a history of lag."""

from __future__ import annotations

from groupreplay.app.inspection.lag_history import moments
from groupreplay.state.snapshot.observations import GroupRecord
from groupreplay.streaming.engine.group_choice import GroupChoice
from groupreplay.streaming.engine.group_log import GroupLogs
from groupreplay.timeline.commit_rates import CommittedOffsets, committed_offsets
from groupreplay.timeline.lag import Committed
from support.histories.builders import commit, no_offset
from support.job.captures import raw, rows_batch


def committed(
    *log: GroupRecord, groups: GroupChoice | None = None
) -> dict[tuple[str, int], CommittedOffsets]:
    """What the group of a log has committed over time, by partition."""
    logs = GroupLogs(groups or GroupChoice())
    for _ in logs.reading(iter([rows_batch(raw(log))])):
        pass
    return dict(committed_offsets(logs.logs["g"].commits()))


def test_the_commit_that_counts() -> None:
    """The last one before the moment; none before the first one, and none after the offset was removed."""
    log = (commit("t", 0, 5, at=10), commit("t", 0, 9, at=20), no_offset("t", 0, at=30))
    commits = committed(*log)["t", 0]
    first, second = Committed(5, 10), Committed(9, 20)
    assert [commits.at(at_ms) for at_ms in (9, 10, 19, 20, 29, 30)] == [
        None,
        first,
        first,
        second,
        second,
        None,
    ]


def test_a_clock_that_was_set_back() -> None:
    """What is later in the log counts, whatever its time."""
    commits = committed(commit("t", 0, 5, at=10), commit("t", 0, 9, at=3))["t", 0]
    assert commits.at(10) == Committed(9, 10)


def test_other_groups_are_left_out() -> None:
    """Only the groups that are asked for are kept in memory."""
    assert committed(commit("t", 0, 5, at=10), groups=GroupChoice(["h"])) == {}


def test_moments() -> None:
    """A step that was chosen, or about thirty; never closer than the ends are recorded; the end is one of them."""
    assert moments(0, 100, 40) == [0, 40, 80, 100]
    assert moments(0, 60_000, None) == [0, 30_000, 60_000]
    assert len(moments(0, 86_400_000, None)) == 31
    assert moments(5, 5, None) == [5]
