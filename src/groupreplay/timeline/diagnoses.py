"""The diagnoses of a group: which cause each sign has, and which links of a chain a reader would miss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from groupreplay.state import phrases
from groupreplay.state.conditions.transaction_hanging import TransactionHanging
from groupreplay.state.events.event import Evidence
from groupreplay.state.phrases import milliseconds, safe_text
from groupreplay.timeline.broker_conclusions import set_pace_ms
from groupreplay.timeline.causes import CAUSES, Cause, cause_of
from groupreplay.timeline.chain import chain, first_step, without_cause
from groupreplay.timeline.conclusions import Conclusion, who
from groupreplay.timeline.diagnosis import BlamedMember, Link, Statement, plain
from groupreplay.timeline.episodes import MEMBER_LEFT, REBALANCES, Episode, Subject, VerdictFacts, episodes
from groupreplay.timeline.event_reading import words
from groupreplay.timeline.facts import TONES, tone_of
from groupreplay.timeline.rolling_restarts import rolling

#: What began so soon after the first record may have begun before it.
_AT_THE_BEGIN_MS: Final = 10_000
#: Signs that say less where no prober asked.
_UNSEEN: Final = REBALANCES | {"rebalance.suspected", MEMBER_LEFT}
#: What begins or ends so long before or after an episode may belong to it.
_SLACK_MS: Final = 60_000


def gaps(
    episode: Episode, cause: Cause | None, links: Sequence[Link], facts: VerdictFacts
) -> tuple[str, ...]:
    """What a reader would miss in the chain, and why it is not there."""
    return tuple(_gaps(episode, cause, {one.kind for one in links}, facts))


def _gaps(episode: Episode, cause: Cause | None, kinds: set[str], facts: VerdictFacts) -> Iterator[str]:
    if cause is None:
        yield _no_cause(episode, facts)
    if episode.sign in REBALANCES and "trigger" not in kinds:
        yield "What began the rebalance is not known."
    if cause is not None and cause.name == "crash_loop" and episode.sign == "static.crash_loop":
        yield "The log does not show whether one process restarts, or several share the instance id."
    if cause is not None and cause.name == "hanging_transaction":
        yield from _of_transaction(episode)
    if facts.begins_inside and episode.began_ms <= facts.since_ms + _AT_THE_BEGIN_MS:
        yield "It had begun when the records begin: what was before is not known."
    if facts.group_type == "classic" and not facts.probed and episode.sign in _UNSEEN:
        yield "No prober asked the brokers: a rebalance is seen when it has ended, and not whom it waited for."
    yield from _assumptions(episode.event.data)


def _of_transaction(episode: Episode) -> Iterator[str]:
    who, is_open = TransactionHanging.who(episode.event.data), episode.until_ms is None
    lives = ": the log does not show whether it lives" if is_open else ""
    yield f"Why {who} {'has not ended' if is_open else 'did not end'} its transaction is not known{lives}."
    if is_open and episode.event.text("evidence") == Evidence.PROBE.value:
        yield "The prober sees later transactions of the same partition only when this one has ended."


def _no_cause(episode: Episode, facts: VerdictFacts) -> str:
    note = episode.event.text("suspects_note")
    if note:
        return f"The cause is not known: {safe_text(note)}."
    if episode.sign == MEMBER_LEFT:
        left = [words(one.get("reason")).replace("_", " ") for one in episode.event.mappings("candidates")]
        return f"The cause is not known: the recorded times leave {' or '.join(left) or 'every reason'}."
    pace_ms = set_pace_ms(facts)
    if episode.sign == "offsets.set" and pace_ms is not None:
        return f"No cause is stated: something sets the offsets every {milliseconds(pace_ms)}, as mirroring tools do."
    if episode.sign == "commits.paused":
        return _nothing_committed(episode, facts)
    return "The cause is not known: no record and no answer of the brokers shows it."


def _nothing_committed(episode: Episode, facts: VerdictFacts) -> str:
    cost = episode.cost(facts)
    if cost is not None and cost.added_least > 0:
        return "The cause is not known: the topic had new records."
    if cost is not None and cost.added_most == cost.lag_peak == cost.lag_unknown == 0:
        return "No cause is stated: no record waited."
    return "The cause is not known: the log does not show whether the topic had new records."


def _assumptions(data: Mapping[str, Any]) -> Iterator[str]:
    if assumed := phrases.assumed(data):
        yield f"It rests on numbers that neither the log nor a broker has given: {assumed.removeprefix(', assumed: ')}."


@dataclass(frozen=True, slots=True)
class _Diagnosed:
    """An episode with its cause; ``tone``: the worst of it and of all that it explains."""

    episode: Episode
    cause: Cause | None
    conclusion: Conclusion | None
    explained: tuple[Episode, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnoses:
    """The episodes of a group by their subjects; those that another one explains have no sentence of their own."""

    facts: VerdictFacts
    by_subject: dict[Subject, _Diagnosed]
    explained: frozenset[Subject]

    @classmethod
    def of(cls, facts: VerdictFacts) -> Diagnoses:
        """Everything that the facts show, in the order of the causes: what explains most comes first."""
        concluded = [(episode, *(cause_of(episode, facts) or (None, None))) for episode in episodes(facts)]
        order = {id(cause): number for number, cause in enumerate(CAUSES)}
        concluded.sort(key=lambda one: order.get(id(one[1]), len(order)))
        kept: dict[Subject, _Diagnosed] = {}
        explained: set[Subject] = set()
        for episode, cause, conclusion in concluded:
            if episode.subject in explained:
                continue
            others = [
                other
                for other, _, _ in concluded
                if cause is not None
                and conclusion is not None
                and other.subject not in kept
                and other.subject not in explained
                and other.subject != episode.subject
                and _explains(cause, conclusion, episode, other, facts)
            ]
            explained.update(other.subject for other in others)
            kept[episode.subject] = _Diagnosed(episode, cause, conclusion, tuple(others))
        return cls(facts, kept, frozenset(explained))

    def is_explained(self, subject: Subject) -> bool:
        """Whether the cause of another episode explains it."""
        return subject in self.explained

    def cause_name(self, subject: Subject) -> str:
        """The name of its cause; empty: none is known."""
        diagnosed = self.by_subject.get(subject)
        return diagnosed.cause.name if diagnosed and diagnosed.cause else ""

    def blamed(self, subject: Subject) -> tuple[BlamedMember, ...]:
        """The members that its cause is about."""
        diagnosed = self.by_subject.get(subject)
        return diagnosed.conclusion.members if diagnosed and diagnosed.conclusion else ()

    def explain(self, statement: Statement, subjects: Sequence[Subject]) -> Statement:
        """The sentence with the diagnosis of the first of these, and the members of all of them."""
        diagnosed = [self.by_subject[subject] for subject in subjects if subject in self.by_subject]
        if not diagnosed:
            return statement
        main, facts = diagnosed[0], self.facts
        severities = [other.severity for one in diagnosed for other in one.explained]
        tone = max([statement.tone, *map(tone_of, severities)], key=TONES.index)
        if main.cause is None or main.conclusion is None:
            links = without_cause(main.episode, facts)
            return replace(statement, tone=tone, links=links, gaps=gaps(main.episode, None, links, facts))
        conclusion = _joined([one.conclusion for one in diagnosed if one.conclusion is not None])
        step = first_step(main.cause, conclusion, main.episode, facts)
        links = chain(main.episode, conclusion, step, facts)
        return replace(
            statement,
            tone=tone,
            cause=main.cause.name,
            blamed=conclusion.members,
            links=links,
            gaps=gaps(main.episode, main.cause, links, facts),
            first=step,
        )


def _joined(conclusions: Sequence[Conclusion]) -> Conclusion:
    """The first one, about the members of all of them."""
    first = conclusions[0]
    members = dict[str, BlamedMember]()
    for one in conclusions:
        for member in one.members:
            # The first one of its name: the chain is about what that one held.
            members.setdefault(member.name, member)
    others = [member for name, member in members.items() if name not in {one.name for one in first.members}]
    same = (f"; the same of {who(others)}",) if others else ()
    events = (name for one in conclusions for name in one.evidence.events)
    return replace(
        first,
        parts=(*first.parts, *same),
        members=tuple(members.values()),
        evidence=replace(first.evidence, events=tuple(dict.fromkeys(events))),
    )


def _explains(
    cause: Cause, conclusion: Conclusion, episode: Episode, other: Episode, facts: VerdictFacts
) -> bool:
    """Whether the cause of an episode is that of another one: at the same time, and about the same members."""
    if other.sign not in cause.explains or not episode.meets(other, facts, _SLACK_MS):
        return False
    names = {member.name for member in conclusion.members}
    others = {member.name for member in other.members}
    return not others or not names or bool(names & others)


def rolling_restarts(facts: VerdictFacts) -> Iterator[Statement]:
    """The times in which nearly all members were restarted one after another: they look like trouble, and are none."""
    for restart in rolling(facts.slots):
        parts = (
            "Rolling restart ",
            restart.since_ms,
            " to ",
            restart.until_ms,
            f": {len(restart.restarts)} members were restarted one after another.",
        )
        yield Statement(
            tone="info",
            text=plain(parts, facts.window),
            parts=parts,
            since_ms=restart.since_ms,
            until_ms=restart.until_ms,
        )
