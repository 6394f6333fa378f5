"""What events say: conditions, named members, changed offsets, holes."""

from __future__ import annotations

from typing import Any

import pytest

from groupreplay.timeline import findings
from groupreplay.timeline.document import Hole
from groupreplay.timeline.event_reading import ReadEvent, read_events
from groupreplay.timeline.lanes import Lanes, Place, SlotLife, Stay

BEGIN = 1_767_225_600_000
LANES = Lanes(
    slots=[
        SlotLife(Place(None, "a", "/h"), [Stay("m-a", 0)]),
        SlotLife(Place("i-b", "b", "/h"), [Stay("m-b", 0)]),
    ],
    slot_of={"m-a": 0, "m-b": 1},
)


def event(name: str, second: int, severity: str = "INFO", **data: Any) -> dict[str, Any]:
    """A CloudEvent so many seconds after the begin."""
    return {
        "type": f"groupreplay.{name}.v1",
        "time": f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z",
        "severitytext": severity,
        "data": {"history": "full", "evidence": "probe", **data},
    }


def row_of(one: ReadEvent) -> int:
    """Each event has the row of its index."""
    return one.index


def test_generations_that_failed() -> None:
    """They lie between the last one that is known and the begin of the one that was completed, at most.

    Where a prober saw the rebalance, it began after the round before. Of a first one nothing is known.
    """

    def done(second: int, number: int, skipped: int) -> dict[str, Any]:
        return event(
            "rebalance.completed", second, generation=number, skipped_generations=skipped, sync_ms=2_000
        )

    told = [
        done(10, 3, 2),
        done(20, 4, 0),
        done(40, 7, 2),
        event("rebalance.started", 70, since_ms_earliest=BEGIN + 60_000),
        done(90, 9, 1),
    ]
    flags = findings.generation_flags(read_events(told), row_of, lambda _: None)
    assert [(flag.skipped, flag.failed) for flag in flags] == [
        (2, None),
        (0, None),
        (2, (BEGIN + 20_000, BEGIN + 38_000)),
        (1, (BEGIN + 60_000, BEGIN + 88_000)),
    ]


STUCK = {"condition_id": "c-1", "since_ms": BEGIN + 5_000, "runbook": "r"}
TOLD = [
    event(
        "rebalance.stuck",
        60,
        "WARN",
        status="firing",
        suspects=[{"member_id": "m-a"}, {"member_id": "m-b"}],
        **STUCK,
    ),
    event(
        "rebalance.stuck",
        90,
        "ERROR",
        status="firing",
        suspects=[{"member_id": "m-a"}, {"member_id": "m-b"}],
        **STUCK,
    ),
    event("rebalance.stuck", 120, "ERROR", status="resolved", **STUCK),
]


def conditions(told: list[dict[str, Any]]) -> list[tuple[Any, ReadEvent]]:
    """The conditions of these events; the text of each is the time of the event that it is made from."""
    return findings.condition_bars(read_events(told), row_of, lambda body: str(body["time"]))


def test_a_condition() -> None:
    """From when it began to its end, with its highest severity; its text is that of the last event while it held."""
    ((bar, best),) = conditions(TOLD)
    shown = (
        bar.name,
        bar.since_ms - BEGIN,
        bar.until_ms - BEGIN,
        bar.severity,
        bar.events,
        bar.text,
        best.index,
    )
    assert shown == ("rebalance.stuck", 5_000, 120_000, "ERROR", (0, 1, 2), "2026-01-01T00:01:30Z", 1)


def test_a_condition_that_holds_at_the_end() -> None:
    """It has no end."""
    ((bar, _),) = conditions(TOLD[:1])
    assert (bar.until_ms, bar.severity) == (None, "WARN")


def test_of_several_blockers_the_last_one_is_not_alone() -> None:
    """What is over has the event whose blockers were waited for longest; what holds has those of now."""

    def stuck(at: int, status: str, *since: tuple[str, int]) -> dict[str, Any]:
        blockers = [{"member_id": name, "since_ms": BEGIN + 1_000 * begun} for name, begun in since]
        return event("rebalance.stuck", at, "ERROR", status=status, blockers=blockers, **STUCK)

    both = ("m-a", 5), ("m-b", 7)
    told = [stuck(60, "firing", both[0]), stuck(62, "firing", *both), stuck(120, "firing", both[1])]
    ((_, best),) = conditions([*told, stuck(130, "resolved", both[1])])
    assert best.index == 1
    ((_, best),) = conditions(told)
    assert best.index == 2
    short = [stuck(60, "firing", ("m-a", 5)), stuck(120, "firing", ("m-b", 110), ("m-c", 110))]
    ((_, best),) = conditions([*short, stuck(130, "resolved", ("m-b", 110), ("m-c", 110))])
    assert best.index == 0


def test_a_condition_of_which_only_the_end_is_told() -> None:
    """A history that begins inside, or has the newest events only: it has been there since its begin."""
    data = {"condition_id": "c", "since_ms": BEGIN + 20_000, "state": "PreparingRebalance"}
    ((bar, best),) = conditions([event("rebalance.stuck", 100, "ERROR", status="resolved", **data)])
    assert (bar.since_ms - BEGIN, bar.until_ms - BEGIN, bar.severity) == (20_000, 100_000, "ERROR")
    assert best.text("status") == "resolved"


def test_the_first_suspect_is_named() -> None:
    """By inference, while the condition held."""
    found = findings.blames(conditions(TOLD), read_events(TOLD), LANES)
    assert [
        (slot, one.proven, one.since_ms - BEGIN, one.condition)
        for slot, many in found.items()
        for one in many
    ] == [(0, False, 5_000, 0)]


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("no_commit_since_start", "it did not rejoin"),
        ("leader_has_not_synced", "it leads the group and did not sync"),
        ("static_member_absent", "it is a static member that is absent"),
        ("of a later release", "the others may wait for it"),
    ],
)
def test_what_a_suspect_did(reason: str, text: str) -> None:
    """A leader that has not synced has rejoined, and so may an absent static member."""
    suspect = {"member_id": "m-a", "reason": reason}
    told = [event("rebalance.stuck", 60, "ERROR", status="firing", suspects=[suspect], **STUCK)]
    ((blame,),) = findings.blames(conditions(told), read_events(told), LANES).values()
    assert blame.text == f"rebalance stuck: {text}, inferred"


def test_a_suspect_that_was_removed_is_named_first() -> None:
    """The coordinator has removed it for not rejoining when the rebalance ended."""
    told = [*TOLD, event("member.left", 120, "WARN", member_id="m-b", reason="rebalance_timeout")]
    assert list(findings.blames(conditions(told), read_events(told), LANES)) == [1]


def test_who_was_removed_was_waited_for() -> None:
    """Also a member that is no suspect: it committed when it learned of the rebalance, and did not rejoin."""
    suspects = [{"member_id": "m-a", "reason": "no_commit_since_start"}]
    told = [
        event(
            "rebalance.stuck", 60, "ERROR", status="firing", suspects=suspects, reason="not_joined", **STUCK
        ),
        event("rebalance.stuck", 120, "ERROR", status="resolved", **STUCK),
        event("member.left", 120, "WARN", member_id="m-b", reason="rebalance_timeout"),
    ]
    ((slot, (blame,)),) = findings.blames(conditions(told), read_events(told), LANES).items()
    assert (slot, blame.text) == (
        1,
        "rebalance stuck: the coordinator removed it because it did not rejoin, inferred",
    )


def test_blockers_are_proven() -> None:
    """All of them are named, suspects are not."""
    told = [
        event(
            "rebalance.stuck",
            60,
            "ERROR",
            status="firing",
            blockers=[{"member_id": "m-b"}, {"instance_id": "i-b"}],
            **STUCK,
        )
    ]
    found = findings.blames(conditions(told), read_events(told), LANES)
    assert [(slot, one.proven) for slot, many in found.items() for one in many] == [(1, True)]


def test_marks() -> None:
    """An event about a member is a mark of its slot, by member id or else by instance id."""
    told = read_events(
        [
            event("static.replaced", 1, instance_id="i-b"),
            event("member.updated", 2, member_id="m-a"),
            event("x", 3),
        ]
    )
    found = findings.lane_marks(told, LANES, row_of)
    assert {slot: [(mark.name, mark.event) for mark in marks] for slot, marks in found.items()} == {
        1: [("static.replaced", 0)],
        0: [("member.updated", 1)],
    }


def test_changed_offsets() -> None:
    """Lost ones have no offset after it, reset and rewound ones have both."""
    told = read_events(
        [
            event("offsets.expired", 1, partitions=[{"topic": "t", "partition": 0, "offset": 7}]),
            event(
                "offsets.reset",
                2,
                partitions=[{"topic": "t", "partition": 0, "lost_offset": 7, "new_offset": 0}],
            ),
            event(
                "offset.rewound",
                3,
                partitions=[{"topic": "t", "partition": 1, "old_offset": 9, "new_offset": 3}, "x", {}],
            ),
            event(
                "offsets.expiring",
                4,
                condition_id="c",
                partitions=[{"topic": "t", "partition": 0, "offset": 7}],
            ),
        ]
    )
    found = [(one.name, one.partition, one.old, one.new) for one in findings.offset_changes(told, row_of)]
    assert found == [("offsets.expired", 0, 7, None), ("offsets.reset", 0, 7, 0), ("offset.rewound", 1, 9, 3)]


def test_holes() -> None:
    """Before the first event of an old group, and where generations are missing that nobody skipped."""
    told = read_events(
        [
            event("rebalance.completed", 10, generation=7, history="partial"),
            event("rebalance.completed", 20, generation=9, history="full", skipped_generations=1),
            event("rebalance.completed", 30, generation=12, history="partial"),
        ]
    )
    assert findings.holes(told, BEGIN) == [
        Hole(since_ms=BEGIN, until_ms=BEGIN + 10_000, text="everything before"),
        Hole(since_ms=BEGIN + 20_000, until_ms=BEGIN + 30_000, text="generations 10 to 11"),
    ]


def test_a_hole_before_the_first_event() -> None:
    """It is told, although nothing shows how long it is: the document begins with that event."""
    told = read_events([event("rebalance.completed", 10, generation=50, history="partial")])
    assert findings.holes(told, BEGIN + 10_000) == [
        Hole(since_ms=BEGIN + 10_000, until_ms=BEGIN + 10_000, text="everything before")
    ]


def test_no_hole_in_a_full_history() -> None:
    """A new group, a deleted one that begins again, and generations that were skipped."""
    told = read_events(
        [
            event("group.created", 1, generation=0),
            event("rebalance.completed", 2, generation=1),
            event("group.deleted", 3, generation=1),
            event("rebalance.completed", 4, generation=1),
        ]
    )
    assert findings.holes(told, BEGIN) == []
