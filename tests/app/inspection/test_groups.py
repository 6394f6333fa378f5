"""``app/inspection/groups.py``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from groupreplay.app.inspection.groups import (
    Findings,
    choose,
    conditions_cell,
    expiring,
    expiring_row,
    expiring_table,
    group_row,
    list_table,
    risk,
)
from groupreplay.app.text.tables import Moment, Table, cell_text, whole_clock
from groupreplay.state import Context
from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.engine.replay import Replay
from support.histories.builders import emptied, generation, gone, member
from support.histories.modern_builders import first_join
from support.job.described_groups import AT, found, of_kind, stable


def test_the_worst_is_the_risk() -> None:
    """By severity, and among equals the oldest."""
    names = (("member.idle", "INFO", 1), ("rebalance.storm", "WARN", 3), ("rebalance.slow", "WARN", 2))
    group = {
        "conditions": [
            {"condition": name, "severity": severity, "since_ms": 1_000 * second}
            for name, severity, second in names
        ]
    }
    assert (risk(group), risk({"conditions": []})) == ("slow", None)
    assert conditions_cell({"conditions": []}) is None
    assert cell_text(conditions_cell(group), whole_clock()) == (
        "rebalance.slow (WARN) since 1970-01-01T00:00:02.000Z; "
        "rebalance.storm (WARN) since 1970-01-01T00:00:03.000Z; "
        "member.idle (INFO) since 1970-01-01T00:00:01.000Z"
    )


def described(*conditions: tuple[str, str, int]) -> dict[str, Any]:
    """A group with conditions: name, severity and second of their start."""
    held = [
        {"condition": name, "severity": severity, "since_ms": 1_000 * since}
        for name, severity, since in conditions
    ]
    return {"group_id": "g", "conditions": held}


def event(name: str, group: str | None, second: int) -> OutputRow:
    """An event among the rows of a replay."""
    content = {
        "type": f"groupreplay.{name}.v1",
        "time": f"1970-01-01T00:00:0{second}.000Z",
        "data": {"group_id": group},
    }
    return OutputRow(Output.EVENTS, b"", json.dumps(content).encode())


def test_names() -> None:
    """The last word is enough; it means all conditions that end in it."""
    names = [kind.NAME for kind in CONDITIONS]
    short = [name.rpartition(".")[2] for name in names]
    assert Findings(short).names == set(names) == Findings(names).names
    assert Findings(["expired", "offsets.expired", "stuck"]).names == {"offsets.expired", "rebalance.stuck"}


def test_lost_offsets() -> None:
    """They count until the group commits again, also when it is gone; of the groups that were asked for."""
    rows = [
        event("offsets.expired", "gone", 1),
        event("offsets.expired", "back", 2),
        event("offsets.expired", "other", 3),
        event("offsets.reset", "back", 4),
        event("record.skipped", None, 5),
        OutputRow(Output.STATES, b"g", None),
    ]
    findings = Findings(["expired", "slow"])
    assert list(findings.observe(rows)) == rows
    replay = Replay(Context(cluster_id="c"), ["gone", "back", "g"])
    describeds = [described(("rebalance.slow", "WARN", 2), ("rebalance.storm", "WARN", 3))]
    assert findings.lines(describeds, replay) == {
        "g": ["rebalance.slow (WARN) since 1970-01-01T00:00:02.000Z"],
        "gone": ["offsets.expired at 1970-01-01T00:00:01.000Z"],
    }


def test_deleted_groups_are_not_listed(tmp_path: Path) -> None:
    """A group that is gone is not shown as Dead."""
    after = found(tmp_path, generation(1, member("a"), at=AT), emptied(2, at=AT + 1), gone(at=AT + 2))
    assert [group["group_id"] for group in after] == ["simple"]


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ((), (), ["g", "simple"]),
        (("STABLE",), (), ["g"]),
        (("empty", "stable"), ("Classic",), ["g", "simple"]),
        (("preparingrebalance",), (), []),
        ((), ("share",), []),
        (("not_ready", "STA_BLE"), (), ["g"]),
    ],
)
def test_choice(tmp_path: Path, states: tuple[str, ...], types: tuple[str, ...], expected: list[str]) -> None:
    """States and types are compared as Kafka's tools do, whatever their case."""
    chosen = choose(stable(tmp_path), types=types, states=states)
    assert [group["group_id"] for group in chosen] == expected


DAY = 86_400_000


def offset(topic: str, partition: int, committed: int, expires_at_ms: int | None) -> dict[str, Any]:
    """The fields of a committed offset in ``describe`` that these tests need."""
    return {"topic": topic, "partition": partition, "offset": committed, "expires_at_ms": expires_at_ms}


def group(name: str, *offsets: dict[str, Any]) -> dict[str, Any]:
    """A group."""
    return {"group_id": name, "type": "classic", "state": "Empty", "offsets": list(offsets)}


GROUPS = [
    group("later", offset("t", 0, 5, 9 * DAY)),
    group("stays", offset("t", 0, 5, None)),
    group("second", offset("t", 1, 7, DAY), offset("t", 2, 9, 5 * DAY)),
    group("first", offset("t", 0, 5, DAY - 1), offset("u", 0, 1, None)),
]


def test_list(tmp_path: Path) -> None:
    """Every living group, by name; what is not known is missing."""
    assert list_table(map(group_row, stable(tmp_path))) == Table(
        ("GROUP", "TYPE", "PROTOCOL", "STATE", "#MEMBERS", "GENERATION", "SINCE", "RISK"),
        [
            ("g", "classic", "consumer", "Stable", 2, 4, Moment(AT), None),
            ("simple", "classic", None, "Empty", 0, None, Moment(AT), None),
        ],
    )


def test_list_shows_the_epoch_of_newer_kinds(tmp_path: Path) -> None:
    """They have a group epoch in the place of a generation."""
    rows = list_table(map(group_row, of_kind(tmp_path, first_join(at=AT, epoch=2)))).rows
    assert rows == [("g", "consumer", "consumer", "Stable", 1, 2, Moment(AT), None)]


def test_summary(tmp_path: Path) -> None:
    """What list -o json says of a group."""
    assert asdict(group_row(stable(tmp_path)[0])) == {
        "group_id": "g",
        "type": "classic",
        "protocol_type": "consumer",
        "state": "Stable",
        "members": 2,
        "generation": 4,
        "since_ms": AT,
        "group_epoch": None,
        "risk": None,
        **dict.fromkeys(("lag", "lag_least", "lag_most", "lag_unknown")),
        **dict.fromkeys(("time_lag_ms", "time_lag_least_ms", "time_lag_most_ms")),
    }


def test_the_first_one_first_with_what_it_loses() -> None:
    """Only the offsets that expire by then; at that moment is by then."""
    found = expiring(GROUPS, DAY)
    assert [(one["group_id"], len(one["offsets"])) for one in found] == [("first", 1), ("second", 1)]


def test_the_table() -> None:
    """Nobody was asked for the ends."""
    columns = ("GROUP", "TYPE", "STATE", "#PARTITIONS", "EXPIRES", "EARLIEST-REPLAYS", "LATEST-SKIPS")
    assert expiring_table(map(expiring_row, expiring(GROUPS, DAY - 1))) == Table(
        columns, [("first", "classic", "Empty", 1, Moment(DAY - 1), None, None)]
    )
