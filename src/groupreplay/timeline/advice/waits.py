"""How much longer rebalances would have waited for a member that is away or at work, had it still been in the group.

An eager group stands still until each member has joined, or is removed. So what spares the rebalances of a member may
make those wait that others begin meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec import structs

from groupreplay.state.phrases import counted
from groupreplay.timeline.advice.aways import Away, least_ms_of, longest_ms_of
from groupreplay.timeline.advice.finding import Effect
from groupreplay.timeline.advice.inputs import AdviceInput
from groupreplay.timeline.advice.rebalances import Rebalance

NO_STOP: Final = Effect(
    measure="stopped_ms", least=0, most=0, likely_least=0, likely_most=0, how="no stop would have been saved"
)
#: When a rebalance ends that waits for a member that is away.
BACK: Final = "a member that was away had come back, or its session had ended"


#: At least, and at most.
Span = tuple[int, int]


class Spans(NamedTuple):
    """A time as records bound it, and as it likely was."""

    bounds_ms: Span
    likely_ms: Span


def lengths_ms(rebalance: Rebalance) -> Spans:
    """How long before its end a rebalance began."""
    bounds, likely = (least_ms_of(rebalance), longest_ms_of(rebalance)), rebalance.likely_ms
    return Spans(bounds, bounds if likely is None else (round(likely.least), round(likely.most)))


def left_over(span: Span, taken: Span) -> Span:
    """A span less another one, not below zero."""
    return max(span[0] - taken[1], 0), max(span[1] - taken[0], 0)


def _total(spans: Sequence[Span]) -> Span:
    return sum(least for least, _ in spans), sum(most for _, most in spans)


def waits_for_absent(
    history: AdviceInput, absences: Sequence[Away], spared: Iterable[Rebalance], limits: Mapping[str, int]
) -> list[Spans]:
    """Of rebalances that a join of another member began while a member was away that would not have left the group.

    They would have waited until it was back, or its session had ended. ``spared``: rebalances that there would not have
    been. ``limits``: the sessions, by the id of the member that went.
    """
    spared_ms, by_time = {each.at_ms for each in spared}, {each.at_ms: each for each in history.rebalances}
    back = {each.restart.after.member_id for each in absences if each.restart.at_ms in spared_ms}
    ends = [
        (away.restart.before.until_ms or 0, _until_ms(away, came, limits[away.restart.before.member_id]))
        for away in absences
        if (came := by_time.get(away.restart.at_ms)) is not None
    ]
    chains = list[_Chain]()
    for each in history.rebalances:
        is_begun = (
            each.at_ms >= history.complete_ms and each.at_ms not in spared_ms and bool(each.came - back)
        )
        mine = [until for gone_ms, until in ends if gone_ms <= each.at_ms < until.bounds_ms[1]]
        if not is_begun or not mine or not each.stopped_ms[1]:
            continue
        if chains and each.at_ms < chains[-1].until_ms:
            chains[-1].rest.append(each)
        else:
            chains.append(_Chain(each, [], []))
        chains[-1].untils += mine
    return [chain.wait() for chain in chains]


@dataclass(slots=True)
class _Chain:
    """Rebalances that would have been one, which waits for the last of these times."""

    first: Rebalance
    rest: list[Rebalance]
    untils: list[Spans]

    @property
    def until_ms(self) -> int:
        return max(until.bounds_ms[1] for until in self.untils)

    def wait(self) -> Spans:
        """What it would have lasted beyond the first one, less the stops that there were all the same."""
        stops = [lengths_ms(each) for each in self.rest]
        bounds, likely = (
            self._beyond([until[kind] for until in self.untils], [stop[kind] for stop in stops])
            for kind in range(2)
        )
        return Spans(bounds, likely)

    def _beyond(self, untils: Sequence[Span], stops: Sequence[Span]) -> Span:
        least, most = (max(until[end] for until in untils) - self.first.at_ms for end in range(2))
        return left_over((least, most), _total(stops))


def _until_ms(away: Away, came: Rebalance, session_ms: int) -> Spans:
    """When a member that was away had joined, or its session had ended."""
    lengths = lengths_ms(came)
    first_ms = came.at_ms - lengths.bounds_ms[0] - away.most_ms + session_ms
    last_ms = came.at_ms - lengths.bounds_ms[1] - away.least_ms + session_ms
    bounds, likely = (
        (min(came.at_ms - most, first_ms), min(came.at_ms - least, last_ms)) for least, most in lengths
    )
    return Spans(bounds, likely)


def waiting_longer(effects: Sequence[Effect], waits: Sequence[Spans], until: str) -> list[Effect]:
    """The effects on rebalances and on the standstill, less the times for which the group would have waited.

    ``until``: when the waiting would have ended, in words.
    """
    if not waits:
        return [*effects]
    stop = next(iter(effects[1:]), NO_STOP)
    least, most = _total([wait.bounds_ms for wait in waits])
    likely_least, likely_most = _total([wait.likely_ms for wait in waits])
    waited = structs.replace(
        stop,
        least=stop.least - most,
        most=None if stop.most is None else stop.most - least,
        likely_least=None if stop.likely_least is None else stop.likely_least - likely_most,
        likely_most=None if stop.likely_most is None else stop.likely_most - likely_least,
        how=f"{stop.how}; less the times for which {counted(len(waits), 'rebalance')} that others began would have "
        f"waited longer, until {until}",
    )
    return [*effects[:1], waited]
