"""How much longer rebalances would have waited for a member that is away or at work, had it still been in the group.

An eager group stands still until each member has joined, or is removed. So what spares the rebalances of a member may
make those wait that others begin meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

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


@dataclass(frozen=True, slots=True)
class Wait:
    """How much longer rebalances would have waited for a member; ``likely_ms`` is within ``bounds_ms``."""

    bounds_ms: tuple[int, int]
    likely_ms: tuple[int, int]


def lengths_ms(rebalance: Rebalance) -> tuple[tuple[int, int], tuple[int, int]]:
    """How long before its end a rebalance began: at least and at most, then the same as it likely was."""
    bounds, likely = (least_ms_of(rebalance), longest_ms_of(rebalance)), rebalance.likely_ms
    return bounds, bounds if likely is None else (round(likely.least), round(likely.most))


def waits_for_absent(
    history: AdviceInput, absences: Sequence[Away], spared: Iterable[Rebalance], limits: Mapping[str, int]
) -> list[Wait]:
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
    untils: list[Wait]

    @property
    def until_ms(self) -> int:
        return max(until.bounds_ms[1] for until in self.untils)

    def wait(self) -> Wait:
        """What it would have lasted beyond the first one, less the stops that there were all the same."""
        stops = [lengths_ms(each) for each in self.rest]
        bounds, likely = (
            (
                max(max(until[0] for until in untils) - self.first.at_ms - sum(stop[1] for stop in lost), 0),
                max(max(until[1] for until in untils) - self.first.at_ms - sum(stop[0] for stop in lost), 0),
            )
            for untils, lost in (
                ([until.bounds_ms for until in self.untils], [stop[0] for stop in stops]),
                ([until.likely_ms for until in self.untils], [stop[1] for stop in stops]),
            )
        )
        return Wait(bounds, likely)


def _until_ms(away: Away, came: Rebalance, session_ms: int) -> Wait:
    """When a member that was away had joined, or its session had ended; as times."""
    bounds, likely = lengths_ms(came)
    sent_ms = came.at_ms - bounds[0] - away.most_ms, came.at_ms - bounds[1] - away.least_ms
    (least, most), (likely_least, likely_most) = (
        [
            min(came.at_ms - length_ms, end_ms + session_ms)
            for length_ms, end_ms in zip(lengths[::-1], sent_ms, strict=True)
        ]
        for lengths in (bounds, likely)
    )
    return Wait((least, most), (likely_least, likely_most))


def waiting_longer(effects: Sequence[Effect], waits: Sequence[Wait], until: str) -> list[Effect]:
    """The effects on rebalances and on the standstill, less the times for which the group would have waited.

    ``until``: when the waiting would have ended, in words.
    """
    if not waits:
        return [*effects]
    stop = next(iter(effects[1:]), NO_STOP)
    least, most = (sum(wait.bounds_ms[end] for wait in waits) for end in (0, 1))
    likely_least, likely_most = (sum(wait.likely_ms[end] for wait in waits) for end in (0, 1))
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
