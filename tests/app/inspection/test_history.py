"""The life of a group as a table: one row an operation, and a row for every hole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from groupreplay.app.inspection.history import HistoryRow, history, history_between, history_table
from groupreplay.app.text.tables import Table, cell_text, whole_clock
from groupreplay.codecs import GroupMetadataKey, encode_key
from groupreplay.state import Context
from groupreplay.state.events.event import Severity
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.sources.capture import read_captures
from support.histories.builders import GROUP, asked_for, commit, emptied, generation, gone, member
from support.histories.modern_builders import (
    TOPIC,
    current,
    described,
    ended,
    first_join,
    group_epoch,
    handover,
    left,
    operation,
    target,
    target_epoch,
)
from support.histories.raw_records import Raw
from support.job.captures import CLUSTER_ID, ERA, raw, write_capture

AT = 1_767_225_600_000
HOLE = "compacted away"


def life(
    tmp_path: Path, *records: Any, bad: Sequence[Raw] = (), groups: list[str] | None = None
) -> list[HistoryRow]:
    """What the history of these records says."""
    path = write_capture(tmp_path / "a.parquet", [*raw(records), *bad])
    replay = Replay(Context(cluster_id=CLUSTER_ID, era=ERA, member_events=True), groups)
    return history(replay, read_captures([path]))


def told(rows: list[HistoryRow]) -> list[tuple[Any, ...]]:
    """The table, without the group, with the seconds of the time only."""
    return [(cell_text(row[1], whole_clock())[17:23] or None, *row[2:]) for row in history_table(rows).rows]


A, B = member("a", [0, 1], client_id="app-a"), member("b", [1], client_id="app-b")


def test_a_classic_life(tmp_path: Path) -> None:
    """Who joined and left stands in the row of the rebalance, and why they left beside its trigger."""
    rows = life(
        tmp_path,
        asked_for(at=AT),
        generation(1, A, at=AT + 1_000),
        generation(2, A, B, at=AT + 3_000),
        generation(3, A, at=AT + 9_000),
        emptied(4, at=AT + 20_000),
        gone(at=AT + 30_000),
        asked_for(at=AT + 40_000),
    )
    a, b = "app-a@10.0.0.1", "app-b@10.0.0.1"
    assert told(rows) == [
        ("00.000", 0, "group.created", None, None),
        ("01.000", 1, "rebalance.completed", f"joined {a}", "first_join, took at most 1.0 s"),
        ("03.000", 2, "rebalance.completed", f"joined {b}; kept {a}", "member_joined, took at most 2.0 s"),
        (
            "09.000",
            3,
            "rebalance.completed",
            f"left {b}; kept {a}",
            f"member_left, took at most 6.0 s, {b}: left",
        ),
        ("20.000", 4, "group.emptied", f"left {a}", f"{a}: left"),
        ("30.000", 4, "group.deleted", None, None),
        ("40.000", 0, "group.created", None, None),
    ]
    assert structs.asdict(rows[3]) == {
        "group_id": "g",
        "group_type": "classic",
        "time": "2026-01-01T00:00:09.000Z",
        "generation": 3,
        "event": "rebalance.completed",
        "severity": "INFO",
        "joined": [],
        "left": [b],
        "kept": [a],
        "members": [a],
        "why": f"member_left, took at most 6.0 s, {b}: left",
        "assumed": {},
        "cost": None,
    }


def test_holes_of_a_classic_life(tmp_path: Path) -> None:
    """Before the first record, between generations that do not follow each other, and over a deletion."""
    rows = life(
        tmp_path,
        generation(5, A, at=AT + 1_000),
        generation(9, A, B, at=AT + 2_000),
        generation(11, A, at=AT + 3_000),
        generation(12, A, B, at=AT + 4_000),
        generation(2, B, at=AT + 5_000),
    )
    a, b = "app-a@10.0.0.1", "app-b@10.0.0.1"
    assert told(rows) == [
        (None, None, HOLE, None, "everything before"),
        ("01.000", 5, "rebalance.completed", f"members {a}", "unknown"),
        (None, None, HOLE, None, "generations 6 to 8"),
        ("02.000", 9, "rebalance.completed", f"members {a}, {b}", "unknown"),
        (None, None, HOLE, None, "generation 10"),
        ("03.000", 11, "rebalance.completed", f"members {a}", "unknown"),
        ("04.000", 12, "rebalance.completed", f"joined {b}; kept {a}", "member_joined, took at most 1.0 s"),
        (None, None, HOLE, None, "the end of the group, and its new beginning"),
        ("05.000", 2, "rebalance.completed", f"members {b}", "unknown"),
    ]


def test_skipped_generations_are_no_hole(tmp_path: Path) -> None:
    """In a life without holes a missing generation is a rebalance that never completed."""
    rows = life(tmp_path, asked_for(at=AT), generation(1, A, at=AT + 1_000), generation(4, A, at=AT + 2_000))
    assert told(rows)[1:] == [
        ("01.000", 1, "rebalance.completed", "joined app-a@10.0.0.1", "first_join, took at most 1.0 s"),
        (
            "02.000",
            4,
            "rebalance.completed",
            "kept app-a@10.0.0.1",
            "unknown, took at most 1.0 s, 2 generations never completed",
        ),
    ]


def test_a_life_that_begins_with_members(tmp_path: Path) -> None:
    """Old brokers begin with generation 1 and write nothing before it: that is no hole."""
    assert [row.event for row in life(tmp_path, generation(1, A, at=AT))] == ["rebalance.completed"]


def test_a_static_member(tmp_path: Path) -> None:
    """It goes by its instance id, whatever its member id."""
    first, second = (
        member(f"i-{run}", [0], instance_id="i", client_id="app", host=f"/h{run}") for run in (1, 2)
    )
    rows = life(
        tmp_path, asked_for(at=AT), generation(1, first, at=AT + 1_000), generation(1, second, at=AT + 2_000)
    )
    assert told(rows)[1:] == [
        ("01.000", 1, "rebalance.completed", "joined i", "first_join, took at most 1.0 s"),
        ("02.000", 1, "static.replaced", "kept i", "came back under a new member id"),
    ]


def test_what_only_time_has_caused(tmp_path: Path) -> None:
    """A condition that no record has brought about has its row, too, in words."""
    rows = life(tmp_path, *handover(AT), *operation(AT + 150_000, current("b", 3)))
    assert [row[2:] for row in told(rows) if row[2].endswith("slow")] == [
        (
            "rebalance.slow",
            None,
            "1 min 15 s so far, in Reconciling, not revoked, blocked by client-a on h "
            f"(holds {TOPIC} 1, will be fenced at 00:00:32.000 UTC)",
        )
    ]


def test_a_consumer_group(tmp_path: Path) -> None:
    """Epochs for generations; the start of a rebalance and its end, which knows how long it took."""
    rows = life(
        tmp_path,
        *handover(AT),
        *operation(AT + 3_000, current("a", 3, [0])),
        *operation(AT + 3_500, current("b", 3, [1])),
        *operation(AT + 8_000, left("b"), group_epoch(4)),
        *operation(AT + 8_500, target("a", [0, 1]), target_epoch(4), current("a", 4, [0, 1])),
        *operation(AT + 9_000, left("a"), group_epoch(5)),
        *operation(AT + 12_000, ended()),
    )
    a, b = "client-a@h", "client-b@h"
    assert told(rows) == [
        ("00.000", 2, "group.created", None, None),
        ("00.000", 2, "rebalance.started", f"joined {a}", "first_join"),
        ("00.000", 2, "rebalance.completed", f"joined {a}", "first_join, took 0 ms"),
        ("01.000", 3, "rebalance.started", f"joined {b}", "member_joined"),
        ("03.000", 3, "rebalance.completed", f"joined {b}; kept {a}", "member_joined, took 2.0 s"),
        ("08.000", 4, "rebalance.started", f"left {b}", f"member_left, {b}: left"),
        ("08.500", 4, "rebalance.completed", f"left {b}; kept {a}", "member_left, took 500 ms"),
        ("09.000", 5, "group.emptied", f"left {a}", f"{a}: left"),
        ("12.000", 5, "group.deleted", None, None),
    ]


def test_a_member_that_comes_while_a_rebalance_is_open(tmp_path: Path) -> None:
    """No event about the group goes with it, so that it has a row of its own, at the last known epoch."""
    rows = life(
        tmp_path,
        *first_join(at=AT),
        *operation(AT + 1_000, described("b"), group_epoch(3)),
        *operation(AT + 2_000, described("c"), group_epoch(4)),
    )
    assert told(rows)[-1] == ("02.000", 3, "member.joined", "joined client-c@h", None)


@pytest.mark.parametrize(
    ("history_of_g", "expected"),
    [
        (first_join(at=AT, epoch=57), ("00.000", 57, "first seen", "members client-a@h", "it is Stable")),
        ([commit("t", 0, 1, at=AT)], ("00.000", None, "first seen", None, "it is Empty")),
        ([emptied(8, at=AT)], ("00.000", 8, "first seen", None, "it is Empty")),
    ],
)
def test_a_group_of_which_only_the_end_is_left(
    tmp_path: Path, history_of_g: list[Any], expected: tuple[Any, ...]
) -> None:
    """Nothing has happened that could be told: what it is, behind the hole."""
    assert told(life(tmp_path, *history_of_g)) == [(None, None, HOLE, None, "everything before"), expected]


def test_a_conversion(tmp_path: Path) -> None:
    """The life goes on under another protocol, and no epoch is missing."""
    rows = life(
        tmp_path,
        asked_for(at=AT),
        generation(1, member("a", [0, 1], host="/h"), at=AT + 1_000),
        *operation(AT + 5_000, gone(), first_join(epoch=3)),
    )
    assert HOLE not in {row.event for row in rows}
    assert ("05.000", 3, "group.converted", None, "classic to consumer") in told(rows)
    assert [row.group_type for row in rows[:3]] == ["classic", "classic", "consumer"]


def test_bad_records_have_their_row(tmp_path: Path) -> None:
    """A record of the group that cannot be read may hide something; other groups' records do not matter."""
    mine, others = (encode_key(GroupMetadataKey(group=group)) for group in (GROUP, "other"))
    bad = [Raw(0, place, AT + 2_000 + place, key, b"\0\3rubbish") for place, key in enumerate((mine, others))]
    rows = life(tmp_path, asked_for(at=AT), generation(1, A, at=AT + 1_000), bad=bad, groups=[GROUP])
    assert [(row.group_id, row.generation, row.event) for row in rows] == [
        ("g", 0, "group.created"),
        ("g", 1, "rebalance.completed"),
        ("g", 1, "record.malformed"),
    ]
    assert rows[2].why == "needs 29301 bytes, 5 are left"


def test_many_members_are_shortened() -> None:
    """Alike names are counted, and eight are enough for a table; JSON has them all."""
    row = HistoryRow(
        group_id="g",
        group_type="classic",
        time=None,
        generation=1,
        event="e",
        severity=None,
        joined=["x", "x", *(f"m{place}" for place in range(12))],
        left=[],
        kept=[],
        members=[],
        why=None,
        assumed={},
    )
    shown = "joined m0, m1, m10, m11, m2, m3, m4, m5 and 6 more"
    columns = ("GROUP", "TIME", "GENERATION", "EVENT", "WHO", "WHY")
    assert history_table([row]) == Table(columns, [("g", None, 1, "e", shown, None)])
    twice = structs.replace(row, joined=["x", "x"])
    assert history_table([twice]).rows[0][4] == "joined x (2)"


def test_a_part_of_the_time(tmp_path: Path) -> None:
    """From one time on and before another; a gap stays with the row behind it, and goes where severities matter."""
    rows = life(
        tmp_path,
        generation(5, A, at=AT + 1_000),
        generation(9, A, B, at=AT + 2_000),
        generation(10, A, at=AT + 3_000),
    )

    def generations(
        since_ms: int | None, until_ms: int | None, severity: Severity = Severity.INFO
    ) -> list[object]:
        return [row.generation for row in history_between(rows, since_ms, until_ms, severity)]

    assert generations(None, None) == [None, 5, None, 9, 10]
    assert generations(AT + 2_000, None) == [None, 9, 10]
    assert generations(AT + 1_000, AT + 2_000) == [None, 5]
    assert generations(AT + 2_001, AT + 3_000) == []
    assert generations(None, None, Severity.WARN) == []
