"""Groups as tables: Kafka's columns first, ours at the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from groupreplay.app.inspection.describe import DescribeView, describe_tables
from groupreplay.app.text.tables import Moment, Table, merged
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from support.histories.builders import commit, generation, member
from support.histories.connect_blobs import OFFSET, URL, assignment, metadata, tasks
from support.histories.modern_builders import (
    UNREVOKED,
    current,
    described,
    first_join,
    operation,
    target,
    target_epoch,
)
from support.histories.other_kinds import share_group, streams_group
from support.job.described_groups import AT, BROKER, found, of_kind, stable

WEEK_MS = 7 * 86_400_000


def shown(
    groups: list[dict[str, Any]],
    view: DescribeView,
    *,
    verbose: bool = False,
    identity: TopicIdentity | None = None,
) -> list[dict[str, Any]]:
    """The rows of the one table of a view, by heading, in the order of the headings."""
    (table,) = describe_tables(groups, view, identity, verbose=verbose)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_state_view(tmp_path: Path) -> None:
    """The coordinator is known when a cluster was asked; epochs come with --verbose where Kafka has them."""
    groups = stable(tmp_path)[:1]
    brief = {
        "GROUP": "g",
        "COORDINATOR (ID)": None,
        "ASSIGNMENT-STRATEGY": "range",
        "STATE": "Stable",
        "#MEMBERS": 2,
        "GENERATION": 4,
        "SINCE": Moment(AT),
    }
    assert list(shown(groups, DescribeView.STATE)[0].items()) == list(brief.items())
    (long,) = shown(groups, DescribeView.STATE, verbose=True)
    assert list(long)[4:6] == ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
    epochs = {"GROUP-EPOCH": None, "TARGET-ASSIGNMENT-EPOCH": None}
    assert long == {**brief, **epochs, "HISTORY": "partial", "CONDITIONS": None}
    (row,) = shown([{**groups[0], "group_id": "a"}], DescribeView.STATE, identity=BROKER)
    assert row["COORDINATOR (ID)"] == "h:9092 (1)"


def test_members_view(tmp_path: Path) -> None:
    """Who is a member and how much each has; with --verbose what, and Kafka's columns of the newer kinds."""
    columns = ("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
    rows = [("g", "a", None, "/10.0.0.1", "app", 2), ("g", "b", "i-b", "/10.0.0.1", "client-b", 0)]
    groups = stable(tmp_path)
    assert describe_tables(groups, DescribeView.MEMBERS, None, verbose=False) == [Table(columns, rows)]
    kafkas = ("CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT", "UPGRADED")
    ours = ("MEMBER-STATE", "REVOKING", "RACK", "CONNECT", "LEADER", "SUBSCRIPTION", "SESSION-TIMEOUT")
    rest = (None, None, None, "Stable", None, None, None)
    asked = ("t", "45.0 s")
    assert describe_tables(groups, DescribeView.MEMBERS, None, verbose=True) == [
        Table(
            (*columns, *kafkas, *ours, "REBALANCE-TIMEOUT"),
            [
                (*rows[0], None, "t:0,1", *rest, "true", *asked, "5 min 0 s (the group's)"),
                (*rows[1], None, None, *rest, "false", *asked, "5 min 0 s"),
            ],
        )
    ]


def test_the_strategy_and_the_epoch_of_a_consumer_group(tmp_path: Path) -> None:
    """The epoch in place of a generation; the strategy is that of the brokers where no member asks for one."""
    (row,) = shown(of_kind(tmp_path, first_join(at=AT)), DescribeView.STATE)
    assert (row["ASSIGNMENT-STRATEGY"], row["GENERATION"]) == ("(broker default)", 2)


def test_members_of_a_consumer_group(tmp_path: Path) -> None:
    """Each member's epoch and assignment beside what it shall have; who still speaks the classic protocol."""
    history = [
        *first_join(at=AT),
        *operation(
            AT + 1,
            described("b", classic=True),
            target("a", [0]),
            target_epoch(3),
            current("a", 2, [0], state=UNREVOKED, revoking=[1]),
        ),
    ]
    a, b = sorted(
        shown(of_kind(tmp_path, history), DescribeView.MEMBERS, verbose=True),
        key=lambda row: row["CONSUMER-ID"],
    )
    assert a == {
        "GROUP": "g",
        "CONSUMER-ID": "a",
        "GROUP-INSTANCE-ID": None,
        "HOST": "/h",
        "CLIENT-ID": "client-a",
        "#PARTITIONS": 1,
        "CURRENT-EPOCH": 2,
        "CURRENT-ASSIGNMENT": "orders:0",
        "TARGET-EPOCH": 3,
        "TARGET-ASSIGNMENT": "orders:0",
        "UPGRADED": "true",
        "MEMBER-STATE": "UnrevokedPartitions",
        "REVOKING": "orders:1",
        "RACK": None,
        "CONNECT": None,
        "LEADER": None,
        "SUBSCRIPTION": "t",
        "SESSION-TIMEOUT": None,
        "REBALANCE-TIMEOUT": "30.0 s",
    }
    assert (b["CURRENT-EPOCH"], b["TARGET-ASSIGNMENT"], b["UPGRADED"]) == (0, None, "false")
    # It uses the classic protocol, in which the member asks for a session timeout.
    assert b["SESSION-TIMEOUT"] is not None


def test_a_share_group(tmp_path: Path) -> None:
    """As kafka-share-groups.sh shows it; what members have acknowledged is in another topic."""
    groups = of_kind(tmp_path, share_group(AT))
    state = {"GROUP": "g", "COORDINATOR (ID)": None, "STATE": "Stable", "#MEMBERS": 1, "SINCE": Moment(AT)}
    assert list(shown(groups, DescribeView.STATE)[0].items()) == list(state.items())
    (long,) = shown(groups, DescribeView.STATE, verbose=True)
    assert list(long)[3:6] == ["GROUP-EPOCH", "ASSIGNMENT-EPOCH", "#MEMBERS"]
    assert (long["GROUP-EPOCH"], long["ASSIGNMENT-EPOCH"]) == (3, 3)
    member = {
        "GROUP": "g",
        "CONSUMER-ID": "a",
        "HOST": "/h",
        "CLIENT-ID": "app",
        "#PARTITIONS": 2,
        "ASSIGNMENT": "orders:0,1",
    }
    assert list(shown(groups, DescribeView.MEMBERS)[0].items()) == list(member.items())
    (long,) = shown(groups, DescribeView.MEMBERS, verbose=True)
    assert list(long)[5:7] == ["MEMBER-EPOCH", "ASSIGNMENT"]
    more = {"MEMBER-EPOCH": 2, "TARGET-ASSIGNMENT": "orders:0", "MEMBER-STATE": "Stable", "RACK": "r-1"}
    assert long == {**member, **more}
    columns = ("GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG")
    rows = [("g", "orders", 0, None, None), ("g", "orders", 1, None, None)]
    assert describe_tables(groups, DescribeView.OFFSETS, None, verbose=False) == [Table(columns, rows)]


def test_a_streams_group(tmp_path: Path) -> None:
    """As kafka-streams-groups.sh shows it: tasks by role and subtopology, and what they shall be."""
    groups = of_kind(tmp_path, [*streams_group(AT), commit("t", 0, 7, at=AT + 1, leader_epoch=2)])
    (state,) = shown(groups, DescribeView.STATE, verbose=True)
    assert state == {
        "GROUP": "g",
        "COORDINATOR (ID)": None,
        "STATE": "Reconciling",
        "GROUP-EPOCH": 3,
        "TARGET-ASSIGNMENT-EPOCH": 3,
        "#MEMBERS": 1,
        "SINCE": Moment(AT),
        "HISTORY": "partial",
        "TOPOLOGY-EPOCH": 4,
        "CONDITIONS": None,
    }
    assert shown(groups, DescribeView.MEMBERS) == [
        {
            "GROUP": "g",
            "MEMBER": "a",
            "PROCESS": "p-1",
            "CLIENT-ID": "app",
            "ASSIGNMENTS": "ACTIVE:0:[0];STANDBY:1:[3];",
        }
    ]
    (long,) = shown(groups, DescribeView.MEMBERS, verbose=True)
    assert list(long.items())[:9] == [
        ("GROUP", "g"),
        ("TARGET-ASSIGNMENT-EPOCH", 3),
        ("TOPOLOGY-EPOCH", 4),
        ("MEMBER", "a"),
        ("MEMBER-PROTOCOL", "streams"),
        ("MEMBER-EPOCH", 2),
        ("PROCESS", "p-1"),
        ("CLIENT-ID", "app"),
        ("ASSIGNMENTS", "ACTIVE:0:[0];STANDBY:1:[3];TARGET-ACTIVE:0:[0,1];TARGET-WARMUP:1:[2];"),
    ]
    brief = {"GROUP": "g", "TOPIC": "t", "PARTITION": 0, "OFFSET-LAG": None, "CURRENT-OFFSET": 7}
    (row,) = shown(groups, DescribeView.OFFSETS)
    assert list(row.items())[:5] == list(brief.items())
    (row,) = shown(groups, DescribeView.OFFSETS, verbose=True)
    assert list(row)[3:7] == ["CURRENT-OFFSET", "LEADER-EPOCH", "LOG-END-OFFSET", "OFFSET-LAG"]
    assert (row["CURRENT-OFFSET"], row["LEADER-EPOCH"]) == (7, 2)


def test_connect_workers(tmp_path: Path) -> None:
    """Where a worker is and what it runs is in a column of ours."""
    blobs = {"subscription": metadata(1), "assignment": assignment(1, tasks(sink=[-1, 0, 1], other=[-1]))}
    worker = replace(member("w"), **blobs)
    groups = found(tmp_path, generation(1, worker, at=AT, protocol_type="connect"))[:1]
    (row,) = shown(groups, DescribeView.MEMBERS, verbose=True)
    assert (row["#PARTITIONS"], row["CONNECT"]) == (0, f"{URL} offset {OFFSET} other:[] sink:[0,1]")


def test_offsets_view(tmp_path: Path) -> None:
    """Each partition with a committed offset or an owner, and when it expires; ends and lags are not in the log."""
    groups = stable(tmp_path)
    columns = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    columns += ["CONSUMER-ID", "HOST", "CLIENT-ID", "COMMITTED", "METADATA", "EXPIRES"]
    ends = (None, None)
    nobody = (None, None, None)
    rows = [
        ("g", "t", 0, 10, *ends, "a", "/10.0.0.1", "app", Moment(AT), "note", None),
        ("g", "t", 1, None, *ends, "a", "/10.0.0.1", "app", None, None, None),
        ("g", "t", 9, 11, *ends, *nobody, Moment(AT), "", None),
        ("simple", "t", 0, 1, *ends, *nobody, Moment(AT), "", Moment(AT + WEEK_MS)),
    ]
    assert describe_tables(groups, DescribeView.OFFSETS, None, verbose=False) == [Table(tuple(columns), rows)]
    by_expiry = describe_tables(groups, DescribeView.OFFSETS, None, verbose=False, order="expires")
    assert by_expiry == [Table(tuple(columns), [rows[3], *rows[:3]])]
    long = shown(groups, DescribeView.OFFSETS, verbose=True)
    assert list(long[0])[:5] == ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET"]
    assert [row["LEADER-EPOCH"] for row in long] == [3, None, None, None]


def test_an_offset_that_was_committed_for_ever(tmp_path: Path) -> None:
    """A client of an old protocol may ask for an expiry in another age; one that has expired is told by its time."""
    history = [
        commit("t", number, 1, at=AT, version=1, expire_timestamp_ms=own)
        for number, own in enumerate((2**62, AT + 7, -1))
    ]
    groups = found(tmp_path, *history)
    cells = [row["EXPIRES"] for row in shown(groups, DescribeView.OFFSETS) if row["GROUP"] == "g"]
    assert cells == ["never", Moment(AT + 7), Moment(AT + WEEK_MS)]


def test_kinds_side_by_side(tmp_path: Path) -> None:
    """One table for each of Kafka's tools; in one table every row has its cells under its own headings."""
    classic = stable(tmp_path)[:1]
    share = [{**of_kind(tmp_path, share_group(AT))[0], "group_id": "s"}]
    tables = describe_tables([*share, *classic], DescribeView.STATE, None, verbose=False)
    assert [[row[0] for row in table.rows] for table in tables] == [["g"], ["s"]]
    assert merged(tables) == Table(
        tables[0].columns, [*tables[0].rows, ("s", None, None, "Stable", 1, None, Moment(AT))]
    )
    (nothing,) = describe_tables([], DescribeView.STATE, None, verbose=False)
    assert (nothing.columns[0], nothing.rows) == ("GROUP", [])
