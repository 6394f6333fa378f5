"""The tables of ``list``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from groupreplay.app.inspection.group_list import expiring, expiring_table, list_table, summary
from groupreplay.app.text.tables import Moment, Table
from support.histories.modern_builders import first_join
from support.job.described_groups import AT, of_kind, stable

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
    assert list_table(stable(tmp_path)) == Table(
        ("GROUP", "TYPE", "PROTOCOL", "STATE", "#MEMBERS", "GENERATION", "SINCE", "RISK"),
        [
            ("g", "classic", "consumer", "Stable", 2, 4, Moment(AT), None),
            ("simple", "classic", None, "Empty", 0, None, Moment(AT), None),
        ],
    )


def test_list_shows_the_epoch_of_newer_kinds(tmp_path: Path) -> None:
    """They have a group epoch in the place of a generation."""
    rows = list_table(of_kind(tmp_path, first_join(at=AT, epoch=2))).rows
    assert rows == [("g", "consumer", "consumer", "Stable", 1, 2, Moment(AT), None)]


def test_summary(tmp_path: Path) -> None:
    """What list -o json says of a group."""
    assert summary(stable(tmp_path)[0]) == {
        "group_id": "g",
        "type": "classic",
        "protocol_type": "consumer",
        "state": "Stable",
        "members": 2,
        "generation": 4,
        "since_ms": AT,
        "group_epoch": None,
        "risk": None,
    }


def test_the_first_one_first_with_what_it_loses() -> None:
    """Only the offsets that expire by then; at that moment is by then."""
    found = expiring(GROUPS, DAY)
    assert [(one["group_id"], len(one["offsets"])) for one in found] == [("first", 1), ("second", 1)]


def test_the_table() -> None:
    """Nobody was asked for the ends."""
    columns = ("GROUP", "TYPE", "STATE", "#PARTITIONS", "EXPIRES", "EARLIEST-REPLAYS", "LATEST-SKIPS")
    assert expiring_table(expiring(GROUPS, DAY - 1)) == Table(
        columns, [("first", "classic", "Empty", 1, Moment(DAY - 1), None, None)]
    )
