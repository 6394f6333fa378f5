"""Which signs are explained by the cause of another one, rolling restarts, and sentences for links that are missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.timeline.causes import CAUSES
from groupreplay.timeline.diagnoses import Diagnoses, gaps, rolling_restarts
from groupreplay.timeline.diagnosis import Statement
from groupreplay.timeline.document import SlotLane, Tenure
from groupreplay.timeline.episodes import Episode
from groupreplay.timeline.event_reading import ReadEvent
from groupreplay.timeline.stop_cost import Backlog
from timeline.test_conclusions import stuck
from timeline.test_episodes import FACTS, MEMBER, bar, told
from timeline.test_stop_cost import T, ends, log_of

SECOND = 1_000
SUSPECT = {**MEMBER, "reason": "no_commit_since_start", "last_commit_ms": None}
LEFT = {**MEMBER, "reason": "poll_timeout", "candidates": (), "elapsed_ms": 60_000}


def lane(name: str, *tenures: tuple[int, int | None]) -> SlotLane:
    """A slot with members from a second to another one."""
    return SlotLane(
        name=name,
        instance_id=None,
        client_id=name,
        client_host="/h",
        tenures=tuple(
            Tenure(
                member_id=f"{name}-{at}",
                since_ms=since * SECOND,
                until_ms=None if until is None else until * SECOND,
                reason=None,
            )
            for at, (since, until) in enumerate(tenures)
        ),
        holdings=(),
        marks=(),
        blames=(),
    )


def identified(event: ReadEvent, name: str) -> ReadEvent:
    """The event with an id."""
    return replace(event, id=name)


def test_one_cause_explains_several_signs() -> None:
    """The client that gave up, and the pause of the same minute; the worst tone of them is that of the sentence."""
    paused = bar("commits.paused", 400_000, 500_000)
    events = (identified(told("member.left", 500_000, "WARN", index=1, **LEFT), "left"),)
    firing = (identified(told("commits.paused", 450_000, "INFO"), "paused"),)
    diagnosed = Diagnoses.of(replace(FACTS, conditions=(paused,), condition_events=firing, events=events))
    subject = ("member.left", 1)
    assert (diagnosed.cause_name(subject), diagnosed.is_explained(subject)) == ("gave_up", False)
    assert diagnosed.is_explained(("commits.paused", "commits.paused 400000"))
    assert [member.name for member in diagnosed.blamed(subject)] == ["c"]
    statement = Statement(tone="info", text="x", parts=("x",), since_ms=None, until_ms=None)
    told_of = diagnosed.explain(statement, [subject])
    assert (told_of.tone, told_of.cause, told_of.links[0].kind) == ("warn", "gave_up", "cause")
    assert diagnosed.explain(statement, [("no.such", "")]) == statement


def test_a_member_that_was_lost_twice() -> None:
    """The chain is about the first time: about what it held under its id of then."""
    ids = ("m1", "m2")
    events = [
        identified(
            told("member.left", at * SECOND, "WARN", index=at, **{**LEFT, "member_id": member_id}), member_id
        )
        for at, member_id in zip((500, 900), ids, strict=True)
    ]
    diagnosed = Diagnoses.of(replace(FACTS, events=events))
    statement = Statement(tone="warn", text="x", parts=("x",), since_ms=None, until_ms=None)
    told_of = diagnosed.explain(statement, [("member.left", 500), ("member.left", 900)])
    assert [(member.name, member.member_id) for member in told_of.blamed] == [("c", "m1")]


def test_another_time_is_another_incident() -> None:
    """A pause two minutes later has a sentence of its own, and no cause."""
    paused = bar("commits.paused", 700_000, 800_000)
    events = (identified(told("member.left", 500_000, "WARN", index=1, **LEFT), "left"),)
    firing = (identified(told("commits.paused", 750_000, "INFO"), "paused"),)
    diagnosed = Diagnoses.of(replace(FACTS, conditions=(paused,), condition_events=firing, events=events))
    subject = ("commits.paused", "commits.paused 700000")
    assert (diagnosed.is_explained(subject), diagnosed.cause_name(subject)) == (False, "")


def rolled(*lanes: SlotLane) -> list[str]:
    """The sentences about rolling restarts."""
    return [one.text for one in rolling_restarts(replace(FACTS, slots=lanes))]


def test_a_rolling_restart() -> None:
    """Each member once, one after another, nearly all of them."""
    first, second = lane("a", (1, 100), (105, None)), lane("b", (1, 130), (136, None))
    assert rolled(first, second) == [
        "Rolling restart 00:01:45 to 00:02:16: 2 members were restarted one after another."
    ]
    assert rolled(first, second, lane("c", (1, None))) == []
    assert rolled(first) == []
    assert rolled(lane("a", (1, 100), (105, None)), lane("b", (1, 101), (105, None))) == []
    assert rolled(lane("a", (1, 100), (400, None)), second) == []


def test_a_killed_member_has_two_slots() -> None:
    """The next process joins before the session of the killed one has ended."""
    killed, back = lane("b", (1, 175)), lane("b", (136, None))
    assert rolled(lane("a", (1, 100), (105, None)), killed, back) == [
        "Rolling restart 00:01:45 to 00:02:16: 2 members were restarted one after another."
    ]


def test_what_is_not_known() -> None:
    """No cause, no trigger, a begin before the first record, no prober: each is said."""
    episode = replace(stuck(suspects_note="nobody has committed"), until_ms=None)
    facts = replace(FACTS, probed=False, begins_inside=True, since_ms=100 * SECOND)
    assert gaps(episode, None, (), facts) == (
        "The cause is not known: nobody has committed.",
        "What began the rebalance is not known.",
        "It had begun when the records begin: what was before is not known.",
        "No prober asked the brokers: a rebalance is seen when it has ended, and not whom it waited for.",
    )


@pytest.mark.parametrize(
    ("answers", "committed", "told"),
    [
        (
            None,
            7,
            "The cause is not known: the log does not show whether the topic had new records.",
        ),
        (
            ((0, 7), (400, 90)),
            7,
            "The cause is not known: the log does not show whether the topic had new records.",
        ),
        (((0, 7), (150, 8), (290, 90), (400, 90)), 7, "The cause is not known: the topic had new records."),
        (((0, 7), (100, 7), (290, 7), (400, 7)), 7, "No cause is stated: no record waited."),
        (
            ((0, 7), (100, 7), (290, 7), (400, 7)),
            2,
            "The cause is not known: the log does not show whether the topic had new records.",
        ),
    ],
    ids=["no ends", "perhaps", "new records", "none", "a backlog"],
)
def test_a_time_without_commits(
    answers: tuple[tuple[int, int], ...] | None, committed: int, told: str
) -> None:
    """Recorded ends show whether there was something to commit; without them nothing does."""
    spans = ends(*((SECOND * at, end) for at, end in answers or ()))
    backlog = Backlog(log_of([(T, 0, committed)]), lambda *_: spans) if answers else None
    episode = replace(stuck(), sign="commits.paused")
    assert gaps(episode, None, (), replace(FACTS, backlog=backlog)) == (told,)


def test_a_transaction_that_hangs() -> None:
    """The producer is known; whether it lives is not, nor does a prober see what is behind it."""
    (cause,) = (cause for cause in CAUSES if cause.name == "hanging_transaction")
    producer = {"producer_id": 4_711, "producer_epoch": 3}
    event = told("transaction.hanging", 150, "WARN", evidence="log", **producer)
    episode = Episode(sign=event.name, since_ms=100, until_ms=None, severity="WARN", event=event)
    why = (
        "Why producer 4711 (epoch 3) has not ended its transaction is not known: the log does not show whether it "
        "lives."
    )
    assert gaps(episode, cause, (), FACTS) == (why,)
    probed = replace(episode, event=told(event.name, 150, "WARN", evidence="probe", **producer))
    assert gaps(probed, cause, (), FACTS) == (
        why,
        "The prober sees later transactions of the same partition only when this one has ended.",
    )
    assert gaps(replace(probed, until_ms=900), cause, (), FACTS) == (
        "Why producer 4711 (epoch 3) did not end its transaction is not known.",
    )
