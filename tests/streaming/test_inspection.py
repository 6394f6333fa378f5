"""Groups as tables: Kafka's columns first, ours at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import commit, emptied, generation, gone, member
from captures import CLUSTER_ID, ERA, raw, write_capture
from groupreplay.codecs import OffsetCommitKey, encode_key
from groupreplay.state import Context
from groupreplay.streaming.capture_file import read_captures
from groupreplay.streaming.clients import TopicIdentity
from groupreplay.streaming.errors import ExitCode, GroupReplayError
from groupreplay.streaming.inspection import (
    View,
    choose,
    describe_table,
    list_table,
    pictures,
    require,
    summary,
)
from groupreplay.streaming.replay import Replay
from groupreplay.streaming.rows import Rows
from groupreplay.streaming.terminal import Table

AT = 1_767_225_600_000
TIME = "2026-01-01T00:00:00.000Z"
NOWHERE = Rows(CLUSTER_ID, ERA, iter(()))
BROKER = TopicIdentity(CLUSTER_ID, "__consumer_offsets", ERA, 50, {47: "h:9092 (1)"})


def found(tmp_path: Path, *history: Any) -> list[dict[str, Any]]:
    """The groups after a history of group ``g`` and one commit of ``simple`` in another partition."""
    (one,) = raw([commit("t", 0, 1, at=AT)], partition=0)
    simple = one._replace(key=encode_key(OffsetCommitKey(group="simple", topic="t", partition=0)))
    path = write_capture(tmp_path / "a.parquet", [*raw(history), simple])
    return pictures(Replay(Context(cluster_id=CLUSTER_ID, era=ERA)), read_captures([path]))


def stable(tmp_path: Path) -> list[dict[str, Any]]:
    """Group ``g`` with two members, one of them static and without partitions, and two commits."""
    history = [
        generation(4, member("a", [0, 1], client_id="app"), member("b", instance_id="i-b"), at=AT),
        commit("t", 0, 10, at=AT, leader_epoch=3, metadata="note"),
        commit("t", 9, 11, at=AT),
    ]
    return found(tmp_path, *history)


def test_list(tmp_path: Path) -> None:
    """Every living group, by name; what is not known is missing."""
    assert list_table(stable(tmp_path)) == Table(
        ("GROUP", "TYPE", "STATE", "#MEMBERS", "GENERATION", "SINCE"),
        [("g", "classic", "Stable", 2, 4, TIME), ("simple", "classic", "Empty", 0, None, TIME)],
    )


def test_deleted_groups_are_not_listed(tmp_path: Path) -> None:
    """A group that is gone is not shown as Dead."""
    after = found(tmp_path, generation(1, member("a"), at=AT), emptied(2, at=AT + 1), gone(at=AT + 2))
    assert [picture["group_id"] for picture in after] == ["simple"]


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ((), (), ["g", "simple"]),
        (("STABLE",), (), ["g"]),
        (("empty", "stable"), ("Classic",), ["g", "simple"]),
        (("preparingrebalance",), (), []),
        ((), ("share",), []),
    ],
)
def test_choice(tmp_path: Path, states: tuple[str, ...], types: tuple[str, ...], expected: list[str]) -> None:
    """States and types are compared as Kafka's tools do, whatever their case."""
    chosen = choose(stable(tmp_path), types=types, states=states)
    assert [picture["group_id"] for picture in chosen] == expected


def test_state_view(tmp_path: Path) -> None:
    """The coordinator is known when a cluster was asked."""
    groups = stable(tmp_path)[:1]
    columns = (
        "GROUP",
        "COORDINATOR (ID)",
        "ASSIGNMENT-STRATEGY",
        "STATE",
        "#MEMBERS",
        "GENERATION",
        "SINCE",
    )
    assert describe_table(groups, View.STATE, NOWHERE, verbose=False) == Table(
        columns, [("g", None, "range", "Stable", 2, 4, TIME)]
    )
    asked = Rows(CLUSTER_ID, ERA, iter(()), identity=BROKER)
    a = [{**groups[0], "group_id": "a"}]
    assert describe_table(a, View.STATE, asked, verbose=False).rows == [
        ("a", "h:9092 (1)", "range", "Stable", 2, 4, TIME)
    ]


def test_members_view(tmp_path: Path) -> None:
    """Who is a member and how much each has; with --verbose, what."""
    columns = ("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
    rows = [("g", "a", None, "/10.0.0.1", "app", 2), ("g", "b", "i-b", "/10.0.0.1", "client-b", 0)]
    groups = stable(tmp_path)
    assert describe_table(groups, View.MEMBERS, NOWHERE, verbose=False) == Table(columns, rows)
    assert describe_table(groups, View.MEMBERS, NOWHERE, verbose=True) == Table(
        (*columns, "ASSIGNMENT"), [(*rows[0], "t(0,1)"), (*rows[1], "")]
    )


def test_offsets_view(tmp_path: Path) -> None:
    """Each committed offset with the member that owns its partition now, if one does."""
    assert describe_table(stable(tmp_path), View.OFFSETS, NOWHERE, verbose=False) == Table(
        (
            "GROUP",
            "TOPIC",
            "PARTITION",
            "CURRENT-OFFSET",
            "LEADER-EPOCH",
            "CONSUMER-ID",
            "HOST",
            "CLIENT-ID",
            "COMMITTED",
            "METADATA",
        ),
        [
            ("g", "t", 0, 10, 3, "a", "/10.0.0.1", "app", TIME, "note"),
            ("g", "t", 9, 11, None, None, None, None, TIME, ""),
            ("simple", "t", 0, 1, None, None, None, None, TIME, ""),
        ],
    )


def test_a_group_that_is_not_there(tmp_path: Path) -> None:
    """Asking for an unknown group is an error with an exit code, not an empty table."""
    groups = stable(tmp_path)
    require(groups, ["g"], "here")
    with pytest.raises(GroupReplayError, match=r"there is no group 'x' \(here\)") as caught:
        require(groups, ["g", "x"], "here")
    assert caught.value.exit_code is ExitCode.DATA


def test_summary(tmp_path: Path) -> None:
    """What list -o json says of a group."""
    assert summary(stable(tmp_path)[0]) == {
        "group_id": "g",
        "type": "classic",
        "state": "Stable",
        "members": 2,
        "generation": 4,
        "since_ms": AT,
    }
