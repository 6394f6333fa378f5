"""The sums of causes outside of the members: the coordinator, commits that stop, offsets that others changed."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from groupreplay.state import phrases
from groupreplay.state.conditions.transaction_hanging import TransactionHanging
from groupreplay.state.phrases import counted, milliseconds, safe_text
from groupreplay.timeline.conclusions import Conclusion, Sum, who
from groupreplay.timeline.diagnosis import Certainty, certainty_of, evidence_of
from groupreplay.timeline.episodes import Episode, VerdictFacts

#: A coordinator that moved so long before something began may have caused it.
_MOVE_MS: Final = 60_000
#: The share of commits that repeat an offset from which on clients commit whether they have read something or not.
_REPEATS: Final = 0.05
_LEAST_COMMITS: Final = 20


def coordinator_moved(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """Another broker became the coordinator when it began."""
    for before, after in pairwise(facts.coordinators):
        is_near = (
            episode.began_ms - _MOVE_MS <= after.since_ms and after.earliest_ms <= episode.since_ms + _MOVE_MS
        )
        if before.broker != after.broker and is_near:
            error = "" if after.error is None else f", which answered: {safe_text(after.error)}"
            return Conclusion(
                parts=(
                    f"The coordinator of the group moved from broker {before.broker} to {after.broker} between ",
                    after.earliest_ms,
                    " and ",
                    after.since_ms,
                    error,
                ),
                certainty="inferred",
                how="two rounds of the prober show another leader of the group's partition, and it began then",
                evidence=evidence_of([episode.event], [after.earliest_ms, after.since_ms]),
            )
    return None


def coordinator_is_away(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """The coordinator did not answer for most of the time."""
    ends = [seen.earliest_ms for seen in facts.coordinators[1:]] + [facts.until_ms]
    for seen, end_ms in zip(facts.coordinators, ends, strict=False):
        overlap_ms = min(end_ms, episode.end_ms(facts)) - max(seen.since_ms, episode.began_ms)
        if seen.error is not None and 2 * overlap_ms >= episode.end_ms(facts) - episode.began_ms:
            return Conclusion(
                parts=(
                    f"Broker {seen.broker}, the coordinator of the group, did not answer from ",
                    seen.since_ms,
                    f" on: {safe_text(seen.error)}",
                ),
                certainty="inferred",
                how="the prober got no answer either, for most of this time",
                evidence=evidence_of([episode.event], [seen.since_ms]),
            )
    return None


def transaction_is_open(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """A producer committed offsets of the group in a transaction and did not end it, or not for long."""
    event = episode.event
    is_over = episode.until_ms is not None
    lasted = milliseconds(episode.end_ms(facts) - episode.since_ms)
    left = f" and did not end it for {lasted}" if is_over else " and has not ended it"
    return Conclusion(
        parts=(
            f"{TransactionHanging.who(event.data).capitalize()} began a transaction at ",
            episode.since_ms,
            f"{left}: {TransactionHanging.held(event.data, is_over=is_over)}",
        ),
        certainty=certainty_of(event),
        evidence=evidence_of([event]),
    )


def nobody_commits(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """Clients that commit also when they have read nothing do not commit any more."""
    total, repeats = len(facts.commits.at_ms), facts.commits.repeats
    if total < _LEAST_COMMITS or repeats < _REPEATS * total:
        return None
    return Conclusion(
        parts=(
            "Nobody in the group commits: all its consumers have stopped working, or cannot reach the coordinator",
        ),
        certainty="inferred",
        how=f"{repeats} of {counted(total, 'commit')} repeat an offset: these clients commit also without new records, "
        "so a quiet topic does not explain it",
        evidence=evidence_of([episode.event]),
    )


def says(text: str, how: str = "", certainty: Certainty | None = None) -> Sum:
    """A sign that is its own cause."""

    def concludes(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
        event = episode.event
        return Conclusion(
            parts=(
                text.format(who=who(episode.members), place=phrases.subject(event.data))
                + phrases.requested_by(event.data),
            ),
            members=episode.members if "{who}" in text else (),
            certainty=certainty or certainty_of(event),
            how=how + (phrases.expiry(event.data).removeprefix("; ") if event.text("rule") else ""),
            evidence=evidence_of([event]),
        )

    return concludes


def set_by_hand(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """Offsets that were set, but not at a steady pace: a mirroring tool does that."""
    if set_pace_ms(facts) is not None:
        return None
    return says("Somebody set the committed offsets while the group had no members")(episode, facts)


def set_pace_ms(facts: VerdictFacts) -> int | None:
    """The pace at which offsets are set again and again; None: they are not."""
    paces = [event.number("interval_ms") for event in facts.events if event.name == "offsets.set"]
    return next((pace_ms for pace_ms in paces if pace_ms is not None), None)


_DELETIONS: Final = {
    "group_deleted": "The group was deleted, and its offsets with it",
    "topic_deleted": "The topic was deleted, and the offsets with it",
    "admin": "Somebody deleted the offsets with a request",
    "unknown": "The offsets were deleted: with their topic, or by a request",
}


def deleted(episode: Episode, facts: VerdictFacts) -> Conclusion | None:
    """Offsets that were removed before the end of their retention."""
    text = _DELETIONS.get(episode.event.text("reason"))
    return None if text is None else says(text)(episode, facts)
