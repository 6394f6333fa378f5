"""Strips: what they count, and which groups are worst."""

from __future__ import annotations

from typing import Any

from groupreplay.app.text.event_text import text_of
from groupreplay.timeline.overview import (
    GroupCount,
    GroupNow,
    OverviewTally,
    StripSpan,
    group_counts,
    strip_bucket_ms,
)

BEGIN = 1_767_225_600_000
MINUTE = 60_000


def event(group: str | None, name: str, minute: int, severity: str = "INFO", **data: Any) -> dict[str, Any]:
    """A CloudEvent so many minutes after the begin."""
    return {
        "type": f"groupreplay.{name}.v1",
        "time": f"2026-01-01T00:{minute:02d}:00Z",
        "severitytext": severity,
        "data": {"group_id": group, "group_type": "consumer", **data},
    }


def tally(*events: dict[str, Any]) -> OverviewTally:
    """The tally of these events."""
    found = OverviewTally(text_of)
    for one in events:
        found.add(one)
    return found


STUCK = {"condition_id": "c", "since_ms": BEGIN + 5 * MINUTE}


def test_a_strip() -> None:
    """Rebalances by bucket, the condition from its begin to its end, and a loss of offsets as a moment."""
    found = tally(
        event("g", "rebalance.completed", 1, partitions_moved=3),
        event("g", "rebalance.completed", 29, partitions_moved=None),
        event("g", "rebalance.stuck", 6, "WARN", status="firing", **STUCK),
        event("g", "rebalance.stuck", 9, "ERROR", status="resolved", **STUCK),
        event("g", "offsets.expired", 20, "WARN"),
        event(None, "job.gap", 3, "ERROR"),
    )
    (strip,) = found.strips(BEGIN, BEGIN + 30 * MINUTE)
    assert strip.spans == (
        StripSpan(
            name="offsets.expired",
            severity="WARN",
            since_ms=BEGIN + 20 * MINUTE,
            until_ms=BEGIN + 20 * MINUTE,
        ),
        StripSpan(
            name="rebalance.stuck", severity="ERROR", since_ms=BEGIN + 5 * MINUTE, until_ms=BEGIN + 9 * MINUTE
        ),
    )
    shown = (
        strip.tone,
        strip.rebalance_count,
        strip.moved,
        dict(strip.conditions),
        strip.losses,
        strip.group_type,
    )
    assert shown == ("error", 2, 3, {"rebalance.stuck": 1}, 1, "consumer")
    width = strip_bucket_ms(BEGIN, BEGIN + 30 * MINUTE)
    assert [at for at, count in enumerate(strip.rebalances) if count] == [
        MINUTE // width,
        29 * MINUTE // width,
    ]


def test_a_condition_that_is_over_says_so() -> None:
    """Its text is that of the moment at which it was reported: without its end a reader takes it for the present."""
    began = {
        "condition_id": "c",
        "since_ms": BEGIN + 5 * MINUTE,
        "state": "Reconciling",
        "reason": "not_revoked",
    }
    other = {**began, "condition_id": "d", "since_ms": BEGIN + 10 * MINUTE}
    stuck = event("g", "rebalance.stuck", 8, "ERROR", status="firing", elapsed_ms=3 * MINUTE, **began)
    end = event("g", "rebalance.stuck", 9, "ERROR", status="resolved", elapsed_ms=4 * MINUTE, **began)
    again = event("g", "rebalance.stuck", 14, "ERROR", status="firing", elapsed_ms=4 * MINUTE, **other)
    texts = [
        tally(*events).strips(BEGIN, BEGIN + 30 * MINUTE)[0].text
        for events in ((stuck,), (stuck, end), (stuck, end, again))
    ]
    assert texts == [
        "3 min 0 s so far, in Reconciling, not revoked",
        "3 min 0 s so far, in Reconciling, not revoked; resolved after 4 min 0 s",
        "4 min 0 s so far, in Reconciling, not revoked",
    ]


def test_the_worst_first() -> None:
    """Errors weigh more than warnings, long ones more than short ones; then many rebalances; quiet groups last."""
    found = tally(
        event("busy", "rebalance.completed", 1),
        event(
            "slow",
            "rebalance.slow",
            5,
            "WARN",
            status="firing",
            condition_id="s",
            since_ms=BEGIN + 5 * MINUTE,
        ),
        event("stuck", "rebalance.stuck", 5, "ERROR", status="firing", **STUCK),
    )
    found.see("idle", GroupNow("Stable", 2, ("orders",)))
    order = [one.group_id for one in found.strips(BEGIN, BEGIN + 30 * MINUTE)]
    assert order == ["stuck", "slow", "busy", "idle"]


def test_a_loss_of_offsets_comes_first() -> None:
    """Before longer conditions of the same tone and many rebalances; INFO is not the tone of a healthy group."""
    found = tally(
        *(event("busy", "rebalance.completed", minute) for minute in range(9)),
        event("stuck", "rebalance.stuck", 5, "ERROR", status="firing", **STUCK),
        event("lost", "offsets.expired", 20, "ERROR"),
        event("deleted", "offsets.deleted", 20),
        event("paused", "commits.paused", 5, "INFO", status="firing", condition_id="p"),
    )
    order = [(one.group_id, one.tone) for one in found.strips(BEGIN, BEGIN + 30 * MINUTE)]
    assert order == [
        ("lost", "error"),
        ("stuck", "error"),
        ("deleted", "info"),
        ("paused", "info"),
        ("busy", "ok"),
    ]


def test_what_else_is_wrong() -> None:
    """Warnings that are no conditions and slow leaders are counted; a reset is no second loss."""
    slow = {"leader": "m", "members": [{"member_id": "m", "client_id": "a", "client_host": "/h"}]}
    found = tally(
        event("g", "offsets.expired", 1, "ERROR"),
        event("g", "offsets.reset", 2, "WARN"),
        event("g", "member.left", 3, "WARN"),
        event("g", "rebalance.completed", 4, sync_ms=8_001, **slow),
    )
    (strip,) = found.strips(BEGIN, BEGIN + 30 * MINUTE)
    assert (strip.losses, strip.slow_leaders, dict(strip.warnings)) == (
        1,
        1,
        {"offsets.reset": 1, "member.left": 1},
    )


def test_what_is_outside_of_the_time_does_not_count() -> None:
    """A condition that ended before and a rebalance after it."""
    found = tally(
        event("g", "rebalance.stuck", 6, "ERROR", status="firing", **STUCK),
        event("g", "rebalance.stuck", 9, "ERROR", status="resolved", **STUCK),
        event("g", "rebalance.completed", 29),
    )
    (strip,) = found.strips(BEGIN + 10 * MINUTE, BEGIN + 20 * MINUTE)
    assert (strip.tone, strip.spans, strip.rebalance_count) == ("ok", (), 0)


def test_a_row_says_what_is_wrong_and_what_the_group_is_now() -> None:
    """The sentence of the gravest event, a mark while a condition holds, state and members; nothing of a calm group."""
    found = tally(
        event("sick", "offsets.deleted", 1, "INFO", partitions=1, topics={"t": "0"}),
        event("sick", "rebalance.stuck", 6, "ERROR", status="firing", **STUCK),
        event("well", "rebalance.stuck", 6, "ERROR", status="firing", **STUCK),
        event("well", "rebalance.stuck", 9, "ERROR", status="resolved", **STUCK),
        event("calm", "rebalance.completed", 1),
    )
    found.see("sick", GroupNow("PreparingRebalance", 3, ("orders", "host-1")))
    strips = found.strips(BEGIN, BEGIN + 30 * MINUTE)
    rows = {strip.group_id: (strip.leading, strip.still, strip.state, strip.members) for strip in strips}
    assert rows == {
        "sick": ("rebalance.stuck", "rebalance.stuck", "PreparingRebalance", 3),
        "well": ("rebalance.stuck", "", None, None),
        "calm": ("", "", None, None),
    }
    assert {strip.group_id: bool(strip.text) for strip in strips} == {
        "sick": True,
        "well": True,
        "calm": False,
    }
    assert strips[0].names == ("orders", "host-1")


def test_the_groups_are_counted_by_the_worst_of_each() -> None:
    """In words, the gravest first; the two losses of offsets are one number."""
    counts = group_counts(
        {
            ("ok", ""): 1136,
            ("warn", "offsets.expired"): 7,
            ("warn", "offsets.deleted"): 5,
            ("warn", "new.event"): 1,
            ("error", "rebalance.stuck"): 4,
        }
    )
    assert counts == (
        GroupCount(leading="rebalance.stuck", text="4 stuck", tone="error", groups=4),
        GroupCount(leading="offsets.deleted", text="12 lost offsets", tone="warn", groups=12),
        GroupCount(leading="new.event", text="1 new.event", tone="warn", groups=1),
        GroupCount(leading="", text="1\u202f136 healthy", tone="ok", groups=1136),
    )


def test_a_group_without_members_is_simple() -> None:
    """As in every other list of groups; with its first member it is a classic one."""
    committed = event("g", "group.created", 1, group_type="classic", simple=True)
    joined = event("g", "member.joined", 2, group_type="classic", simple=False)
    types = [
        strip.group_type
        for events in ((committed,), (committed, joined))
        for strip in tally(*events).strips(BEGIN, BEGIN + 30 * MINUTE)
    ]
    assert types == ["simple", "classic"]


def test_a_simple_group_without_an_event() -> None:
    """Its type is known from what it is at the end."""
    known = tally()
    known.see("s", GroupNow("Empty", 0, ("orders",), "simple"))
    (strip,) = known.strips(BEGIN, BEGIN + 30 * MINUTE)
    assert (strip.group_id, strip.group_type) == ("s", "simple")
