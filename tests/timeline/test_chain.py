"""The links of a chain, and the gaps that are said in their place."""

from __future__ import annotations

from dataclasses import replace

from groupreplay.timeline.causes import CAUSES
from groupreplay.timeline.chain import chain, first_step, quiet_partitions, without_cause
from groupreplay.timeline.conclusions import Conclusion
from groupreplay.timeline.diagnosis import Link, evidence_of
from groupreplay.timeline.document import OffsetChange
from groupreplay.timeline.episodes import Episode, VerdictFacts
from groupreplay.timeline.states import ProbedState
from timeline.test_conclusions import SECOND, WHO, commits, recurring, stuck
from timeline.test_episodes import FACTS, MEMBER, told

SLOW_REJOIN = next(
    cause for cause in CAUSES if cause.name == "slow_rejoin" and "rebalance.stuck" in cause.signs
)
COMPLETED = replace(
    told(
        "rebalance.completed",
        300 * SECOND,
        generation=4,
        member_count=2,
        trigger="member_joined",
        joined=["n"],
        members=[{**MEMBER, "member_id": "n", "client_id": "new"}],
        partitions_moved=3,
        evidence="log",
    ),
    id="done",
)


def conclusion(episode: Episode) -> Conclusion:
    """A cause."""
    return Conclusion(parts=("It hung",), members=(WHO,), evidence=evidence_of([episode.event]))


def whole_chain(episode: Episode, facts: VerdictFacts) -> tuple[Link, ...]:
    """The chain of a member that did not rejoin."""
    cause = conclusion(episode)
    return chain(episode, cause, first_step(SLOW_REJOIN, cause, episode, facts), facts)


def test_a_whole_chain() -> None:
    """Every link that has its evidence, in order."""
    episode = stuck(state="PreparingRebalance", suspects=(MEMBER,))
    facts = replace(FACTS, events=(COMPLETED,), commits=commits(*range(5, 100, 5)))
    assert [(link.kind, link.text) for link in whole_chain(episode, facts)] == [
        ("cause", "It hung."),
        ("trigger", "The rebalance began at 00:01:40: new on h joined."),
        (
            "stood_still",
            "The group was in PreparingRebalance from 00:01:40 to 00:05:00: no commit on 1 of 1 partition.",
        ),
        ("waited_for", "The group waited for c on h."),
        ("ended", "It ended at 00:05:00: generation 4 began with 2 members."),
        ("cost", "3 min 20 s without a commit on 1 partition, 3 partitions moved."),
        ("do_first", "Take a thread dump of c on h (jstack); restart what does not go on."),
    ]


def test_the_rebalance_that_follows_is_not_the_one_that_ended_it() -> None:
    """A cooperative assignor begins another one at once: neither its trigger nor its generation is told."""
    follow_up = told(
        "rebalance.completed",
        303 * SECOND,
        generation=5,
        member_count=2,
        trigger="cooperative_followup",
        partitions_moved=1,
        evidence="log",
    )
    links = whole_chain(stuck(), replace(FACTS, events=(COMPLETED, replace(follow_up, id="next"))))
    assert [(link.kind, link.text) for link in links if link.kind in ("trigger", "ended", "cost")] == [
        ("trigger", "The rebalance began at 00:01:40: new on h joined."),
        ("ended", "It ended at 00:05:00: generation 4 began with 2 members."),
        ("cost", "3 partitions moved."),
    ]


def test_one_state_is_told_where_each_answer_has_it() -> None:
    """The event has that of its own moment; a group that fails to sync goes from one to the other again and again."""
    episode = stuck(state="PreparingRebalance", suspects=(MEMBER,))
    last_ms = 104 * SECOND
    facts = replace(FACTS, commits=commits(*range(5, 100, 5), last_ms // SECOND))

    def stood_still(*states: str, **fields: str) -> list[str]:
        answers = [ProbedState(at * SECOND, at * SECOND, state) for at, state in enumerate(states, 200)]
        links = without_cause(episode, replace(facts, answers=answers, **fields))
        return [link.text for link in links if link.kind in ("stood_still", "cost")]

    span, cost = "from 00:01:40 to 00:05:00", "3 min 16 s without a commit on 1 partition."
    # A commit that was on its way is told.
    quiet = f"{span}: no commit on 1 of 1 partition after 00:01:44."
    joining = f"The group was in PreparingRebalance {quiet}"
    assert stood_still("PreparingRebalance", "PreparingRebalance") == [joining, cost]
    for told_of in (stood_still("CompletingRebalance"), stood_still(group_type="consumer")):
        assert told_of == [f"The group was in a rebalance {quiet}", cost]
    facts = replace(FACTS, commits=commits(*range(5, 300, 5)))
    assert stood_still() == [
        f"The group was in PreparingRebalance {span}; 1 partition had commits meanwhile."
    ]


def test_rebalances_and_their_time_have_one_beginning() -> None:
    """What recurred is counted from the first time that makes the condition, which holds only since the last one."""
    events = [told("rebalance.completed", at * SECOND, generation=at) for at in (5, 20, 60, 90)]
    links = whole_chain(recurring("rebalance.timeouts"), replace(FACTS, events=events))
    assert [link.text for link in links if link.kind == "cost"] == ["3 rebalances in 1 min 30 s."]


def test_a_rebalance_that_goes_on() -> None:
    """Who joined is not known before its end."""
    started = replace(told("rebalance.started", 100 * SECOND, trigger="member_joined"), id="s")
    episode = replace(stuck(), until_ms=None)
    links = whole_chain(episode, replace(FACTS, events=(started,)))
    assert [link.text for link in links if link.kind == "trigger"] == [
        "The rebalance began at 00:01:40: a member joined."
    ]


def test_the_begin_of_a_rebalance_is_its_own() -> None:
    """A member blocks it from a later time on: the trigger has the begin that the rebalance itself has."""
    began = {"rebalance_id": "r", "trigger": "member_joined", "since_ms": 96 * SECOND}
    texts = []
    for earliest_ms in (96 * SECOND, 90 * SECOND):
        started = told("rebalance.started", 96 * SECOND, since_ms_earliest=earliest_ms, **began)
        links = whole_chain(stuck(rebalance_id="r"), replace(FACTS, events=(started, COMPLETED)))
        texts += [link.text for link in links if link.kind == "trigger"]
    assert texts == [
        "The rebalance began at 00:01:36: new on h joined.",
        "The rebalance began by 00:01:36: new on h joined.",
    ]


def test_what_is_not_known() -> None:
    """Without a rebalance that ended there are no trigger, end and cost; the gaps are said."""
    episode = replace(stuck(suspects_note="nobody has committed"), until_ms=None)
    links = without_cause(episode, replace(FACTS, until_ms=400 * SECOND))
    assert [(link.kind, link.text) for link in links] == [
        ("waited_for", "The group waited for c on h."),
        (
            "still_wrong",
            "It holds at the end of what is known, after 5 min 0 s; the group is Stable with 2 members.",
        ),
    ]


def test_the_member_that_ended_it() -> None:
    """The reason of its leaving, with the sum of that."""
    left = replace(
        told(
            "member.left",
            300 * SECOND,
            reason="poll_timeout",
            candidates=({"reason": "poll_timeout", "words": "silent 5 min"},),
            evidence="inferred",
            **MEMBER,
        ),
        id="left",
    )
    episode = stuck()
    links = whole_chain(episode, replace(FACTS, events=(left, COMPLETED)))
    (ended,) = [link for link in links if link.kind == "ended"]
    assert (ended.text, ended.certainty, ended.sum, ended.evidence.events) == (
        "It ended at 00:05:00: c on h left: its client gave up, because nobody polled.",
        "inferred",
        "silent 5 min",
        ("left",),
    )


def test_records_that_are_skipped_and_read_again() -> None:
    """The sum of the distances of the offsets, by direction."""
    event = replace(told("offsets.set", 5 * SECOND), id="set")
    steps = ((0, 100, 150), (1, 100, 70), (2, None, 9))
    changes = [
        OffsetChange(
            at_ms=0, name="offsets.set", topic="t", partition=at, old=old, new=new, severity="WARN", event=0
        )
        for at, old, new in steps
    ]
    episode = Episode(
        sign="offsets.set", since_ms=5 * SECOND, until_ms=5 * SECOND, severity="WARN", event=event
    )
    (cost,) = without_cause(episode, replace(FACTS, changes=changes, events=(event,)))
    assert (cost.kind, cost.text) == ("cost", "At most 50 records are skipped and 30 records are read again.")
    one = [replace(changes[0], new=101)]
    (cost,) = without_cause(episode, replace(FACTS, changes=one, events=(event,)))
    assert cost.text == "At most 1 record is skipped."


def test_partitions_without_a_commit_since() -> None:
    """Told long after the end only, where others had commits again."""
    log = commits(*range(5, 100, 5), *range(310, 400, 5))
    episode = stuck()
    facts = replace(FACTS, commits=log, until_ms=400 * SECOND)
    assert "still_wrong" not in [link.kind for link in without_cause(episode, facts)]
    other = replace(
        log,
        places=(("t", 0), ("t", 1)),
        place=(log.at_ms < 100 * SECOND).astype(int) * (log.at_ms % 2_000 == 0),
    )
    (still,) = [
        link for link in without_cause(episode, replace(facts, commits=other)) if link.kind == "still_wrong"
    ]
    assert (still.text, still.certainty) == ("1 partition of t had no commit since 00:05:00.", "inferred")
    assert "still_wrong" not in [
        link.kind for link in without_cause(episode, replace(facts, commits=other, until_ms=310 * SECOND))
    ]


def test_quiet_partitions() -> None:
    """It is quiet after the commits that were on their way; a hole in the log says nothing."""
    log = commits(10, 20, 105)
    assert quiet_partitions(100 * SECOND, 200 * SECOND, replace(FACTS, commits=log)) == (1, 1, 105 * SECOND)
    assert quiet_partitions(106 * SECOND, 200 * SECOND, replace(FACTS, commits=log)) == (1, 1, 106 * SECOND)
    assert quiet_partitions(94 * SECOND, 200 * SECOND, replace(FACTS, commits=log)) == (0, 1, 94 * SECOND)
    assert quiet_partitions(100 * SECOND, 105 * SECOND, replace(FACTS, commits=log)) is None
    holed = replace(log, gaps=((150 * SECOND, 160 * SECOND),))
    assert quiet_partitions(100 * SECOND, 200 * SECOND, replace(FACTS, commits=holed)) is None


def test_the_first_step() -> None:
    """With the group in the command as a shell takes it, and the section of the runbook."""
    episode = stuck()
    step = first_step(
        SLOW_REJOIN, conclusion(episode), episode, replace(FACTS, group_id="a b", runbook="https://r/b")
    )
    assert (step.about, step.command, step.runbook) == (
        "group a b, c on h",
        "groupreplay describe --bootstrap-server HOST:PORT --group 'a b' --members --verbose",
        "https://r/b#rebalance-stuck",
    )
