"""The verdict: which sentences, in which order, from which facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from groupreplay.timeline.commit_rates import CommitLog
from groupreplay.timeline.document import Blame, ConditionBar, GenerationFlag, OffsetChange, SlotLane
from groupreplay.timeline.event_reading import ReadEvent
from groupreplay.timeline.verdict import verdict
from timeline import test_diagnoses, test_episodes

#: 2026-01-01T00:00:00Z
BEGIN = 1_767_225_600_000
MINUTE = 60_000


def bar(name: str, since: int, until: int | None, severity: str = "ERROR", subject: str = "") -> ConditionBar:
    """A condition between two minutes."""
    until_ms = None if until is None else BEGIN + until * MINUTE
    known = test_episodes.bar(name, BEGIN + since * MINUTE, until_ms)
    return replace(known, severity=severity, subject=subject)


def lane(name: str, condition: int, *, proven: bool) -> SlotLane:
    """A slot whose holder a condition names."""
    blame = Blame(since_ms=BEGIN, until_ms=None, proven=proven, condition=condition, text="")
    return replace(test_diagnoses.lane(name), blames=(blame,))


def told(name: str, minute: int, severity: str = "INFO", **data: Any) -> ReadEvent:
    """An event in a minute."""
    at_ms = BEGIN + minute * MINUTE
    return ReadEvent(index=0, id="", name=name, time_ms=at_ms, severity=severity, data=data, body={})


def flag(minute: int, sync_ms: int) -> GenerationFlag:
    """A rebalance that ended in a minute, after its leader had taken this long."""
    return GenerationFlag(
        at_ms=BEGIN + minute * MINUTE,
        generation=minute,
        trigger="unknown",
        members=2,
        joined=0,
        left=0,
        moved=0,
        unassigned=0,
        skipped=0,
        duration_ms=None,
        duration_upper_bound_ms=7,
        least_ms=sync_ms,
        most_ms=sync_ms + 7,
        took=f"took {sync_ms / 1000:.1f} s",
        join_ms_min=None,
        join_ms_max=None,
        sync_ms=sync_ms,
        slow_leader="a on h",
        leader_slot=0,
        event=None,
    )


def commits(*minutes: int) -> CommitLog:
    """Commits of two partitions; the second one has only the first of them."""
    at_ms = [BEGIN + minute * MINUTE for minute in minutes]
    place = [0] * len(at_ms) + [1]
    return CommitLog(places=(("t", 0), ("t", 1)), place=np.array(place), at_ms=np.array([*at_ms, at_ms[0]]))


NOTHING = replace(test_episodes.FACTS, since_ms=BEGIN, until_ms=BEGIN + 60 * MINUTE)


def test_members_whose_ids_repeat_have_their_hosts() -> None:
    """A number of a lane says nothing on a terminal, and two lanes of one process are one member."""
    lanes = [
        replace(lane("app #1", 0, proven=True), instance_id=None, client_id="app", client_host="/h1"),
        replace(lane("app #2", 0, proven=True), instance_id=None, client_id="app", client_host="/h1"),
        replace(lane("other", 0, proven=True), instance_id=None, client_id="other", client_host="/h2"),
    ]
    facts = replace(NOTHING, conditions=[bar("rebalance.stuck", 1, 4)], slots=lanes)
    assert verdict(facts)[0].text.startswith(
        "Stuck in a rebalance 00:01:00 to 00:04:00 (3 min 0 s): blocked by app on h1, other."
    )


def texts(**found: Any) -> list[tuple[str, str]]:
    """Tone and text of each sentence."""
    return [(one.tone, one.text) for one in verdict(replace(NOTHING, **found))]


def test_nothing() -> None:
    """A quiet time of a group."""
    assert texts() == [
        ("ok", "No event tells of a problem; at the end the group is Stable with 2 members."),
        ("info", "No rebalance was completed in this time."),
    ]
    assert texts(state=None)[0] == ("ok", "No event tells of a problem.")


def test_stuck() -> None:
    """When, for how long, for whom, and on how many partitions nothing was committed."""
    found = texts(
        conditions=(bar("rebalance.slow", 10, 22, "WARN"), bar("rebalance.stuck", 10, 22)),
        slots=(lane("billing-3", 1, proven=False),),
        commits=commits(1, 5, 30),
    )
    assert found[0] == (
        "error",
        "Stuck in a rebalance 00:10:00 to 00:22:00 (12 min 0 s): it waited for billing-3 (inferred)."
        " No commit on 2 of 2 partitions meanwhile.",
    )
    assert len(found) == 2


def test_stuck_on_blockers() -> None:
    """Blockers are proven by the log."""
    stuck = (bar("rebalance.stuck", 10, 22),)
    one = texts(conditions=stuck, slots=(lane("a", 0, proven=True),))[0][1]
    two = texts(conditions=stuck, slots=(lane("a", 0, proven=True), lane("b", 0, proven=True)))[0][1]
    assert one.endswith("(12 min 0 s): a did not give up its partitions.")
    assert two.endswith("(12 min 0 s): blocked by a, b.")


def test_several_times_and_still() -> None:
    """The one that holds comes first and has no end."""
    found = texts(conditions=(bar("rebalance.storm", 5, 6, "WARN"), bar("rebalance.storm", 20, None, "WARN")))
    assert found[0] == (
        "warn",
        "Rebalance storm: more generations than joins and leaves explain since 00:20:00, still at the end after "
        "40 min 0 s. There was one more: 00:05:00 to 00:06:00 (1 min 0 s).",
    )


def test_a_longer_one_before_the_one_that_holds() -> None:
    """The one that holds is told first, with its own members: those of an earlier one are not to be looked for."""
    found = texts(
        conditions=(bar("rebalance.stuck", 5, 30), bar("rebalance.stuck", 50, None)),
        slots=(lane("before", 0, proven=True), lane("now", 1, proven=True)),
    )
    assert found[0][1] == (
        "Stuck in a rebalance since 00:50:00, still at the end after 10 min 0 s: now did not give up its partitions. "
        "There was one more: 00:05:00 to 00:30:00 (25 min 0 s)."
    )


def test_several_that_ended() -> None:
    """The longest one, with its members, and how many there were."""
    found = texts(
        conditions=tuple(
            bar("rebalance.stuck", begin, begin + last) for begin, last in ((5, 1), (10, 9), (40, 2))
        ),
        slots=(lane("a", 1, proven=True),),
    )
    assert found[0][1] == (
        "Stuck in a rebalance 00:10:00 to 00:19:00 (9 min 0 s): a did not give up its partitions. "
        "There were 2 more, the longest one 00:40:00 to 00:42:00 (2 min 0 s)."
    )


def test_several_that_hold() -> None:
    """One for each partition: the longest one, and since when the next one holds."""
    bars = tuple(bar("partition.poison", begin, None, "WARN", subject=f"t-{begin}") for begin in (10, 20))
    assert texts(conditions=bars)[0][1] == (
        "The offset of one partition did not move while others did since 00:10:00, still at the end after 50 min 0 s: "
        "t-10. There was one more: since 00:20:00 (40 min 0 s)."
    )


def test_another_day() -> None:
    """A time has its day where the document is about several, or where it is before the document."""
    before = bar("commits.paused", -2 * 1_440, None, "INFO")
    assert texts(conditions=(before,))[0][1].endswith(
        "Commits stopped since 2025-12-30 00:00:00, still at the end after 2 d 1 h."
    )
    days = texts(until_ms=BEGIN + 4 * 1_440 * MINUTE, conditions=(bar("rebalance.stuck", 5, 6),))
    assert "2026-01-01 00:05:00 to 2026-01-01 00:06:00 (1 min 0 s)" in days[0][1]


def test_lost_members() -> None:
    """A frozen consumer is what a person must read first, with its reason; a few names are enough."""
    member = {"client_id": "c", "client_host": "/10.0.0.3", "reason": "session_timeout"}
    lost = told("member.left", 1, "WARN", **member)
    assumed = told("member.left", 1, "WARN", **member, assumed={"session_timeout_ms": 45_000})
    assert "(session timeout, assumed: session timeout 45.0 s)" in texts(events=[assumed])[0][1]
    assert texts(events=[lost, told("member.left", 2, "INFO", **member)])[0] == (
        "warn",
        "A member was lost that nobody had stopped: c on 10.0.0.3 at 00:01:00 (session timeout).",
    )
    others = [replace(lost, data={**lost.data, "client_id": client}) for client in "abdef"]
    assert texts(events=others)[0][1].startswith("5 members were lost that nobody had stopped: a on ")
    assert texts(events=[lost] * 5)[0][1].startswith(
        "A member was lost 5 times that nobody had stopped: c on "
    )
    assert texts(events=[lost, *others])[0][1].startswith(
        "6 members were lost that nobody had stopped: c on "
    )
    assert texts(events=[lost, lost, *others])[0][1].startswith(
        "6 members were lost 7 times that nobody had "
    )
    assert texts(events=[lost] * 5)[0][1].endswith("(session timeout) and 2 more.")


@pytest.mark.parametrize(("group_type", "closed"), [("classic", True), ("consumer", False)])
def test_a_static_member_that_is_gone_may_have_been_closed(group_type: str, closed: bool) -> None:
    """It does not leave a classic group then, so that its session ends; newer kinds of groups have a record of it."""
    member = {"instance_id": "i", "client_id": "c", "client_host": "/10.0.0.3", "reason": "session_timeout"}
    lost = told("member.left", 1, "WARN", **member, group_type=group_type)
    start = "A member was lost: " if closed else "A member was lost that nobody had stopped: "
    assert texts(events=[lost])[0][1].startswith(f"{start}static member i ")
    timed = replace(lost, data={**lost.data, "reason": "poll_timeout"})
    assert texts(events=[timed])[0][1].startswith("A member was lost that nobody had stopped: ")


def test_an_unknown_condition() -> None:
    """Of a later release: its name, and its subject."""
    found = texts(conditions=(bar("lag.grown", 5, 6, "WARN", subject="t-3"),))
    assert found[0] == ("warn", "Lag grown 00:05:00 to 00:06:00 (1 min 0 s): t-3.")


def test_the_worst_first_and_where_to_look() -> None:
    """Errors, then warnings, then facts; a sentence about a time has its bounds, and the times as numbers."""
    conditions = (bar("member.idle", 1, 2, "WARN"), bar("rebalance.stuck", 10, 22))
    found = verdict(replace(NOTHING, conditions=conditions))
    assert [one.tone for one in found] == ["error", "warn", "info"]
    assert (found[0].since_ms, found[0].until_ms) == (BEGIN + 10 * MINUTE, BEGIN + 22 * MINUTE)
    assert found[0].parts[1:4] == (BEGIN + 10 * MINUTE, " to ", BEGIN + 22 * MINUTE)


LOST = OffsetChange(
    at_ms=BEGIN + MINUTE,
    name="offsets.expired",
    topic="t",
    partition=0,
    old=7,
    new=None,
    severity="ERROR",
    event=None,
)


def test_changed_offsets() -> None:
    """Lost and changed offsets, with the largest jump where both offsets are known."""
    reset = replace(LOST, name="offsets.reset", at_ms=BEGIN + 2 * MINUTE, new=0, severity="WARN")
    further = replace(reset, at_ms=BEGIN + 3 * MINUTE, partition=1, old=900)
    assert texts(changes=(LOST, reset, further))[:2] == [
        ("error", "Committed offsets of 1 partition expired at 00:01:00."),
        (
            "warn",
            "After a loss of offsets, commits of 2 partitions began again between 00:02:00 and 00:03:00, "
            "t-1 from 900 to 0.",
        ),
    ]


def test_a_loss_is_never_green() -> None:
    """The tone is the severity of the event; where that is INFO, nothing says that there is no problem."""
    deleted = replace(LOST, name="offsets.deleted", severity="INFO")
    events = [told("offsets.deleted", 1)]
    assert texts(changes=(deleted,), events=events) == [
        ("info", "Committed offsets of 1 partition were deleted at 00:01:00."),
        ("info", "No rebalance was completed in this time."),
    ]
    went_back = replace(deleted, name="offset.rewound", new=5)
    assert texts(changes=(went_back,), events=[told("offset.rewound", 1)])[:2] == [
        ("info", "Offsets of 1 partition went back at 00:01:00, t-0 from 7 to 5."),
        ("ok", "No event tells of a problem; at the end the group is Stable with 2 members."),
    ]


def test_what_holds_and_what_was_lost_come_first() -> None:
    """Among sentences of one tone: what still holds, then lost offsets, then what is over."""
    over, holds = bar("rebalance.storm", 5, 6), bar("rebalance.stuck", 20, None)
    found = [
        text.split(" ")[0]
        for _, text in texts(conditions=(over, holds), changes=(replace(LOST, at_ms=BEGIN),))
    ]
    assert found == ["Stuck", "Committed", "Rebalance", "No"]


def test_a_slow_leader() -> None:
    """The leader is named, with the longest of its times; such a time is never told as one without a problem."""
    flags = tuple(flag(minute, sync_ms) for minute, sync_ms in ((1, 8_001), (2, 8_100)))
    assert texts(generations=flags) == [
        (
            "info",
            "The group waited 2 times for the assignment of its leader, a on h: the longest time 00:01:51 to 00:02:00 "
            "(8.1 s).",
        ),
        ("info", "2 rebalances, no partition moved, the longest took 8.1 s."),
    ]


def test_other_warnings_are_told() -> None:
    """A warning that no sentence knows: else the verdict would be green beside a red event."""
    assert texts(events=[told("lag.grown", 2, "WARN"), told("lag.grown", 3, "INFO")])[0] == (
        "warn",
        "1 event of type lag.grown (WARN) at 00:02:00.",
    )


def test_conditions_that_do_not_warn() -> None:
    """They come first, and nothing says that there is no problem."""
    found = texts(conditions=(bar("owner.silent", 1, 3, "INFO", subject="a"),))
    assert found == [
        ("info", "A member committed nothing while the others did 00:01:00 to 00:03:00 (2 min 0 s): a."),
        ("info", "No rebalance was completed in this time."),
    ]
