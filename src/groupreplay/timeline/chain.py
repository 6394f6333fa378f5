"""The chain of a statement: trigger, what stood still, who was waited for, how it ended, its cost, what is wrong now.

Each link has its evidence, or it is left out.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from groupreplay.state import phrases
from groupreplay.state.conditions.registry import kind_named
from groupreplay.state.conditions.transaction_hanging import TransactionHanging
from groupreplay.state.phrases import NAMES_SHOWN, counted, counted_verb, first_of, milliseconds, safe_text
from groupreplay.timeline.causes import Cause
from groupreplay.timeline.conclusions import Conclusion, who
from groupreplay.timeline.diagnosis import (
    BlamedMember,
    Certainty,
    FirstStep,
    Link,
    blamed_member,
    certainty_of,
    evidence_of,
    link,
)
from groupreplay.timeline.episodes import (
    COMPLETED,
    MEMBER_LEFT,
    OFFSET_CHANGES,
    REBALANCES,
    SLOW_LEADER,
    Episode,
    VerdictFacts,
    completion,
    departure_at_end,
    start_of,
)
from groupreplay.timeline.event_reading import ReadEvent, words

#: Commits that were on their way when a rebalance began.
_ON_THE_WAY_MS: Final = 10_000
#: So many usual gaps without a commit after the end: it is still missing.
_STILL_GAPS: Final = 5
_LEAST_STILL_MS: Final = 30_000
_ESTIMATE: Final = (
    "the recorded ends of the partitions minus the committed offsets, between two answers an estimate"
)
_TRIGGERS: Final = {
    "first_join": "the first members joined",
    "member_joined": "{joined} joined",
    "member_left": "{left} left",
    "members_changed": "members came and went ({joined} joined, {left} left)",
    "cooperative_followup": "the generation before had left partitions without an owner, as cooperative assignors do",
    "static_member_replaced": "a static member was started again",
    "subscription_changed": "a member changed its subscription",
    "metadata_changed": "a member joined again with other metadata",
    "leader_rejoined": "the leader joined again",
}


def chain(episode: Episode, conclusion: Conclusion, step: FirstStep, facts: VerdictFacts) -> tuple[Link, ...]:
    """The links of an episode with a cause, in the order of the chain; ``step`` is its ``first_step``."""
    first = link(
        "cause",
        [*conclusion.parts, "."],
        facts.window,
        conclusion.evidence,
        conclusion.certainty,
        conclusion.how,
    )
    links = [first, *_rest(episode, conclusion.members, facts)]
    return (
        *links,
        link("do_first", [f"{step.text}."], facts.window, conclusion.evidence, conclusion.certainty),
    )


def without_cause(episode: Episode, facts: VerdictFacts) -> tuple[Link, ...]:
    """The links of an episode that nothing known explains."""
    return tuple(_rest(episode, episode.members, facts))


def _rest(episode: Episode, members: Sequence[BlamedMember], facts: VerdictFacts) -> Iterator[Link]:
    for make in _LINKS:
        made = make(episode, members, facts)
        if made is not None and made.evidence:
            yield made


def first_step(cause: Cause, conclusion: Conclusion, episode: Episode, facts: VerdictFacts) -> FirstStep:
    """What to do first, with the member and the host."""
    data, named = episode.event.data, who(conclusion.members)
    words_of = {
        "who": named or "the member",
        "group": shlex.quote(safe_text(facts.group_id)),
        "sign": episode.sign,
        "place": phrases.subject(data),
        "topic": shlex.quote(safe_text(words(data.get("topic")))),
        "partition": data.get("partition"),
        "offset": data.get("offset"),
        "log_partition": data.get("log_partition"),
        "fix": TransactionHanging.remedy(data, is_over=episode.until_ms is not None),
    }
    return FirstStep(
        text=cause.first.format(**words_of),
        about=f"group {safe_text(facts.group_id)}{f', {named}' if named else ''}",
        command=cause.command.format(**words_of),
        runbook=f"{facts.runbook}#{cause.section}",
    )


def _trigger(episode: Episode, members: Sequence[BlamedMember], facts: VerdictFacts) -> Link | None:
    if episode.sign not in REBALANCES:
        return None
    started = start_of(episode, facts)
    event = completion(episode, facts) or started
    if event is None or event.text("trigger") not in _TRIGGERS:
        return None
    names = {name: _names(event, name) or "a member" for name in ("joined", "left")}
    text = _TRIGGERS[event.text("trigger")].format(**names)
    since_ms, earliest_ms = episode.since_ms, None if episode.sign == SLOW_LEADER else episode.began_ms
    if started is not None and (known_ms := started.number("since_ms")) is not None:
        # A member may block a rebalance that has begun before.
        since_ms, earliest_ms = known_ms, started.number("since_ms_earliest")
    before = "at " if earliest_ms == since_ms else "by "
    return link(
        "trigger",
        [
            f"The rebalance began {before}",
            min(since_ms, facts.until_ms),
            f": {text}{phrases.logged(event.data)}.",
        ],
        facts.window,
        evidence_of([event] if started is None else [event, started]),
        certainty_of(event),
    )


def _names(event: ReadEvent, field: str) -> str:
    """The members that joined or left in a rebalance, by name."""
    ids = [words(one) for one in event.items(field)]
    pictures = [*event.mappings("members"), *event.mappings("gone")]
    named = {words(one.get("member_id")): phrases.member(one) for one in pictures}
    return first_of([named[one] for one in ids if one in named], str)


class Quiet(NamedTuple):
    """So many ``partitions`` ``of`` so many had no commit after ``since_ms``, by when those on their way had come."""

    partitions: int
    of: int
    since_ms: int

    def parts(self, began_ms: int, otherwise: str = "") -> list[str | int]:
        """``commit on 2 of 3 partitions after 12:00:00``; ``otherwise``: in place of a time that is the begin."""
        since: list[str | int] = [" after ", self.since_ms] if self.since_ms > began_ms else [otherwise]
        return [f"commit on {self.partitions} of {counted(self.of, 'partition')}", *since]


def quiet_partitions(since_ms: int, until_ms: int, facts: VerdictFacts) -> Quiet | None:
    """On how many partitions of how many nothing was committed in this time; None: that is not known."""
    first_ms = since_ms + _ON_THE_WAY_MS
    if first_ms >= until_ms or not facts.commits.places or facts.commits.gaps_in(first_ms, until_ms):
        return None
    every = facts.commits.partitions_committed(facts.since_ms, since_ms)
    quiet = every - facts.commits.partitions_committed(first_ms, until_ms)
    late = facts.commits.within(since_ms, first_ms)
    times = zip(late.place.tolist(), late.at_ms.tolist(), strict=True)
    last_ms = max((at_ms for place, at_ms in times if late.places[place] in quiet), default=since_ms)
    return Quiet(len(quiet), len(every), last_ms) if every else None


def _stood_still(episode: Episode, members: Sequence[BlamedMember], facts: VerdictFacts) -> Link | None:
    if episode.sign == MEMBER_LEFT:
        held = _held(members, episode.since_ms, facts)
        if not held:
            return None
        since: list[str | int] = [" from ", episode.since_ms, " to ", episode.end_ms(facts)]
        return link(
            "stood_still",
            [f"Nobody worked on its partitions ({held})", *since, "."],
            facts.window,
            evidence_of([episode.event]),
            "inferred",
            "from its last sign of life to the rebalance without it",
        )
    if (
        episode.sign not in REBALANCES
        and not kind_named(episode.sign).STOPS_COMMITS
        and episode.sign != "commits.paused"
    ):
        return None
    quiet = quiet_partitions(episode.since_ms, episode.end_ms(facts), facts)
    state = episode.event.text("state")
    if quiet is None and not state:
        return None
    where = _one_state(episode, facts) or "a rebalance"
    parts: list[str | int] = [f"The group was in {where}" if state else "Commits of the group stood still"]
    parts += [" from ", episode.since_ms, " to ", episode.end_ms(facts)]
    if episode.began_ms < episode.since_ms:
        parts += [" (it began after ", episode.began_ms, ")"]
    if quiet is not None and not quiet.partitions:
        parts.append(f"; {counted(quiet.of, 'partition')} had commits meanwhile")
    elif quiet is not None:
        parts += [": no ", *quiet.parts(episode.since_ms)]
    return link("stood_still", [*parts, "."], facts.window, evidence_of([episode.event]))


def _one_state(episode: Episode, facts: VerdictFacts) -> str | None:
    """The state that a classic group was in for all of the time, by each answer; None: not known, or several.

    An event has the state of its own moment, and groups of the newer kinds go from Assigning to Reconciling and back.
    """
    end_ms = episode.end_ms(facts)
    answers = {one.state for one in facts.answers if episode.began_ms <= one.asked_ms <= end_ms}
    states = answers | {episode.event.text("state")}
    return safe_text(states.pop()) if facts.group_type == "classic" and len(states) == 1 else None


def _held(members: Sequence[BlamedMember], before_ms: int, facts: VerdictFacts) -> str:
    """The partitions that these members held."""
    held = [
        phrases.partitions(facts.partitions_of(one.member_id, before_ms)) for one in members[:NAMES_SHOWN]
    ]
    return "; ".join(filter(None, held))


def _waited_for(episode: Episode, members: Sequence[BlamedMember], facts: VerdictFacts) -> Link | None:
    if episode.sign not in REBALANCES or not members:
        return None
    others = [
        one.name
        for suspect in episode.event.mappings("suspects")
        if (one := blamed_member(suspect)) is not None and one.name not in {member.name for member in members}
    ]
    is_proven = any(episode.event.mappings("blockers")) or episode.sign == SLOW_LEADER
    less = f"; less likely: {', '.join(map(safe_text, others[:NAMES_SHOWN]))}" if others else ""
    return link(
        "waited_for",
        [f"The group waited for {who(members)}{less}."],
        facts.window,
        evidence_of([episode.event]),
        "proven" if is_proven else "inferred",
        "" if is_proven else "the brokers do not say which member has rejoined; commits do",
    )


def _ended(episode: Episode, members: Sequence[BlamedMember], facts: VerdictFacts) -> Link | None:
    if episode.until_ms is None:
        return None
    event = departure_at_end(episode, members, facts)
    if event is not None and episode.sign != MEMBER_LEFT:
        likely = next(event.mappings("candidates"), {})
        parts: list[str | int] = ["It ended at ", episode.until_ms, f": {phrases.member(event.data)} "]
        return link(
            "ended",
            [*parts, f"{phrases.member_end(event.text('reason'))}."],
            facts.window,
            evidence_of([event]),
            certainty_of(event),
            words(likely.get("words")),
        )
    event_of = completion(episode, facts)
    if event_of is not None:
        number, count = event_of.number("generation"), counted(event_of.number("member_count") or 0, "member")
        text = f": generation {number} began with {count}."
        return link("ended", ["It ended at ", event_of.time_ms, text], facts.window, evidence_of([event_of]))
    if episode.bar is not None:
        return link(
            "ended", ["It ended at ", episode.until_ms, "."], facts.window, evidence_of([episode.event])
        )
    return None


def _cost(episode: Episode, members: Sequence[BlamedMember], facts: VerdictFacts) -> Link | None:
    if episode.sign in OFFSET_CHANGES:
        return _records_moved(episode, facts)
    event, quiet = (
        completion(episode, facts),
        quiet_partitions(episode.since_ms, episode.end_ms(facts), facts),
    )
    cost = episode.cost(facts)
    is_behind = cost is not None and cost.added > 0
    parts = [cost.text] if cost is not None and is_behind else []
    if quiet is not None and quiet.partitions:
        lasted = milliseconds(episode.end_ms(facts) - quiet.since_ms)
        # Behind an open transaction there may be others.
        kind = "readable commit" if episode.sign == TransactionHanging.NAME else "commit"
        parts.append(f"{lasted} without a {kind} on {counted(quiet.partitions, 'partition')}")
    if event is not None and (moved := event.number("partitions_moved")):
        parts.append(f"{counted(moved, 'partition')} moved")
    if episode.sign in ("rebalance.storm", "member.flapping", "static.crash_loop", "rebalance.timeouts"):
        # From the first of the times that make the condition, which holds only since the last of them.
        end_ms = episode.end_ms(facts)
        completed = facts.named(COMPLETED, episode.began_ms, end_ms)
        within = milliseconds(end_ms - episode.began_ms)
        parts.append(f"{counted(len(completed), 'rebalance') if completed else 'no rebalance'} in {within}")
        event = completed[-1] if completed else episode.event
    if not parts:
        return None
    text = ", ".join(parts)
    evidence = evidence_of([event or episode.event, episode.event])
    certainty: Certainty = "inferred" if is_behind else "proven"
    return link(
        "cost",
        [f"{text[:1].upper()}{text[1:]}."],
        facts.window,
        evidence,
        certainty,
        _ESTIMATE if is_behind else "",
    )


def _records_moved(episode: Episode, facts: VerdictFacts) -> Link | None:
    """How many records are skipped or read again, at most."""
    names = (
        {episode.sign, "offsets.reset"}
        if episode.sign in ("offsets.expired", "offsets.deleted")
        else {episode.sign}
    )
    places = [
        one for one in facts.changes if one.name in names and one.old is not None and one.new is not None
    ]
    steps = [(one.new or 0) - (one.old or 0) for one in places]
    skipped, again = sum(step for step in steps if step > 0), -sum(step for step in steps if step < 0)
    parts = [f"{counted_verb(skipped, 'record', 'is', 'are')} skipped"] if skipped else []
    parts += [f"{counted_verb(again, 'record', 'is', 'are')} read again"] if again else []
    events = [event for event in facts.events if event.name in names]
    if not parts:
        return None
    return link(
        "cost",
        [f"At most {' and '.join(parts)}."],
        facts.window,
        evidence_of(events[:NAMES_SHOWN]),
        "proven",
        f"the offsets before and after of {counted(len(places), 'partition')}; records that no longer exist count, too",
    )


def _still_wrong(episode: Episode, members: Sequence[BlamedMember], facts: VerdictFacts) -> Link | None:
    events = [episode.event]
    if episode.until_ms is None:
        lasted = milliseconds(facts.until_ms - episode.since_ms)
        text = f"It holds at the end of what is known, after {lasted}"
        return link("still_wrong", [f"{text}{_members_now(facts)}."], facts.window, evidence_of(events))
    if episode.sign in OFFSET_CHANGES:
        return None
    lost = _uncommitted(episode, facts)
    if not lost:
        return None
    topics = sorted({topic for topic, _ in lost})[:NAMES_SHOWN]
    shown = ", ".join(safe_text(topic) for topic in topics)
    return link(
        "still_wrong",
        [f"{counted(len(lost), 'partition')} of {shown} had no commit since ", episode.until_ms, "."],
        facts.window,
        evidence_of(events),
        "inferred",
        "they had commits before, and the time since then is many times the usual gap; they may have no new records",
    )


def _members_now(facts: VerdictFacts) -> str:
    if facts.state is None:
        return ""
    return f"; the group is {facts.state} with {counted(facts.members, 'member')}"


def _uncommitted(episode: Episode, facts: VerdictFacts) -> set[tuple[str, int]]:
    """Partitions that had commits before, and none since the end of the episode, long after it."""
    until_ms = episode.end_ms(facts)
    usual_ms = facts.usual_gap_ms()
    if (
        not usual_ms
        or facts.until_ms - until_ms < max(_STILL_GAPS * usual_ms, _LEAST_STILL_MS)
        or not facts.members
    ):
        return set()
    if facts.commits.gaps_in(until_ms, facts.until_ms):
        return set()
    before = facts.commits.partitions_committed(facts.since_ms, episode.began_ms)
    after = facts.commits.partitions_committed(until_ms, facts.until_ms)
    return before - after if after else set()


_LINKS: Final[tuple[Callable[[Episode, Sequence[BlamedMember], VerdictFacts], Link | None], ...]] = (
    _trigger,
    _stood_still,
    _waited_for,
    _ended,
    _cost,
    _still_wrong,
)
