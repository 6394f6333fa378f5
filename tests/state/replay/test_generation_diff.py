"""The facts about members in one operation, and their order."""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from groupreplay.state.events import group_events
from groupreplay.state.events.event import Evidence, LeaveCandidate, LeaveReason, MemberForm
from groupreplay.state.events.group_events import MemberJoined, MemberLeft, MemberUpdated, StaticReplaced
from groupreplay.state.replay.departure_reasons import STAMP_LAG_MS, Finding
from groupreplay.state.replay.generation_diff import Departure, GenerationDiff, MembershipChange, trigger
from groupreplay.state.snapshot.members import Member, Pairing
from support.histories.builders import asked_for, check, facts, generation, member, replay

STATIC = Member("s-1", "s", "client", "/old", 10, 20, ("range",), ("t",), {})
DYNAMIC = Member("d-1", None, "client", "/h", 10, 20, ("range",), ("t",), {})
ASKED = {"session_timeout_ms": 20, "rebalance_timeout_ms": 10, "topics": ("t",)}
SUM = LeaveCandidate(
    reason="session_timeout", timeout_ms=20, since_ms=1, earliest_ms=21, likely=True, words="silent"
)
IDS = {"client_id": "client", "client_host": "/h", "instance_id": None}


def test_facts_in_order() -> None:
    """Departures with their own evidence, then joins, then for each kept slot a replacement and an update."""
    change = MembershipChange(
        departures=(
            Departure(DYNAMIC, Finding("session_timeout", (SUM,), Evidence.INFERRED), 30, {"n_ms": 1}, True),
        ),
        joined=(replace(DYNAMIC, member_id="d-2"),),
        kept=((STATIC, replace(STATIC, member_id="s-2", client_host="/h", topics=("u",))),),
        emptied=True,
        completed=(DYNAMIC,),
    )
    assert list(change.facts()) == [
        (
            MemberLeft(
                member_id="d-1",
                **IDS,
                reason="session_timeout",
                elapsed_ms=30,
                candidates=(SUM,),
                assumed={"n_ms": 1},
                unplanned=True,
            ),
            Evidence.INFERRED,
        ),
        (MemberJoined(member_id="d-2", **IDS), Evidence.LOG),
        (
            StaticReplaced(
                instance_id="s",
                old_member_id="s-1",
                new_member_id="s-2",
                old_host="/old",
                new_host="/h",
                rebalanced=True,
            ),
            Evidence.LOG,
        ),
        (
            MemberUpdated(
                member_id="s-2",
                **{**IDS, "instance_id": "s"},
                changed=("topics",),
                old=MemberForm(
                    member_id="s-1", **{**IDS, "instance_id": "s", "client_host": "/old"}, **ASKED
                ),
                new=MemberForm(member_id="s-2", **{**IDS, "instance_id": "s"}, **{**ASKED, "topics": ("u",)}),
            ),
            Evidence.LOG,
        ),
    ]


def test_an_unchanged_member_has_no_fact() -> None:
    """Another assignment is no change of the member."""
    assert not list(MembershipChange(kept=((DYNAMIC, replace(DYNAMIC, partitions={"t": "0"})),)).facts())


def test_a_replaced_dynamic_member_is_updated() -> None:
    """Its new member id is one of the changed fields."""
    change = MembershipChange(kept=((DYNAMIC, replace(DYNAMIC, member_id="d-2", session_timeout_ms=21)),))
    updated = MemberUpdated(
        member_id="d-2",
        **IDS,
        changed=("member_id", "session_timeout_ms"),
        old=MemberForm(member_id="d-1", **IDS, **ASKED),
        new=MemberForm(member_id="d-2", **IDS, **{**ASKED, "session_timeout_ms": 21}),
    )
    assert list(change.facts()) == [(updated, Evidence.LOG)]


def test_triggers_that_two_generations_can_show() -> None:
    """A changed subscription and a partition that never had an owner are triggers; without any, the leader rejoined."""
    history = [
        asked_for(at=1),
        generation(1, member("a", [0]), at=100),
        generation(2, member("a", [0], subscribed=["t", "u"]), at=200),
        generation(3, member("a", [0, 1], subscribed=["t", "u"]), at=300),
        generation(4, member("a", [0, 1], subscribed=["t", "u"]), at=400),
    ]
    _, events = replay(history)
    rounds = [fact for fact in facts(events) if isinstance(fact, group_events.RebalanceCompleted)]
    assert [fact.trigger for fact in rounds] == [
        "first_join",
        "subscription_changed",
        "metadata_changed",
        "leader_rejoined",
    ]
    # Nothing is different either, but a generation without a record lies between.
    _, events = replay([*history, generation(6, member("a", [0, 1], subscribed=["t", "u"]), at=600)])
    check(facts(events)[-1], trigger="unknown", skipped_generations=1)


def test_a_member_that_a_rebalance_removed_did_not_begin_it() -> None:
    """The join timer removes who has not rejoined; a session that could not end before had not ended by then either.

    Whoever began it may have left again. Without a time by which it had begun, the departure may be what began it.
    """
    kept = replace(DYNAMIC, member_id="d-2", client_id="other")
    diff = GenerationDiff(
        old=(DYNAMIC, kept),
        new=(kept,),
        pairing=Pairing(((kept, kept),), (DYNAMIC,), ()),
        protocol_type="consumer",
        last_owners={},
        owners_known=True,
        first=False,
        is_whole=True,
    )

    ends_ms = (SUM.earliest_ms or 0) - STAMP_LAG_MS

    def shown(reason: LeaveReason, began_ms: int | None) -> str:
        departure = Departure(
            DYNAMIC, Finding(reason, (dataclasses.replace(SUM, reason=reason),), Evidence.INFERRED), 30
        )
        return trigger(diff, (departure,), began_ms)

    assert [shown("session_timeout", began_ms) for began_ms in (None, ends_ms - 1, ends_ms)] == [
        "member_left",
        "unknown",
        "member_left",
    ]
    assert shown("rebalance_timeout", None) == "unknown"
    joined = replace(diff, pairing=Pairing(((kept, kept),), (DYNAMIC,), (replace(DYNAMIC, member_id="d-3"),)))
    departure = Departure(DYNAMIC, Finding("rebalance_timeout", (), Evidence.INFERRED), 30)
    assert (trigger(joined, (departure,)), trigger(joined)) == ("member_joined", "members_changed")


def test_two_consumers_of_one_host_cannot_be_told_apart() -> None:
    """Slots that are not unique are identified by member id: one member left, one joined."""
    one = {"client_id": "c", "host": "/h"}
    _, events = replay(
        [
            asked_for(at=1),
            generation(1, member("c-1", [0], **one), member("c-2", [1], **one), at=100),
            generation(2, member("c-1", [0], **one), member("c-3", [1], **one), at=900),
        ]
    )
    completed = next(fact for fact in facts(events) if getattr(fact, "generation", None) == 2)
    check(completed, joined=("c-3",), left=("c-2",), kept=("c-1",), trigger="members_changed")
