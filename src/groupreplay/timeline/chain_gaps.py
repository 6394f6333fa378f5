"""The links that a reader would miss in a chain, and why they are not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from groupreplay.state import phrases
from groupreplay.state.conditions.transaction_hanging import TransactionHanging
from groupreplay.state.events.event import Evidence
from groupreplay.state.phrases import milliseconds, safe_text
from groupreplay.timeline.broker_conclusions import set_pace_ms
from groupreplay.timeline.causes import Cause
from groupreplay.timeline.chain import REBALANCES
from groupreplay.timeline.diagnosis import Link
from groupreplay.timeline.episodes import MEMBER_LEFT, Episode, VerdictFacts
from groupreplay.timeline.event_reading import words

#: What began so soon after the first record may have begun before it.
_AT_THE_BEGIN_MS: Final = 10_000
#: Signs that say less where no prober asked.
_UNSEEN: Final = REBALANCES | {"rebalance.suspected", MEMBER_LEFT}


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
