"""The timeline document: whole documents of small histories, windows, and what is missing or summed up."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from groupreplay.state.policy.context import Redaction
from groupreplay.timeline.commit_rates import CommitLog
from groupreplay.timeline.diagnosis import Statement
from groupreplay.timeline.document import TIMELINE_FORM, Remark, StateBar, Unread
from groupreplay.timeline.limits import TimelineLimits
from support.histories.builders import (
    CONTEXT,
    Raw,
    commit,
    emptied,
    generation,
    gone,
    member,
    no_offset,
    placed,
)
from support.pictures.timelines import BEGIN, MINUTE, SECOND, bodies, commit_log, timeline_of

A, B = member("a", (0, 1)), member("b", (2,))
ALONE = member("a", (0, 1, 2))


def two_members() -> list[Raw]:
    """A takes all partitions, B joins after a minute and leaves after another one."""
    return [
        generation(1, ALONE, at=BEGIN),
        *(commit("t", number, 10, at=BEGIN + 10 * SECOND) for number in (0, 1, 2)),
        generation(2, A, B, at=BEGIN + MINUTE),
        commit("t", 2, 20, at=BEGIN + 70 * SECOND),
        generation(3, ALONE, at=BEGIN + 2 * MINUTE),
    ]


def test_members_and_owners() -> None:
    """Each slot has its tenures and its number of partitions, each partition its owners, up to the end of the log."""
    found = timeline_of(two_members(), end_ms=BEGIN + 3 * MINUTE)
    end = BEGIN + 3 * MINUTE + 1
    lanes = [
        (
            lane.name,
            [(one.member_id, one.since_ms, one.until_ms, one.reason, one.ended) for one in lane.tenures],
        )
        for lane in found.slots
    ]
    end_of_b = "left or was removed; the log does not show which"
    assert lanes == [
        ("client-a", [("a", BEGIN, None, None, "")]),
        ("client-b", [("b", BEGIN + MINUTE, BEGIN + 2 * MINUTE, "unknown", end_of_b)]),
    ]
    assert [lane.holdings for lane in found.slots] == [
        ((BEGIN, BEGIN + MINUTE, 3), (BEGIN + MINUTE, BEGIN + 2 * MINUTE, 2), (BEGIN + 2 * MINUTE, end, 3)),
        ((BEGIN + MINUTE, BEGIN + 2 * MINUTE, 1),),
    ]
    (topic,) = found.topics
    assert {row.partition: row.owners for row in topic.partitions} == {
        0: ((BEGIN, end, 0, 0),),
        1: ((BEGIN, end, 0, 0),),
        2: (
            (BEGIN, BEGIN + MINUTE, 0, 0),
            (BEGIN + MINUTE, BEGIN + 2 * MINUTE, 1, 0),
            (BEGIN + 2 * MINUTE, end, 0, 0),
        ),
    }
    assert (sum(topic.commits), found.since_ms, found.until_ms, found.form) == (4, BEGIN, end, TIMELINE_FORM)


def test_generations_and_events_refer_to_rows() -> None:
    """A flag has the numbers of its event, and the index of the row of that event with place and JSON."""
    found = timeline_of(two_members())
    flags = [(one.generation, one.members, one.joined, one.left, one.moved) for one in found.generations]
    assert flags == [(1, 1, 1, 0, 0), (2, 2, 1, 0, 1), (3, 1, 0, 1, 1)]
    for flag in found.generations:
        assert flag.event is not None
        row = found.events[flag.event]
        assert (row.name, row.time_ms, row.partition, row.cut) == (
            "rebalance.completed",
            flag.at_ms,
            3,
            False,
        )
        assert row.body is not None
        assert row.body["data"]["generation"] == flag.generation
    assert [row.offset for row in found.events if row.name == "rebalance.completed"] == [100, 106, 110]


def test_a_group_in_good_health() -> None:
    """The verdict says so, with the state at the end, and counts rebalances and moves."""
    history = [generation(0, at=BEGIN, since=BEGIN, protocol_type=""), *two_members()]
    assert timeline_of(history).verdict == (
        Statement(
            tone="ok",
            text="No event tells of a problem; at the end the group is Stable with 1 member.",
            parts=("No event tells of a problem; at the end the group is Stable with 1 member.",),
            since_ms=None,
            until_ms=None,
        ),
        Statement(
            tone="info",
            text="3 rebalances, 2 partitions moved.",
            parts=("3 rebalances, 2 partitions moved.",),
            since_ms=None,
            until_ms=None,
        ),
    )


def test_states_with_their_bounds() -> None:
    """As ``state_spans`` gives them, from the first record on; each ends where the next one begins."""
    found = timeline_of(
        [
            generation(1, ALONE, at=BEGIN + 20, since=BEGIN),
            emptied(2, at=BEGIN + MINUTE),
            gone(at=BEGIN + 2 * MINUTE),
        ]
    )
    shown = [(one.state, one.since_ms - BEGIN, one.earliest_ms, one.until_ms) for one in found.states]
    assert shown == [
        ("CompletingRebalance", 0, BEGIN, BEGIN + 20),
        ("Stable", 20, BEGIN + 20, BEGIN + MINUTE),
        ("PreparingRebalance", MINUTE, BEGIN + 20, BEGIN + MINUTE),
        ("Empty", MINUTE, BEGIN + MINUTE, BEGIN + 2 * MINUTE),
        ("Dead", 2 * MINUTE, BEGIN + 2 * MINUTE, None),
    ]
    assert isinstance(found.states[0], StateBar)


def test_a_window() -> None:
    """What was before it counts, and is not shown: owners are cut at its begin, events and flags are left out."""
    found = timeline_of(two_members(), since_ms=BEGIN + 90 * SECOND, until_ms=BEGIN + 100 * SECOND)
    owners = {row.partition: row.owners for topic in found.topics for row in topic.partitions}
    begin, end = BEGIN + 90 * SECOND, BEGIN + 100 * SECOND
    assert owners == {0: ((begin, end, 0, 0),), 1: ((begin, end, 0, 0),), 2: ((begin, end, 1, 0),)}
    assert (found.events, found.generations) == ((), ())
    assert [lane.tenures[0].until_ms for lane in found.slots] == [None, None]
    assert [bar.state for bar in found.states] == ["Stable"]


def test_a_log_that_is_known_in_part() -> None:
    """What holds ends where the log was read to; nothing behind that is a pause, a rate of 0 or an age.

    The document still has the time that was asked for, and says why the end of it is not known.
    """
    regular = [commit("t", 0, number, at=BEGIN + number * SECOND) for number in range(11, 60)]
    known, asked = BEGIN + MINUTE, BEGIN + 60 * MINUTE
    lost = Unread(what="log", reason="unreachable", since_ms=known, text="No broker answers.")
    found = timeline_of(
        [*two_members()[:4], *regular],
        until_ms=asked,
        known_until_ms=known,
        events_until_ms=BEGIN + 30 * SECOND,
        unread=(lost,),
    )
    whole = timeline_of([*two_members()[:4], *regular], until_ms=asked)
    assert (found.until_ms, found.known_until_ms, found.events_until_ms) == (
        asked,
        known,
        BEGIN + 30 * SECOND,
    )
    assert (found.last_commit_ms, found.unread) == (BEGIN + 59 * SECOND, (lost,))
    (topic,) = found.topics
    assert [row.owners[-1][1] for row in topic.partitions] == [known] * 3
    assert [row.pauses for row in topic.partitions] == [()] * 3
    assert len(topic.commits) * found.bucket_ms <= MINUTE
    assert [lane.holdings[-1][1] for lane in found.slots] == [known]
    assert found.remarks[0] == Remark(
        kind="unread_log",
        text="The offsets topic could not be read after 2026-01-01T00:01:00.000Z: nothing later is known. No broker "
        "answers.",
    )
    assert found.verdict[0] == Statement(
        tone="warn",
        text="The log could not be read after 00:01:00: what happened then is not known.",
        parts=("The log could not be read after ", known, ": what happened then is not known."),
        since_ms=None,
        until_ms=None,
    )
    # The same log without that knowledge: an hour of silence.
    assert [len(row.pauses) for row in whole.topics[0].partitions] == [1, 0, 0]
    assert (whole.known_until_ms, whole.events_until_ms, whole.unread) == (asked, asked, ())


def test_a_condition_whose_end_is_not_known() -> None:
    """The verdict counts it to the last event that is known, not to the end of the time."""
    told = {"condition_id": "c", "since_ms": BEGIN, "group_id": "g", "status": "active"}
    event = {"id": "1", "type": "groupreplay.rebalance.stuck.v1", "severitytext": "ERROR", "data": told}
    given = {"events": [{**event, "time": "2026-01-01T00:00:30Z"}], "until_ms": BEGIN + 60 * MINUTE}
    found = timeline_of(two_members()[:1], **given, events_until_ms=BEGIN + 40 * SECOND)
    assert "still at the end after 40.0 s" in found.verdict[0].text
    assert "still at the end after 1 h" in timeline_of(two_members()[:1], **given).verdict[0].text


def test_probes_that_could_not_be_read() -> None:
    """Whether somebody asked is not known: that is not the same as nobody. Wrongly dated answers are counted."""
    lost = Unread(what="probes", reason="refused", since_ms=None, text="Not allowed.")
    found = timeline_of(two_members(), probed=False, unread=(lost,), misdated=2)
    assert found.remarks == (
        Remark(
            kind="unread_probes",
            text="What the prober was answered could not be read: whether the brokers were asked about classic groups "
            "is not known. Not allowed.",
        ),
        Remark(
            kind="misdated_probes",
            text="2 answers to the prober are not used: dated more than a minute ahead of the broker's append time. "
            "Check the clock of the job's machine.",
        ),
    )


def test_from_events_alone() -> None:
    """Without records the members come from the events, and remarks say what is missing."""
    found = timeline_of(two_members(), records=(), has_log=False, commits=CommitLog())
    assert [lane.name for lane in found.slots] == ["client-a", "client-b"]
    assert [row.partition for row in found.topics[0].partitions] == [0, 1, 2]
    kinds = [one.kind for one in found.remarks]
    assert (kinds, found.states) == (["no_records"], ())


def test_what_is_missing_is_said() -> None:
    """No commits, no prober, records without a time: each is a remark."""
    found = timeline_of([generation(1, ALONE, at=BEGIN)], probed=False, undated=2)
    assert [one.kind for one in found.remarks] == ["no_commits", "no_probes", "undated_records"]
    assert found.remarks[-1] == Remark(
        kind="undated_records", text="2 records without a usable time are left out."
    )


@pytest.mark.parametrize(
    ("commits", "left"),
    [
        (CommitLog(), "the log has no offset commit of this group, and there may have been some"),
        (
            commit_log([commit("t", 0, 1, at=BEGIN)]),
            "the log has commits of this group, and there may have been more",
        ),
    ],
)
def test_commits_that_compaction_may_have_removed_are_no_silence(commits: CommitLog, left: str) -> None:
    """The times are in the document, near ones as one, and the remark does not say that there was no commit."""
    history, gaps = [generation(1, ALONE, at=BEGIN)], ((BEGIN - 9, BEGIN + 1), (BEGIN + 500, BEGIN + 900))
    found = timeline_of(history, commits=replace(commits, gaps=gaps), end_ms=BEGIN + 60_000)
    assert found.commit_gaps == ((BEGIN, BEGIN + 900),)
    assert found.remarks == (
        Remark(
            kind="removed_commits",
            text="Compaction has removed records from this group's partition of the log, or they are of aborted "
            f"transactions, or were not read: {left}. A page has these times in grey.",
        ),
    )
    late = timeline_of(history, commits=replace(commits, gaps=gaps), since_ms=BEGIN + 1_000)
    assert (late.commit_gaps, "removed_commits" in [one.kind for one in late.remarks]) == ((), False)


def test_expired_offsets_are_a_fact_and_no_gap() -> None:
    """The log is whole: the brokers removed the offsets and the group, and the end of a condition comes after that."""
    short = replace(CONTEXT, retention_ms=60 * MINUTE)
    history = [
        generation(0, at=BEGIN, since=BEGIN, protocol_type=""),
        generation(1, ALONE, at=BEGIN + SECOND, since=BEGIN),
        commit("t", 0, 5, at=BEGIN + MINUTE),
        emptied(2, at=BEGIN + 2 * MINUTE),
        no_offset("t", 0, at=BEGIN + 63 * MINUTE),
        gone(at=BEGIN + 63 * MINUTE),
    ]
    found = timeline_of(history, events=bodies(placed(history), short))
    assert (found.basis.history, found.holes) == ("full", ())
    assert [(one.kind, one.text) for one in found.remarks] == [
        (
            "expired_offsets",
            "The brokers removed 1 committed offset at the end of their retention (offsets.expired): the log shows "
            "that, and nothing is missing from it for that reason.",
        )
    ]


def test_assumed_numbers_are_shown() -> None:
    """In the basis, the row of the event, its text and the verdict; those of deadlines only where there are any."""
    history = [commit("t", 0, 5, at=BEGIN), no_offset("t", 0, at=BEGIN + 8 * 24 * 60 * MINUTE)]
    events = bodies(placed(history))
    for event in events:
        if event["type"] == "groupreplay.offsets.expired.v1":
            event["data"]["assumed"] = {"retention_ms": 604_800_000}
    found = timeline_of(history, events=events, assumed={"other_ms": 1})
    assert found.basis.assumed == {"retention_ms": 604_800_000}
    (row,) = [one for one in found.events if one.name == "offsets.expired"]
    assert row.assumed == {"retention_ms": 604_800_000}
    assert ", assumed: retention 7 d 0 h" in row.text
    assert found.verdict[0].text.endswith(", assumed: retention 7 d 0 h.")
    offsets = [{"topic": "t", "partition": 0, "expires_at_ms": BEGIN}]
    assumed = timeline_of(history, offsets=offsets, assumed={"other_ms": 1}).basis.assumed
    assert assumed == {"other_ms": 1, "retention_ms": 604_800_000, "check_interval_ms": 600_000}


def test_holes() -> None:
    """The time before the first record of an old group, and between generations that do not follow each other."""
    history = [generation(7, ALONE, at=BEGIN), generation(12, A, B, at=BEGIN + MINUTE)]
    found = timeline_of(history, since_ms=BEGIN - MINUTE)
    holes = [(one.since_ms - BEGIN, one.until_ms - BEGIN, one.text) for one in found.holes]
    assert holes[0] == (-MINUTE, 0, "everything before")


def test_what_is_too_much_is_summed_up() -> None:
    """Rows, JSON, owners and lanes beyond the limits are left out, and remarks count them."""
    history = []
    for number in range(1, 41):
        owner = member("a" if number % 2 else "b", (0,))
        history.append(generation(number, owner, at=BEGIN + number * SECOND))
    limits = TimelineLimits(
        events=30, event_bytes=4_000, owner_spans=5, slots=1, generations=7, tenures=3, marks=2
    )
    found = timeline_of(history, limits)
    assert len(found.events) == 30
    assert sum(not row.cut for row in found.events) < 30
    assert (len(found.slots), len(found.generations)) == (1, 7)
    assert "40 rebalances" in found.verdict[-1].text
    assert len(found.topics[0].partitions[0].owners) <= 5
    assert [(one.members, one.until_ms) for one in found.slots[0].tenures] == [(20, BEGIN + 40 * SECOND)]
    assert len(found.slots[0].marks) == 2
    assert {one.kind for one in found.remarks} >= {
        "summed_owners",
        "summed_events",
        "summed_members",
        "summed_generations",
    }


def test_an_event_of_a_later_release() -> None:
    """An unknown event has a row with its name and its fields; offsets in it are changed offsets."""
    known = bodies(placed(two_members()))
    later = {
        **known[0],
        "type": "groupreplay.offsets.taken.v1",
        "time": "2026-01-01T00:01:30.000Z",
        "data": {
            **known[0]["data"],
            "partitions": [{"topic": "t", "partition": 1, "old_offset": 5, "new_offset": 9, "more": {}}],
            "by": "an administrator",
        },
    }
    found = timeline_of(two_members(), events=[*known, later])
    row = next(one for one in found.events if one.name == "offsets.taken")
    assert "by=an administrator" in row.text
    (change,) = found.offset_changes
    assert (change.name, change.topic, change.partition, change.old, change.new) == (
        "offsets.taken",
        "t",
        1,
        5,
        9,
    )
    assert found.events[change.event or 0] is row


@pytest.mark.parametrize(
    "strange", [None, 5, "x", [], {}, {"type": 7, "time": "2026-01-01T00:00:00Z", "data": 3}]
)
def test_strange_events_do_no_harm(strange: object) -> None:
    """Whatever another program wrote into the topic: the document is made, without what cannot be read."""
    body = strange if isinstance(strange, dict) else {"type": strange, "time": strange, "data": strange}
    found = timeline_of(two_members(), events=[*bodies(placed(two_members())), body])
    assert len(found.generations) == 3


def test_redacted_names() -> None:
    """Hidden names are hashed everywhere, also where they come from records and not from events."""
    redaction = Redaction(frozenset({"hosts", "client-id", "member-id", "instance-id"}), b"0123456789abcdef")
    found = timeline_of(two_members(), events=(), redaction=redaction)
    text = msgspec.json.encode(found).decode()
    assert [name for name in ("client-a", "client-b", "10.0.0.1") if name in text] == []
    assert {lane.client_id for lane in found.slots} == {redaction.hide(f"client-{one}") for one in "ab"}
