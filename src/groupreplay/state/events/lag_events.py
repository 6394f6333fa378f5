"""Events about the backlog of groups, from commits joined with the recorded ends of partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from groupreplay.state.events.event import Fact
from groupreplay.state.phrases import Data, safe_text


@dataclass(frozen=True, slots=True, kw_only=True)
class StopCost:
    """What a stop cost. Records are summed over the partitions whose lag is known, each between its bounds."""

    since_ms: Annotated[int, Meta(description="The begin of the stop, at the earliest that is known.")]
    until_ms: int
    partitions: Annotated[int, Meta(description="Partitions whose backlog grew.")]
    added: Annotated[
        int, Meta(description="Records by which their backlog grew from the begin to the end: an estimate.")
    ]
    added_least: int
    added_most: Annotated[int | None, Meta(description="Null: no bound is known.")]
    lag_begin: Annotated[int, Meta(description="Backlog of all partitions at the begin: an estimate.")]
    lag_end: Annotated[int, Meta(description="The same at the end.")]
    lag_peak: Annotated[
        int,
        Meta(description="The highest backlog until it was caught up, at the moments of recorded ends."),
    ]
    caught_up_ms: Annotated[
        int | None,
        Meta(
            description="The first commit after which no partition was further behind than at the begin, as far as the "
            "ends recorded before it show; null: not yet."
        ),
    ]
    lag_unknown: Annotated[int, Meta(description="Partitions with commits and no known lag.")]
    text: Annotated[str, Meta(description="The cost in words.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceCost(Fact):
    """What a completed rebalance cost."""

    NAME: ClassVar[str] = "rebalance.cost"
    DOC: ClassVar[str] = (
        "Written once for each `rebalance.completed`, when the group has caught up, or an hour later. Only the job "
        "writes it, where the prober records the ends of partitions; `describe --history` and `report` compute the "
        "same from a capture. Without recorded ends there is no such event."
    )
    rebalance_id: Annotated[str, Meta(description="That of its `rebalance.completed`.")]
    generation: int
    completed_event: Annotated[str, Meta(description="The id of its `rebalance.completed`.")]
    cost: StopCost

    @classmethod
    def line(cls, data: Data) -> str:
        """The cost on one line, from the ``data`` of its event; safe to print."""
        cost = data.get("cost")
        text = cost.get("text") if isinstance(cost, dict) else None
        return f"generation {data.get('generation')}: {safe_text(str(text or '?'))}"
