"""How long members were away that came back in their place, and how likely that was within a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from groupreplay.timeline.advice.evidence import Saving
from groupreplay.timeline.advice.inputs import AdviceInput
from groupreplay.timeline.advice.rebalances import Rebalance
from groupreplay.timeline.likely import HEARTBEAT_MS, Part
from groupreplay.timeline.rolling_restarts import Restart

#: Why a member left that has said so itself.
_OF_ITS_OWN: Final = frozenset({"left", "poll_timeout"})
#: What the requests of a join phase need beside the heartbeats.
_REQUESTS_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Away:
    """A restart with the bounds of the time between the last sign of the old process and the join of the new one.

    ``likely_ms``: that time, inferred; None: it cannot be. ``joins_ms``: how long a rebalance that nobody waits in
    likely takes, in which the member would be back as well. ``is_waited_for``: the join began a rebalance that likely
    waited for the end of the old session.
    """

    restart: Restart
    least_ms: int
    most_ms: int
    likely_ms: Part | None = None
    joins_ms: float = 0
    is_waited_for: bool = False

    def chances(self, session_ms: int) -> tuple[float, float] | None:
        """How likely a session of this length saves the rebalances of the departure and of the return; None: unknown.

        One that is back in the rebalance that the end of its session has begun makes no second one.
        """
        if self.is_waited_for:
            return 1.0, 1.0
        if self.likely_ms is None:
            return None
        return self.likely_ms.chance_below(session_ms), self.likely_ms.chance_below(
            session_ms + self.joins_ms
        )


def within(history: AdviceInput, candidates: Sequence[Restart]) -> list[Restart]:
    """Those in the time that findings are about."""
    return [restart for restart in candidates if restart.at_ms >= history.complete_ms]


def aways(history: AdviceInput, candidates: Sequence[Restart]) -> list[Away]:
    """The bounds by the rebalances in which the members went and came, and by why the old one went."""
    by_time = {rebalance.at_ms: rebalance for rebalance in history.rebalances}
    left = {event.text("member_id"): event for event in history.named("member.left")}
    beat_ms, made = history.session.heartbeat_ms, []
    for restart in candidates:
        gone_ms = restart.before.until_ms
        assert gone_ms is not None
        came, went = by_time.get(restart.at_ms), by_time.get(gone_ms)
        joined_ms = restart.at_ms - longest_ms_of(came), restart.at_ms - least_ms_of(came)
        sent_ms = gone_ms - longest_ms_of(went), gone_ms
        if restart.before.reason not in _OF_ITS_OWN:
            # It may have been silent for a whole session before the broker removed it.
            event = left.get(restart.before.member_id)
            elapsed_ms = None if event is None else event.number("elapsed_ms")
            session_ms = history.session_ms(restart.before.member_id) or history.session.timeout_ms
            longest_ms = max(elapsed_ms or 0, session_ms + longest_ms_of(went))
            if came is went and came is not None and came.flag.least_ms > 2 * beat_ms:
                # The rebalance began with the join and waited for the end of the old session.
                longest_ms = session_ms + (came.flag.sync_ms or 0)
            is_sure = restart.before.reason == "session_timeout" or came is went
            sent_ms = gone_ms - longest_ms, gone_ms - (session_ms if is_sure else 0)
        made.append(
            Away(
                restart,
                max(joined_ms[0] - sent_ms[1], 0),
                max(joined_ms[1] - sent_ms[0], 0),
                likely_ms=_likely_ms(history, restart, came, went),
                joins_ms=0 if came is None else beat_ms * came.stayed / (came.stayed + 1),
                is_waited_for=came is went and _has_waited(came),
            )
        )
    return made


def _likely_ms(
    history: AdviceInput, restart: Restart, came: Rebalance | None, went: Rebalance | None
) -> Part | None:
    """How long a member was away, inferred from when both rebalances began; None: it cannot be.

    The last sign of a process that said so itself is its heartbeat before; of another one it was a session before.
    """
    if came is None or went is None or came is went or came.began_ms is None or went.began_ms is None:
        return None
    between_ms = Part.evenly(*came.began_ms) - Part.evenly(*went.began_ms)
    if restart.before.reason in _OF_ITS_OWN:
        return between_ms - Part.evenly(-history.session.heartbeat_ms, 0)
    session_ms = history.session_ms(restart.before.member_id)
    if restart.before.reason != "session_timeout" or session_ms is None:
        return None
    return between_ms - Part.evenly(-session_ms, -session_ms)


def _has_waited(rebalance: Rebalance | None) -> bool:
    """Whether it likely took longer than the members that stayed needed to learn of it."""
    if rebalance is None or rebalance.began_ms is None:
        return False
    joining_ms = rebalance.at_ms - rebalance.began_ms[1] - (rebalance.flag.sync_ms or 0)
    return joining_ms > HEARTBEAT_MS + _REQUESTS_MS


def savings(
    rebalances: Sequence[Rebalance],
    surely: Sequence[Rebalance],
    absences: Sequence[Away],
    limits: Mapping[str, int],
) -> list[Saving]:
    """Rebalances that these restarts made, each with the chance that a session of this length had saved it.

    ``surely``: those of which it is proven. ``limits``: the sessions, by the id of the member that went.
    """
    # A member that came back may go again.
    chances = {away.restart: away.chances(limits[away.restart.before.member_id]) for away in absences}
    by_went = {restart.before.member_id: (restart, of_it and of_it[0]) for restart, of_it in chances.items()}
    by_came = {restart.after.member_id: (restart, of_it and of_it[1]) for restart, of_it in chances.items()}
    sure_ms, made = {each.at_ms for each in surely}, list[Saving]()
    for rebalance in rebalances:
        causes = [
            *(by_went.get(member_id) for member_id in rebalance.went),
            *(by_came.get(member_id) for member_id in rebalance.came),
        ]
        pairs = [
            (cause[1], cause[0].before.member_id)
            for cause in causes
            if cause is not None and cause[1] is not None
        ]
        if rebalance.at_ms in sure_ms:
            made.append(Saving(rebalance))
        elif not causes and made:
            # The second half of a cooperative one.
            made.append(replace(made[-1], rebalance=rebalance))
        elif len(pairs) < len(causes) or not pairs:
            made.append(Saving(rebalance, None))
        else:
            made.append(Saving(rebalance, *min(pairs)))
    return made


def longest_ms_of(rebalance: Rebalance | None) -> int:
    """How long before its end a rebalance began, at most.

    Members learn of it with their next heartbeat, and the first one to learn commits no more when it rejoins.
    """
    if rebalance is None or rebalance.flag.most_ms is None:
        return 0
    tight_ms = rebalance.flag.most_ms if rebalance.most_ms is None else rebalance.most_ms + HEARTBEAT_MS
    return min(rebalance.flag.most_ms, tight_ms)


def least_ms_of(rebalance: Rebalance | None) -> int:
    """How long before its end a rebalance began, at least."""
    return 0 if rebalance is None else rebalance.flag.least_ms
