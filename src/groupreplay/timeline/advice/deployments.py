"""Rolling restarts, which the history shows by itself, and what each cost the group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import Final

from groupreplay.timeline.advice.evidence import added, likely_stop, stopped, sure_savings
from groupreplay.timeline.advice.finding import Deployment, DeploymentSum
from groupreplay.timeline.advice.inputs import AdviceInput
from groupreplay.timeline.event_reading import words
from groupreplay.timeline.likely import Part, likely_sum
from groupreplay.timeline.rolling_restarts import RollingRestart, rolling

#: The label by which deployments are added up where nobody names another one.
TEAM: Final = "team"
#: The second half of a cooperative rebalance ends within this time after the last restart.
_FOLLOW_UP_MS: Final = 30_000


def deployments(history: AdviceInput) -> list[Deployment]:
    """The rolling restarts of a group, each with the rebalances from its first departure to its last return."""
    rolled_out, counted_ms = list[Deployment](), -1
    begun = [(_since_ms(rolled), rolled) for rolled in rolling(history.slots)]
    for (since_ms, rolled), next_ms in zip_longest(begun, [since_ms for since_ms, _ in begun[1:]]):
        if since_ms < history.known_ms:
            continue
        # The next one, which may begin at once, has its own rebalances.
        end_ms = rolled.until_ms + _FOLLOW_UP_MS
        end_ms = end_ms if next_ms is None else max(min(end_ms, next_ms - 1), rolled.until_ms)
        mine = [each for each in history.rebalances if max(since_ms, counted_ms + 1) <= each.at_ms <= end_ms]
        counted_ms = end_ms
        stopped_ms = stopped(mine)
        likely = likely_stop(sure_savings(mine, mine), stopped_ms)
        costs = [rebalance.flag.cost.added for rebalance in mine if rebalance.flag.cost is not None]
        rolled_out.append(
            Deployment(
                group_id=history.group_id,
                since_ms=since_ms,
                until_ms=rolled.until_ms,
                members=len(rolled.restarts),
                rebalances=len(mine),
                stopped_ms=stopped_ms,
                records=sum(costs) if costs else None,
                events=tuple(rebalance.event.id for rebalance in mine),
                labels=_labels(history),
                likely_stopped_ms=None if likely is None else (likely.least, likely.most),
            )
        )
    return rolled_out


def _since_ms(rolled: RollingRestart) -> int:
    """When the first one left."""
    return min(rolled.since_ms, *(restart.before.until_ms or restart.at_ms for restart in rolled.restarts))


def _labels(history: AdviceInput) -> Mapping[str, str]:
    """The labels that the rules give to the group, by its last event."""
    last = history.events[-1].mapping("labels") if history.events else {}
    return {words(name): words(value) for name, value in last.items()}


def deployment_sums(
    seen: Iterable[Deployment], label: str, since_ms: int, before_ms: int | None
) -> list[DeploymentSum]:
    """The sum of all deployments, then that of each value of the label, the longest stop first.

    ``since_ms``: the begin of the time; ``before_ms``: that of the time before it, None: it is not known.
    """
    every = list(seen)
    now = [each for each in every if each.since_ms >= since_ms]
    values = {each.labels.get(label) for each in every}
    sums = [_sum(every, None, None, since_ms, before_ms)] if now else []
    if now and values != {None}:
        parts = [
            _sum(
                [each for each in every if each.labels.get(label) == value], label, value, since_ms, before_ms
            )
            for value in values
        ]
        sums += sorted(
            (part for part in parts if part.deployments or part.before),
            key=lambda part: (-(part.stopped_ms[1] or part.stopped_ms[0]), part.value or ""),
        )
    return sums


def _sum(
    every: list[Deployment], label: str | None, value: str | None, since_ms: int, before_ms: int | None
) -> DeploymentSum:
    now = [each for each in every if each.since_ms >= since_ms]
    earlier = [each for each in every if before_ms is not None and before_ms <= each.since_ms < since_ms]
    records = [each.records for each in now if each.records is not None]
    return DeploymentSum(
        label=label,
        value=value,
        deployments=len(now),
        groups=len({each.group_id for each in now}),
        rebalances=sum(each.rebalances for each in now),
        stopped_ms=added(each.stopped_ms for each in now),
        records=sum(records) if records else None,
        before=None if before_ms is None else len(earlier),
        stopped_before_ms=None if before_ms is None else added(each.stopped_ms for each in earlier),
        likely_stopped_ms=_likely_stop(now),
        likely_stopped_before_ms=_likely_stop(earlier),
    )


def _likely_stop(every: Iterable[Deployment]) -> tuple[int, int] | None:
    """How long groups likely stood still in all of these deployments; None: nothing is inferred of any."""
    deployed = [*every]
    parts, rest = list[Part](), list[tuple[int, int | None]]()
    for each in deployed:
        if each.likely_stopped_ms is None:
            rest.append(each.stopped_ms)
        else:
            parts.append(Part.of_range(*each.likely_stopped_ms))
    likely = likely_sum(parts, rest, added(each.stopped_ms for each in deployed))
    return None if likely is None else (likely.least, likely.most)
