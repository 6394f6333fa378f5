"""Effects of advice and costs of deployments in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from groupreplay.state.phrases import counted, from_to, milliseconds
from groupreplay.timeline.advice.finding import DeploymentSum, Effect

#: What follows the number of an effect.
_UNITS: Final[Mapping[str, str]] = {
    "rebalances": " rebalances",
    "stopped_ms": " of standstill",
    "partition_stopped_ms": " of standstill, added up over partitions",
    "partition_stops": " stops of partitions",
    "members": " members",
    "partitions": " partitions",
    "bytes": " bytes",
    "offsets_lost": " committed offsets",
}


def effect_text(effect: Effect) -> str:
    """``30 rebalances``, ``11.3 s to 3 min 9 s of standstill``."""
    bounds = effect.least, effect.most
    is_time = effect.measure.endswith("_ms")
    return f"{range_text(bounds) if is_time else _number_text(bounds)}{_UNITS[effect.measure]}"


def range_text(bounds: tuple[int, int | None]) -> str:
    """``11.3 s to 3 min 9 s``; one value where both are equal."""
    least, most = bounds
    if most is None:
        return f"{milliseconds(least)} or more"
    return from_to(milliseconds(least), milliseconds(most))


def _number_text(bounds: tuple[int, int | None]) -> str:
    least, most = bounds
    return f"{least} or more" if most is None else from_to(str(least), str(most))


def assumed_text(name: str, value: int) -> str:
    """``heartbeat interval 3.0 s``, of a number of milliseconds that no record has."""
    return f"{name.removesuffix('_ms').replace('_', ' ')} {milliseconds(value)}"


def deployment_text(summed: DeploymentSum, *, of_one_group: bool = False, at_least: bool = False) -> str:
    """``4 deployments of 2 groups made 24 rebalances and stood still for 6.7 s to 1 min 40 s``.

    ``at_least``: without the upper bound, ``6.7 s or more``.
    """
    stopped_ms = (summed.stopped_ms[0], None) if at_least else summed.stopped_ms
    of_groups = "" if of_one_group else f" of {counted(summed.groups, 'group')}"
    text = (
        f"{counted(summed.deployments, 'deployment')}{of_groups} made "
        f"{counted(summed.rebalances, 'rebalance')} and stood still for {range_text(stopped_ms)}"
    )
    return text if summed.records is None else f"{text}; {counted(summed.records, 'record')} waited"


def deployment_lines_by_label(sums: Sequence[DeploymentSum], *, at_least: bool = False) -> Iterator[str]:
    """The sum of all deployments, then that of each value of a label: ``team blue: 2 deployments of ...``."""
    for summed in sums:
        name = "" if summed.label is None else f"{summed.label} {summed.value}: "
        if summed.label is not None and summed.value is None:
            name = f"no {summed.label}: "
        if summed.deployments:
            yield f"{name}{deployment_text(summed, at_least=at_least)}"


def before_text(summed: DeploymentSum, *, at_least: bool = False) -> str:
    """``. In the time before: 2, 3.1 s to 9.0 s``; empty: that time is not known."""
    if summed.before is None or summed.stopped_before_ms is None:
        return ""
    stopped_ms = (summed.stopped_before_ms[0], None) if at_least else summed.stopped_before_ms
    return f". In the time before: {summed.before}, {range_text(stopped_ms)}"
