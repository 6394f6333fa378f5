"""Advice on the rebalance protocol: partitions that stood still although they kept their owner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from groupreplay.state.phrases import counted
from groupreplay.timeline.advice.evidence import added, finding, middle
from groupreplay.timeline.advice.finding import Effect, Finding, Kind
from groupreplay.timeline.advice.inputs import AdviceInput

#: Fewer rebalances are no habit.
_LEAST_REBALANCES: Final = 4
_TIMES: Final = (
    "the lengths of these rebalances for each partition that kept its owner, at least; the times since the last commit "
    "of each partition whose owner stayed in the group, at most, because an incremental assignor moves fewer"
)
_STOPS: Final = (
    "stops of partitions that kept their owner, at least; of those whose owner stayed in the group, at most"
)


def incremental_rebalances(history: AdviceInput) -> Iterator[Finding]:
    """Eager rebalances: all partitions stood still, also those that stayed where they were (KIP-429, KIP-848)."""
    eager = [
        rebalance
        for rebalance in history.rebalances
        if rebalance.is_eager and rebalance.held and rebalance.at_ms >= history.complete_ms
    ]
    if len(eager) < _LEAST_REBALANCES or not eager[-1].event.text("protocol"):
        return
    kept, held = sum(each.kept for each in eager), sum(each.held for each in eager)
    bounds = added(each.held_ms for each in eager)
    if not kept:
        return
    yield finding(
        history,
        Kind.INCREMENTAL_REBALANCES,
        f"{counted(len(eager), 'rebalance')} with the eager assignor {eager[-1].event.text('protocol')} stopped "
        f"partitions of members that stayed {counted(held, 'time')}; {kept} times the partition kept its owner",
        (
            "partition.assignment.strategy",
            "cooperative-sticky, in two rolling restarts; or group.protocol=consumer",
        ),
        [
            Effect(measure="partition_stopped_ms", least=bounds[0], most=bounds[1], how=_TIMES),
            Effect(measure="partition_stops", least=kept, most=held, how=_STOPS),
        ],
        (each.event for each in eager),
        order_ms=middle(bounds) // max(each.held for each in eager),
    )
