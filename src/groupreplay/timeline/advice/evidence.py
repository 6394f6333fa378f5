"""How a finding is made from what shows it, and how ranges are added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from groupreplay.timeline.advice.finding import NEEDED_MS, Effect, Finding, Kind
from groupreplay.timeline.advice.inputs import AdviceInput, Rebalance
from groupreplay.timeline.event_reading import ReadEvent

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


def stopped(rebalances: Iterable[Rebalance]) -> tuple[int, int | None]:
    """How long the group stood still in these rebalances."""
    return added(rebalance.stopped_ms for rebalance in rebalances)


def stop_effects(bounds: tuple[int, int | None]) -> list[Effect]:
    """The time that the whole group would not have stood still; none where it never does."""
    if bounds == (0, 0):
        return []
    return [
        Effect(
            measure="stopped_ms",
            least=bounds[0],
            most=bounds[1],
            how="the lengths of these rebalances: at least what records and answers of the brokers prove, at most the "
            "time since the group's last record, or since the oldest of the last commits of its partitions",
        )
    ]
