"""Effects of advice and costs of deployments in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from groupreplay.state.phrases import counted, from_to, milliseconds
from groupreplay.timeline.advice.finding import DeploymentSum, Effect
from groupreplay.timeline.likely import Bounds

#: What follows the number of an effect: of one, and of several or of a time.
_UNITS: Final[Mapping[str, tuple[str, str]]] = {
    "rebalances": (" rebalance", " rebalances"),
    "stopped_ms": (" of standstill", " of standstill"),
    "partition_stopped_ms": (" of standstill, added up over partitions",) * 2,
    "partition_stops": (" stop of a partition", " stops of partitions"),
    "members": (" member", " members"),
    "partitions": (" partition", " partitions"),
    "bytes": (" byte", " bytes"),
    "offsets_lost": (" committed offset", " committed offsets"),
}


def effect_text(effect: Effect) -> str:
    """``30 rebalances``, ``about 40.0 s to 55.0 s of standstill (by the records 11.3 s to 3 min 9 s)``.

    What a setting costs follows what it saves: ``but 4 min 50 s more of standstill``.
    """
    proven = effect.least, effect.most
    likely = None if effect.likely_least is None else (effect.likely_least, effect.likely_most)
    words = range_text if effect.measure.endswith("_ms") else _number_text
    first = likely or proven
    unit = _UNITS[effect.measure][first != (1, 1)]
    return f"{'but ' if is_loss(effect) else ''}{_stated(proven, likely, words, unit)}"


def is_loss(effect: Effect) -> bool:
    """Whether the setting would have cost what others save."""
    return ((effect.most if effect.likely_least is None else effect.likely_most) or 0) < 0


def _stated(proven: Bounds, likely: Bounds | None, words: Callable[[Bounds], str], unit: str = "") -> str:
    """The likely range first, as what is inferred; then what the records prove."""
    if likely is None:
        return f"{words(proven)}{unit}"
    text = words(likely)
    about = text.replace("at most", "at most about") if text.startswith("at most") else f"about {text}"
    return f"{about}{unit} (by the records {words(proven)})"


def stop_text(proven: Bounds, likely: Bounds | None) -> str:
    """How long groups stood still: ``about 40.0 s to 55.0 s (by the records 11.3 s to 3 min 9 s)``."""
    return _stated(proven, likely, range_text)


def range_text(bounds: Bounds) -> str:
    """``11.3 s to 3 min 9 s``; one value where both are equal.

    ``at most 3 min 9 s, or up to 2.0 s more`` where it may be a loss, ``4 min 50 s to 5 min 0 s more`` where it is one.
    """
    least, most = bounds
    if most is None:
        return f"{milliseconds(least)} or more"
    if most < 0:
        return f"{from_to(milliseconds(-most), milliseconds(-least))} more"
    if least < 0:
        return f"at most {milliseconds(most)}, or up to {milliseconds(-least)} more"
    return from_to(milliseconds(least), milliseconds(most))


def _number_text(bounds: Bounds) -> str:
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
    # Each partition may have: a group does as a whole in eager rebalances only.
    stopped = "no group stood still as a whole"
    if summed.stopped_ms[1] != 0:
        stopped = f"stood still for {stop_text(stopped_ms, summed.likely_stopped_ms)}"
    of_groups = "" if of_one_group else f" of {counted(summed.groups, 'group')}"
    text = (
        f"{counted(summed.deployments, 'deployment')}{of_groups} made "
        f"{counted(summed.rebalances, 'rebalance')} and {stopped}"
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
    stopped = stop_text(stopped_ms, summed.likely_stopped_before_ms)
    return f". In the time before: {summed.before}, {stopped}"
