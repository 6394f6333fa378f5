"""The diagnoses of a group: which cause each sign has, and which signs are explained by the cause of another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from groupreplay.timeline.causes import CAUSES, Cause, cause_of
from groupreplay.timeline.chain import chain, first_step, without_cause
from groupreplay.timeline.chain_gaps import gaps
from groupreplay.timeline.conclusions import Conclusion, who
from groupreplay.timeline.diagnosis import BlamedMember, Statement, plain
from groupreplay.timeline.episodes import Episode, Subject, VerdictFacts, episodes
from groupreplay.timeline.facts import TONES, tone_of
from groupreplay.timeline.rolling_restarts import rolling

#: What begins or ends so long before or after an episode may belong to it.
_SLACK_MS: Final = 60_000


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
    members = {member.name: member for one in conclusions for member in one.members}
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
