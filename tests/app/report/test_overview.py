"""``app/report/overview.py``."""

from __future__ import annotations

from pathlib import Path

from groupreplay.app.report.overview import AllStrips, all_strips, groups_overview, that_fit
from groupreplay.app.report.page import island_bytes
from groupreplay.state import Context
from groupreplay.streaming.sources.capture import read_captures
from support.histories.builders import commit, generation, member
from support.job.captures import CLUSTER_ID, ERA, raw, write_capture
from support.pictures.timelines import BEGIN, MINUTE, SOURCE, timeline_of

TWO_GROUPS = [
    generation(1, member("a", (0, 1)), at=BEGIN),
    commit("t", 0, 5, at=BEGIN + 1_000),
    generation(2, member("a", (0,)), member("b", (1,)), at=BEGIN + MINUTE),
]


def strips(path: Path) -> AllStrips:
    """The strips of a capture of the history."""
    capture = write_capture(path / "a.parquet", raw(TWO_GROUPS))
    context = Context(cluster_id=CLUSTER_ID, era=ERA, member_events=True)
    return all_strips(read_captures([capture]), context, None, None, None)


def test_a_strip_for_each_group(tmp_path: Path) -> None:
    """From its first event to the end of the log, with its rebalances and moves."""
    found = strips(tmp_path)
    (strip,) = found.strips
    assert (found.since_ms, found.until_ms) == (BEGIN, BEGIN + MINUTE + 1)
    shown = (
        strip.group_id,
        strip.tone,
        strip.rebalance_count,
        strip.moved,
        sum(strip.rebalances),
        strip.in_full,
    )
    assert shown == ("g", "ok", 2, 1, 2, False)


def test_which_groups_are_shown_in_full(tmp_path: Path) -> None:
    """A group with a timeline keeps its strip; the others have their numbers, and a remark counts them."""
    found = strips(tmp_path)
    none = groups_overview(found, [], SOURCE)
    full = groups_overview(found, [timeline_of(TWO_GROUPS)], SOURCE)
    assert [(one.in_full, one.rebalances) for one in none.strips] == [(False, ())]
    assert [(one.in_full, sum(one.rebalances)) for one in full.strips] == [(True, 2)]
    assert [one.kind for one in none.remarks] == ["strips", "summed_groups", "summed_groups"]
    assert [one.kind for one in full.remarks] == ["strips"]


def test_groups_that_do_not_fit(tmp_path: Path) -> None:
    """They have a row only, a remark counts them, and a smaller group behind them is still shown."""
    large, small = timeline_of(TWO_GROUPS), timeline_of(TWO_GROUPS[:1])
    room = island_bytes(small) + 10
    assert (that_fit([large, small], room), that_fit([small, small], room)) == ([small], [small])
    found = groups_overview(strips(tmp_path), [], SOURCE, too_large=2)
    assert found.remarks[2].text == (
        "2 groups did not fit in full; groupreplay report --group draws each alone."
    )
