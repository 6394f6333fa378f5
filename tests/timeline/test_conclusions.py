"""The sums of causes: when they hold, and when a number is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from groupreplay.timeline import conclusions
from groupreplay.timeline.commit_rates import CommitLog
from groupreplay.timeline.diagnosis import BlamedMember
from groupreplay.timeline.document import SlotLane, Tenure
from groupreplay.timeline.episodes import Episode, VerdictFacts
from timeline.test_episodes import FACTS, MEMBER, told

SECOND = 1_000
WHO = BlamedMember(name="c", member_id="m", client_id="c", client_host="h", instance_id=None)


def stuck(since_ms: int = 100 * SECOND, members: tuple[BlamedMember, ...] = (WHO,), **data: Any) -> Episode:
    """A rebalance that is stuck, with a suspect."""
    event = replace(told("rebalance.stuck", since_ms + SECOND, "ERROR", **data), id="e")
    return Episode(
        sign="rebalance.stuck",
        since_ms=since_ms,
        until_ms=since_ms + 200 * SECOND,
        severity="ERROR",
        event=event,
        members=members,
    )


def commits(*at_s: int, repeats: int = 0) -> CommitLog:
    """Commits of one partition at these seconds."""
    at_ms = np.array(at_s, np.int64) * SECOND
    return CommitLog(places=(("t", 0),), place=np.zeros(len(at_s), np.int64), at_ms=at_ms, repeats=repeats)


def silent(last_s: int, *commits_s: int) -> str | None:
    """The sentence about a member that committed last at this second, in a group with these commits."""
    suspects = ({**MEMBER, "reason": "no_commit_since_start", "last_commit_ms": last_s * SECOND},)
    found = conclusions.silent_before(stuck(suspects=suspects), replace(FACTS, commits=commits(*commits_s)))
    return None if found is None else "".join(map(str, found.parts))


def test_a_member_that_had_stopped() -> None:
    """Longer than twice the usual gap and ten seconds, while others committed."""
    every_five = tuple(range(5, 100, 5))
    assert silent(60, *every_five) == (
        "c on h had stopped before the rebalance began: it committed last at 60000, 40.0 s before"
    )
    assert silent(92, *every_five) is None, "an ordinary pause"
    assert silent(60, *range(5, 61, 5)) is None, "nobody committed after it"
    assert silent(60) is None, "no usual gap is known"
    assert silent(110, *every_five) is None, "it committed in the rebalance"


def test_a_static_member_whose_session_ended_may_have_been_closed() -> None:
    """Of a classic group no record shows that; a dynamic member would have left."""
    left = told("member.left", 100 * SECOND, "WARN", reason="session_timeout", **MEMBER)
    static = replace(WHO, name="i", instance_id="i")
    texts = [
        "".join(map(str, conclusions.ended_without_a_word(event, (member,)).parts))
        for event, member in ((left, WHO), (replace(left, data={**left.data, "instance_id": "i"}), static))
    ]
    sentence = "sent no heartbeat until its session ended: its process was killed or frozen, or cut off"
    assert texts == [
        f"c on h {sentence}",
        f"static member i on h {sentence}; or it was closed, after which a static member does not leave",
    ]


def test_only_members_that_block_for_the_reason_are_named() -> None:
    """The event has all that the rebalance waits for, and the reason of the longest wait."""
    keeps, silent = {**MEMBER, "reason": "not_revoked"}, {**MEMBER, "reason": "not_heartbeating"}
    other = {**keeps, "member_id": "n", "client_id": "d"}

    def told_of(*blockers: dict[str, Any]) -> str:
        episode = stuck(reason="not_revoked", blockers=blockers)
        found = conclusions.waits("not_revoked", "{} has them", "{} have them")(episode, FACTS)
        return "" if found is None else "".join(map(str, found.parts))

    assert told_of(other, silent) == "d on h has them"
    assert told_of(keeps, other) == "c on h, d on h have them"


def test_failing_syncs() -> None:
    """More generations that failed than were completed, three at least; epochs of KIP-848 are no generations."""

    def failed(skipped: int, **facts: Any) -> bool:
        completed = told("rebalance.completed", 250 * SECOND, skipped_generations=skipped)
        whole: VerdictFacts = replace(FACTS, events=(completed,), **facts)
        return conclusions.syncs_fail(stuck(), whole) is not None

    assert failed(3)
    assert not failed(2)
    assert not failed(3, group_type="consumer")


def test_one_slot_in_a_storm() -> None:
    """Most of the joins of the time are those of one client id and host, three at least."""

    def culprit(*clients: str) -> list[str]:
        joined = [
            told(
                "member.joined", (110 + at) * SECOND, **{**MEMBER, "client_id": client, "member_id": f"m{at}"}
            )
            for at, client in enumerate(clients)
        ]
        found = conclusions.one_slot_returns(stuck(), replace(FACTS, events=joined))
        return [] if found is None else [member.name for member in found.members]

    assert culprit("a", "b", "a", "a") == ["a"]
    assert culprit("a", "a") == []
    assert culprit("a", "b", "a", "b", "a", "b", "c") == []
    assert culprit() == []


def recurring(sign: str, **data: Any) -> Episode:
    """A condition of a member that has recurred since the tenth second, and holds from the 30th on."""
    event = replace(told(sign, 30 * SECOND, "WARN", **{**MEMBER, **data}), id="e")
    return Episode(
        sign=sign,
        since_ms=30 * SECOND,
        earliest_ms=10 * SECOND,
        until_ms=100 * SECOND,
        severity="WARN",
        event=event,
        members=(WHO,),
    )


def test_returns_in_all_lanes_of_a_place() -> None:
    """A process that starts before its member is removed has two lanes; another host has its own."""

    def lane(host: str, *since_s: int) -> SlotLane:
        tenures = tuple(
            Tenure(member_id=f"{host}{at}", since_ms=at * SECOND, until_ms=None, reason=None)
            for at in since_s
        )
        return SlotLane(
            name="c",
            instance_id=None,
            client_id="c",
            client_host=host,
            tenures=tenures,
            holdings=(),
            marks=(),
            blames=(),
        )

    slots = (lane("h", 5, 20, 60), lane("h", 40), lane("other", 40, 50))
    episode = replace(recurring("member.flapping"), members=(replace(WHO, member_id="h20"),))
    conclusion = conclusions.restarts(episode, replace(FACTS, slots=slots))
    assert conclusion is not None
    assert str(conclusion.parts[0]).startswith("c on h came back 3 times under a new member id")


def test_timeouts_since_the_condition_began() -> None:
    """Later departures of the same place for a timeout, or likely for one, count, too; how it was gone is inferred."""
    left = [
        told(
            "member.left",
            at * SECOND,
            **{**MEMBER, "client_id": client, "member_id": f"m{at}"},
            reason=reason,
            candidates=[{"reason": likely, "likely": True}],
        )
        for at, client, reason, likely in (
            (20, "c", "poll_timeout", "poll_timeout"),
            (40, "c", "poll_timeout", "poll_timeout"),
            (50, "c", "left", "left"),
            (60, "other", "rebalance_timeout", "rebalance_timeout"),
            (70, "c", "rebalance_timeout", "rebalance_timeout"),
            (80, "c", "unknown", "poll_timeout"),
            (90, "c", "unknown", "left"),
        )
    ]
    episode = recurring("rebalance.timeouts", dropped_ms=(10_000, 20_000, 30_000), rebalance_timeout_ms=5_000)
    conclusion = conclusions.removed_again(episode, replace(FACTS, events=left))
    assert conclusion is not None
    assert (conclusion.parts, conclusion.certainty) == (
        ("c on h needs longer between two calls of poll() than its 5.0 s: it was gone 6 times",),
        "inferred",
    )


def test_names() -> None:
    """Client id and host, or instance id and host; three of them at most."""
    static = replace(WHO, name="i", instance_id="i")
    assert conclusions.who([WHO, static]) == "c on h, static member i on h"
    assert conclusions.who([replace(static, client_host="")]) == "static member i"
    assert conclusions.who([WHO] * 5) == "c on h, c on h, c on h and 2 more"
