"""How a finding is made from what shows it, and how ranges are added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from groupreplay.state.phrases import counted, milliseconds
from groupreplay.timeline.advice.finding import NEEDED_MS, Effect, Finding, Kind, Measure
from groupreplay.timeline.advice.inputs import AdviceInput
from groupreplay.timeline.advice.rebalances import Rebalance
from groupreplay.timeline.event_reading import ReadEvent
from groupreplay.timeline.likely import HEARTBEAT_MS, LikelySum, Part, likely_count, likely_sum, together

_LENGTHS: Final = (
    "the lengths of these rebalances: at least what records and answers of the brokers prove, at most the time since "
    "the group's last record, or since the oldest of the last commits of its partitions, and one heartbeat interval "
    "more where a member came"
)
_LIKELY_COUNT: Final = (
    "likely by how long each member was away between the begins of its two rebalances, which the commits before joins "
    "show: 98 of 100 such counts are within the range"
)
#: Ids of events in a finding.
_MOST_EVENTS: Final = 20


def finding(
    history: AdviceInput,
    kind: Kind,
    text: str,
    change: tuple[str, str],
    effects: Sequence[Effect],
    events: Iterable[ReadEvent],
    *,
    order_ms: int = 0,
    assumed: Mapping[str, int] | None = None,
) -> Finding:
    """A finding about the whole span of a history; ``change``: the setting and its value."""
    ids = list(dict.fromkeys(event.id for event in events))
    since_ms, until_ms = history.span
    return Finding(
        id=f"{kind.value}:{history.group_id}",
        kind=kind,
        group_id=history.group_id,
        text=text,
        setting=change[0],
        value=change[1],
        since_ms=since_ms,
        until_ms=until_ms - 1,
        effects=tuple(effects),
        evidence=tuple(ids[:_MOST_EVENTS]),
        events=len(ids),
        needs_ms=NEEDED_MS[kind],
        unless=kind.page,
        order_ms=order_ms,
        assumed=assumed or {},
    )


def added(ranges: Iterable[tuple[int, int | None]]) -> tuple[int, int | None]:
    """The sum of ranges; without a bound if one of them has none."""
    least, most = 0, 0
    is_bounded = True
    for low, high in ranges:
        least += low
        most += high or 0
        is_bounded &= high is not None
    return least, most if is_bounded else None


def middle(bounds: tuple[int, int | None]) -> int:
    """The middle of a range; without an upper bound the lower one."""
    least, most = bounds
    return least if most is None else (least + most) // 2


def ordering(effects: Iterable[Effect], measure: Measure = "stopped_ms") -> int:
    """The middle of the likely range of an effect, or of its bounds; 0: there is no such effect."""
    for each in effects:
        if each.measure == measure and each.likely_least is not None:
            return middle((each.likely_least, each.likely_most))
        if each.measure == measure:
            return middle((each.least, each.most))
    return 0


def stopped(rebalances: Iterable[Rebalance]) -> tuple[int, int | None]:
    """How long the group stood still in these rebalances."""
    return added(rebalance.stopped_ms for rebalance in rebalances)


@dataclass(frozen=True, slots=True)
class Saving:
    """A rebalance that a setting would have saved by a chance; None: it is not known.

    Those of one ``unit`` depend: one with a lower chance is never saved without one with a higher chance.
    """

    rebalance: Rebalance
    chance: float | None = 1.0
    unit: str = ""


def sure_savings(perhaps: Sequence[Rebalance], surely: Iterable[Rebalance]) -> list[Saving]:
    """Rebalances of which some would surely have been saved; of the others nobody knows."""
    sure_ms = {rebalance.at_ms for rebalance in surely}
    return [Saving(each, 1.0 if each.at_ms in sure_ms else None) for each in perhaps]


def _units(savings: Iterable[Saving]) -> list[list[Saving]]:
    """Those that depend, together; those of no unit alone."""
    units = dict[str, list[Saving]]()
    for number, each in enumerate(savings):
        units.setdefault(each.unit or str(number), []).append(each)
    return [*units.values()]


def rebalance_effect(
    bounds: tuple[int, int], how: str, savings: Sequence[Saving], why: str = _LIKELY_COUNT
) -> Effect:
    """How many rebalances would have been saved; ``why``: what makes some of them likely."""
    unknown = sum(each.chance is None for each in savings)
    known = [[each.chance for each in unit if each.chance is not None] for unit in _units(savings)]
    effect = Effect(measure="rebalances", least=bounds[0], most=bounds[1], how=how)
    likely = likely_count(known, [(0, unknown)], bounds)
    if likely == bounds:
        return effect
    return structs.replace(effect, likely_least=likely[0], likely_most=likely[1], how=f"{how}; {why}")


def stop_effects(bounds: tuple[int, int | None], savings: Sequence[Saving]) -> list[Effect]:
    """The time that the whole group would not have stood still; none where it never does."""
    if bounds == (0, 0):
        return []
    effect = Effect(measure="stopped_ms", least=bounds[0], most=bounds[1], how=_LENGTHS)
    likely = likely_stop(savings, bounds)
    return [effect if likely is None else likely_effect(effect, likely, _of_begins(savings))]


def saved_effects(
    least: Sequence[Rebalance],
    most: Sequence[Rebalance],
    how: str,
    savings: Sequence[Saving],
    why: str = _LIKELY_COUNT,
) -> list[Effect]:
    """Both effects of a setting that would have saved these rebalances, at least and at most."""
    return [
        rebalance_effect((len(least), len(most)), how, savings, why),
        *stop_effects((stopped(least)[0], stopped(most)[1]), savings),
    ]


def exactly(measure: Measure, number: int, how: str) -> Effect:
    """An effect of which no bound differs from the other."""
    return Effect(measure=measure, least=number, most=number, how=how)


def likely_effect(effect: Effect, likely: LikelySum, how: str) -> Effect:
    """The effect with its likely range, and its sum in words."""
    text = (
        f"{effect.how}; likely, {how}: {milliseconds(likely.mean)} in all, with a standard deviation of "
        f"{milliseconds(likely.deviation)}; 98 of 100 such sums are within the range"
    )
    return structs.replace(effect, likely_least=likely.least, likely_most=likely.most, how=text)


def likely_stop(savings: Sequence[Saving], bounds: tuple[int, int | None]) -> LikelySum | None:
    """How long the group likely stood still; None: when these rebalances began cannot be inferred."""
    parts, rest = list[Part](), list[tuple[int, int | None]]()
    for unit in _units(each for each in savings if each.rebalance.is_eager):
        lengths, chances = list[Part](), list[float]()
        for each in unit:
            length, (least_ms, most_ms) = each.rebalance.likely_ms, each.rebalance.stopped_ms
            if each.chance == 0 or most_ms == 0:
                continue
            if length is None:
                rest.append((least_ms if each.chance == 1 else 0, most_ms))
            elif each.chance is None:
                rest.append((0, round(length.most)))
            else:
                lengths.append(length)
                chances.append(each.chance)
        parts += [together(lengths, chances)] if lengths else []
    return likely_sum(parts, rest, bounds)


def _of_begins(savings: Sequence[Saving]) -> str:
    stops = [each for each in savings if each.rebalance.is_eager and each.rebalance.most_ms != 0]
    known = sum(each.rebalance.likely_ms is not None for each in stops)
    rest = "" if known == len(stops) else "; the others count with their bounds"
    return (
        f"for {known} of {counted(len(stops), 'stop')}, each of which began at any moment from one heartbeat interval "
        "before the last join of a member that stayed to the first one, by the commits that members make before they "
        f"join{rest}"
    )


def begin_assumed(savings: Iterable[Saving]) -> dict[str, int]:
    """What the bounds of stops and their likely lengths rest on, and no record has."""
    has_stops = any(each.rebalance.is_eager and each.rebalance.most_ms != 0 for each in savings)
    return {"heartbeat_interval_ms": HEARTBEAT_MS} if has_stops else {}
