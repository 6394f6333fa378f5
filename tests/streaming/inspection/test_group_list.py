"""The table of ``list``."""

from __future__ import annotations

from pathlib import Path

from groupreplay.streaming.inspection.group_list import list_table, summary
from groupreplay.streaming.kafka.clients import TopicIdentity
from groupreplay.streaming.text.terminal import Table
from support.histories.modern_builders import (
    first_join,
)
from support.job.captures import CLUSTER_ID, ERA
from support.job.described_groups import of_kind, stable

AT = 1_767_225_600_000
TIME = "2026-01-01T00:00:00.000Z"
WEEK_LATER = "2026-01-08T00:00:00.000Z"
BROKER = TopicIdentity(CLUSTER_ID, "__consumer_offsets", ERA, 50, {47: "h:9092 (1)"})


def test_list(tmp_path: Path) -> None:
    """Every living group, by name; what is not known is missing."""
    assert list_table(stable(tmp_path)) == Table(
        ("GROUP", "TYPE", "STATE", "#MEMBERS", "GENERATION", "SINCE", "RISK"),
        [("g", "classic", "Stable", 2, 4, TIME, None), ("simple", "classic", "Empty", 0, None, TIME, None)],
    )


def test_list_shows_the_epoch_of_newer_kinds(tmp_path: Path) -> None:
    """They have a group epoch in the place of a generation."""
    rows = list_table(of_kind(tmp_path, first_join(at=AT, epoch=2))).rows
    assert rows == [("g", "consumer", "Stable", 1, 2, TIME, None)]


def test_summary(tmp_path: Path) -> None:
    """What list -o json says of a group."""
    assert summary(stable(tmp_path)[0]) == {
        "group_id": "g",
        "type": "classic",
        "state": "Stable",
        "members": 2,
        "generation": 4,
        "since_ms": AT,
        "group_epoch": None,
        "risk": None,
    }
