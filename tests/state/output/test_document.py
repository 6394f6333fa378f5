"""The picture of a group: what each kind of member shows, in describe() and in group-states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupreplay.state import Group
from support.histories import modern_builders
from support.histories.builders import CONTEXT, GROUP, Raw, check, commit, emptied, generation, member, replay
from support.histories.connect_blobs import OFFSET, URL, assignment, metadata, tasks
from support.histories.other_kinds import share_group, streams_group

NAMED = replace(CONTEXT, topic_names={modern_builders.TOPIC: "orders"})


def members(group: Group) -> list[dict[str, Any]]:
    """The members as ``describe`` shows them, without what every test of a group has."""
    hidden = ("instance_id", "client_id", "client_host", "supported_protocols")
    return [
        {name: value for name, value in one.items() if name not in hidden}
        for one in group.describe()["members"]
    ]


def documented(group: Group) -> list[dict[str, Any]]:
    """The members as ``group-states`` shows them."""
    document = group.take_document()
    assert isinstance(document, dict)
    shown: list[dict[str, Any]] = document["members"]
    return shown


def test_a_member_that_revokes() -> None:
    """Epoch, target, what it holds and what it gives up, by the name that the cluster knows."""
    group, _ = replay(
        [
            *modern_builders.first_join(at=1_000),
            *modern_builders.operation(
                2_000,
                modern_builders.target("a", [0]),
                modern_builders.target_epoch(3),
                modern_builders.current("a", 2, [0], state=modern_builders.UNREVOKED, revoking=[1]),
            ),
        ],
        NAMED,
    )
    assert members(group) == [
        {
            "member_id": "a",
            "state": "UnrevokedPartitions",
            "epoch": 2,
            "partitions": {"orders": [0]},
            "member_protocol": "consumer",
            "target_partitions": {"orders": [0]},
            "revoking": {"orders": [1]},
            "rack_id": None,
            "assignor": None,
            "process_id": None,
            "connect": None,
            "is_leader": None,
            "session_timeout_ms": None,
            "rebalance_timeout_ms": 30_000,
            "topics": ("t",),
        }
    ]
    (shown,) = documented(group)
    check(shown, partitions={"orders": "0"}, target_partitions={"orders": "0"}, revoking={"orders": "1"})


def test_a_topic_nobody_can_name() -> None:
    """Its id stands in its place."""
    group, _ = replay(modern_builders.first_join())
    assert members(group)[0]["target_partitions"] == {modern_builders.TOPIC: [0, 1]}


def test_a_member_that_still_speaks_the_classic_protocol() -> None:
    """Inside a consumer group it is told by its classic metadata."""
    group, _ = replay(
        [
            *modern_builders.first_join(),
            *modern_builders.operation(2_000, modern_builders.described("b", classic=True)),
        ]
    )
    assert {one["member_id"]: one["member_protocol"] for one in members(group)} == {
        "a": "consumer",
        "b": "classic",
    }


@pytest.mark.parametrize(
    ("asked", "expected"),
    [(["range"], "range"), (["uniform", "range", "range"], "range"), (["b", "a"], "a"), ([None], None)],
)
def test_the_assignor_is_that_of_most_members(asked: list[str | None], expected: str | None) -> None:
    """What the members ask for; without a wish the broker decides, and its settings are in no record."""
    wishes = []
    for place, assignor in enumerate(asked):
        raw = modern_builders.described(f"m{place}")
        wishes.append(replace(raw, value=replace(raw.value, server_assignor=assignor)))
    group, _ = replay([*modern_builders.first_join(), *modern_builders.operation(2_000, *wishes)])
    assert group.describe()["protocol"] == expected


def test_a_member_of_a_share_group() -> None:
    """Nothing is revoked there; a rack may be known."""
    group, _ = replay(share_group(at=1_000), NAMED)
    assert members(group) == [
        {
            "member_id": "a",
            "state": "Stable",
            "epoch": 2,
            "partitions": {"orders": [0, 1]},
            "member_protocol": "share",
            "target_partitions": {"orders": [0]},
            "revoking": {},
            "rack_id": "r-1",
            "assignor": None,
            "process_id": None,
            "connect": None,
            "is_leader": None,
            "session_timeout_ms": None,
            "rebalance_timeout_ms": None,
            "topics": ("t",),
        }
    ]


def test_tasks_of_streams() -> None:
    """Tasks by subtopology, copies by their role; the process, and the epoch of the topology."""
    group, _ = replay(streams_group(at=1_000))
    (shown,) = members(group)
    assert (shown["process_id"], shown["member_protocol"]) == ("p-1", "streams")
    assert shown["partitions"] == {"0": [0], "1 (standby)": [3]}
    assert shown["target_partitions"] == {"0": [0, 1], "1 (warmup)": [2]}
    assert group.describe()["topology_epoch"] == 4


def test_connect_workers() -> None:
    """In a Connect group members have a place, a config offset, connectors and tasks, and no partitions."""
    worker = replace(member("w"), subscription=metadata(1), assignment=assignment(1, tasks(sink=[-1, 0, 1])))
    strange = replace(member("x"), subscription=b"?", assignment=b"?")
    group, _ = replay([generation(1, worker, strange, at=1_000, protocol_type="connect")])
    place = {"url": URL, "config_offset": OFFSET, "connectors": ["sink"]}
    assert [(one["partitions"], one["connect"]) for one in members(group)] == [
        ({}, {**place, "tasks": {"sink": [0, 1]}}),
        ({}, None),
    ]
    assert [(one["partitions"], one["connect"]) for one in documented(group)] == [
        (None, {**place, "tasks": {"sink": "0-1"}}),
        (None, None),
    ]
    again = Group.from_snapshot(GROUP, CONTEXT, group.snapshot())
    assert again.describe() == group.describe()


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([commit("t", 0, 5, at=50)], (550, "classic, no protocol type", "commit")),
        (
            [commit("t", 0, 5, at=50), generation(1, member("a"), at=60), emptied(2, at=99)],
            (599, "classic, Empty", "emptied"),
        ),
        (
            [commit("t", 0, 5, at=50), generation(1, member("a"), at=60)],
            (None, "classic consumers, Stable", None),
        ),
        (
            [commit("t", 0, 5, at=50), generation(1, member("a", topic="u"), at=60)],
            (550, "classic consumers, Stable", "commit"),
        ),
        (
            [commit("t", 0, 5, at=50, version=1, expire_timestamp_ms=70)],
            (70, "classic, no protocol type", "own"),
        ),
    ],
)
def test_why_an_offset_expires(history: list[Raw], expected: tuple[int | None, str, str | None]) -> None:
    """Each offset has its deadline, the broker's rule, and what the retention counts from."""
    group, _ = replay(history, replace(CONTEXT, retention_ms=500))
    (offset,) = group.describe()["offsets"]
    assert (offset["expires_at_ms"], offset["expiry_rule"], offset["expiry_base"]) == expected


def test_who_sets_the_rebalance_timeout() -> None:
    """The largest of the members' timeouts is the group's; each member shows its own."""
    fast, slow = member("a", rebalance_ms=1_000, session_ms=500), member("b", rebalance_ms=2_000)
    group, _ = replay([generation(1, fast, slow, at=5, leader="a")])
    shown = group.describe()
    assert (shown["rebalance_timeout_ms"], shown["rebalance_timeout_member"]) == (2_000, "b")
    assert [
        (one["session_timeout_ms"], one["rebalance_timeout_ms"], one["topics"], one["is_leader"])
        for one in shown["members"]
    ] == [(500, 1_000, ("t",), True), (45_000, 2_000, ("t",), False)]


def test_a_burst_of_repeats_that_is_over() -> None:
    """The document tells what no event has told: rewinds of the last minute, until the next one has the number."""
    history: list[Raw] = [
        commit("t", 0, offset, at=second * 1_000) for second in range(10) for offset in (900, 100)
    ]
    context = replace(CONTEXT, catch_up_after_ms=0)
    told = []
    for later in ([], [commit("t", 0, 900, at=500_000), commit("t", 0, 100, at=500_001)]):
        group, events = replay([*history, *later], context)
        document = group.take_document()
        assert isinstance(document, dict)
        assert document["suppressed"] == group.describe()["suppressed"]
        rewinds = [event.fact for event in events if event.fact.NAME == "offset.rewound"]
        told.append((document["suppressed"], [rewind.suppressed for rewind in rewinds]))  # type: ignore[attr-defined]
    assert told == [({"offset.rewound": 9}, [0]), ({}, [0, 9])]
