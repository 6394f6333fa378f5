"""The pages of the exporter for several clusters as those of one: each sample once, ready when one of them is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from groupreplay.app.exporter.server import Exporter
from groupreplay.state.display.safe_text import safe_text

if TYPE_CHECKING:
    from prometheus_client.core import Metric

#: Metrics without the label ``cluster`` -> how those of several clusters are joined. Others have the largest value.
_JOINED: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "groupreplay_exporter_ready": min,
    "groupreplay_exporter_groups_left_out": sum,
    "groupreplay_exporter_conditions_left_out": sum,
    "groupreplay_exporter_counters_forgotten_total": sum,
    "groupreplay_exporter_unreadable_total": sum,
}


class SeveralExporters(Exporter):
    """The exporters of several clusters, by name."""

    def __init__(self, by_name: Mapping[str, Exporter]) -> None:
        self._by_name = dict(by_name)

    def collect(self) -> list[Metric]:
        """All metrics at one moment; a name occurs once, as Prometheus demands."""
        return joined(metric for one in self._by_name.values() for metric in one.collect())

    def alive(self) -> bool:
        """Whether the threads of all clusters run."""
        return all(one.alive() for one in self._by_name.values())

    def not_ready(self) -> str | None:
        """Why no cluster is ready; None when one is.

        A balancer that asks must not take the pages of all clusters away because one of them cannot be reached.
        """
        told = []
        for name, one in self._by_name.items():
            reason = one.not_ready()
            if reason is None:
                return None
            told.append(f"{safe_text(name)}: {reason}")
        return "; ".join(told)


def joined(metrics: Iterable[Metric]) -> list[Metric]:
    """The metrics with each name once, and each set of labels once."""
    from prometheus_client.core import Metric

    families: dict[str, Metric] = {}
    values: dict[str, dict[tuple[tuple[str, str], ...], list[float]]] = {}
    for metric in metrics:
        families.setdefault(metric.name, metric)
        for sample in metric.samples:
            labels = tuple(sample.labels.items())
            values.setdefault(sample.name, {}).setdefault(labels, []).append(sample.value)
    made = []
    for family in families.values():
        name = family.samples[0].name
        whole = Metric(family.name, family.documentation, family.type)
        for labels, found in values[name].items():
            whole.add_sample(name, dict(labels), _JOINED.get(name, max)(found))
        made.append(whole)
    return made
