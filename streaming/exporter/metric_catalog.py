"""Every metric of ``export`` in one table, and the collection of samples of one scrape."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from prometheus_client.core import Metric

#: The number of a group's state; 0 stands for a state that this release does not know.
STATES: Final[Mapping[str, int]] = {
    "PreparingRebalance": 1,
    "CompletingRebalance": 2,
    "Stable": 3,
    "Dead": 4,
    "Empty": 5,
    "Assigning": 6,
    "Reconciling": 7,
    "NotReady": 8,
}


class Kind(str, Enum):
    """Without heartbeats of the job a counter keeps its value, and a gauge has none (NaN)."""

    COUNTER = "counter"
    GAUGE = "gauge"
    #: About the exporter or about the heartbeat itself: always has a value.
    KNOWN = "gauge, always"


class Meter(NamedTuple):
    """A metric: its help text is also its line in the docs."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text: str


_GROUP: Final = ("cluster", "consumergroup")
_JOB: Final = ("cluster",)
PREFIX_GROUP: Final = "kafka_consumergroup_"
PREFIX_JOB: Final = "groupreplay_"
_NUMBERS: Final = ", ".join(f"{number} {state}" for state, number in STATES.items())

METERS: Final[tuple[Meter, ...]] = (
    Meter(f"{PREFIX_GROUP}group_state", Kind.GAUGE, _GROUP, f"State of the group: 0 unknown, {_NUMBERS}."),
    Meter(f"{PREFIX_GROUP}members", Kind.GAUGE, _GROUP, "Members of the group."),
    Meter(
        f"{PREFIX_GROUP}generation_total",
        Kind.COUNTER,
        _GROUP,
        "Generation of the group, or its group epoch.",
    ),
    Meter(
        f"{PREFIX_GROUP}rebalances_total", Kind.COUNTER, _GROUP, "Rebalances completed since midnight UTC."
    ),
    Meter(
        f"{PREFIX_GROUP}rebalance_in_progress_seconds",
        Kind.GAUGE,
        _GROUP,
        "For how long a rebalance has been in progress; 0 without one.",
    ),
    Meter(
        f"{PREFIX_GROUP}rebalance_last_timestamp_seconds",
        Kind.GAUGE,
        _GROUP,
        "When the last rebalance was completed, in seconds since 1970.",
    ),
    Meter(
        f"{PREFIX_GROUP}offsets_expire_timestamp_seconds",
        Kind.GAUGE,
        _GROUP,
        "When the broker may remove the first committed offset if nothing happens until then.",
    ),
    Meter(
        f"{PREFIX_GROUP}offsets_expired_total",
        Kind.COUNTER,
        _GROUP,
        "Committed offsets (partitions) that expired since midnight UTC, of groups that matter.",
    ),
    Meter(
        f"{PREFIX_GROUP}condition",
        Kind.GAUGE,
        (*_GROUP, "condition", "severity"),
        "1 while the condition is active; 0 when it fired since midnight UTC and is over. Has the policy's labels.",
    ),
    Meter(
        f"{PREFIX_JOB}groups", Kind.GAUGE, (*_JOB, "type", "state"), "Groups by type and state, all of them."
    ),
    Meter(
        f"{PREFIX_JOB}events_total",
        Kind.COUNTER,
        (*_JOB, "event", "severity"),
        "Events since midnight UTC, without late ones (catch_up).",
    ),
    Meter(
        f"{PREFIX_JOB}condition",
        Kind.GAUGE,
        (*_JOB, "condition", "severity", "what"),
        "1 while a condition of the job itself is active; what: why it is blind.",
    ),
    Meter(f"{PREFIX_JOB}job_up", Kind.KNOWN, _JOB, "1 when the job's heartbeat is fresh, else 0."),
    Meter(f"{PREFIX_JOB}heartbeat_age_seconds", Kind.KNOWN, _JOB, "Age of the job's last heartbeat."),
    Meter(f"{PREFIX_JOB}start_timestamp_seconds", Kind.KNOWN, _JOB, "When the job's process was started."),
    Meter(
        f"{PREFIX_JOB}phase", Kind.GAUGE, (*_JOB, "phase"), "1 for the job's present phase, 0 for the others."
    ),
    Meter(
        f"{PREFIX_JOB}caught_up_timestamp_seconds",
        Kind.KNOWN,
        _JOB,
        "Every record written to the offsets topic before this time has been applied.",
    ),
    Meter(
        f"{PREFIX_JOB}lag_offsets",
        Kind.GAUGE,
        (*_JOB, "partition"),
        "Offsets that the job has not read yet.",
    ),
    Meter(f"{PREFIX_JOB}batch_seconds", Kind.GAUGE, _JOB, "Length of the last batch."),
    Meter(f"{PREFIX_JOB}batch_rows", Kind.GAUGE, _JOB, "Rows of the last batch."),
    Meter(f"{PREFIX_JOB}batches_total", Kind.COUNTER, _JOB, "Batches since the start of the job's process."),
    Meter(
        f"{PREFIX_JOB}records_total",
        Kind.COUNTER,
        (*_JOB, "type"),
        "Records read since the start of the job's process, by record type.",
    ),
    Meter(
        f"{PREFIX_JOB}written_total",
        Kind.COUNTER,
        (*_JOB, "topic"),
        "Messages written since the start of the job's process, by topic.",
    ),
    Meter(
        f"{PREFIX_JOB}dead_letters_total",
        Kind.COUNTER,
        (*_JOB, "kind"),
        "Records that could not be used, ever: malformed, or of an unknown type or version.",
    ),
    Meter(
        f"{PREFIX_JOB}unmissed_expired_total",
        Kind.COUNTER,
        _JOB,
        "Expiries in groups that do not matter, since the start of the job's process.",
    ),
    Meter(
        f"{PREFIX_JOB}quarantined_total",
        Kind.COUNTER,
        _JOB,
        "Groups that the job failed on and set aside, since the start of its process.",
    ),
    Meter(
        f"{PREFIX_JOB}state_rows", Kind.GAUGE, _JOB, "Keys in the job's state: groups, and a few of its own."
    ),
    Meter(
        f"{PREFIX_JOB}restarts_total",
        Kind.COUNTER,
        _JOB,
        "How often the job had to restart its query after a failure.",
    ),
    Meter(f"{PREFIX_JOB}rules_changes_total", Kind.COUNTER, _JOB, "How often the job took changed rules."),
    Meter(
        f"{PREFIX_JOB}rules_refused", Kind.GAUGE, _JOB, "1 when the job has refused the present rules file."
    ),
    Meter(
        f"{PREFIX_JOB}prober_round_timestamp_seconds",
        Kind.GAUGE,
        _JOB,
        "When the prober last asked the brokers.",
    ),
    Meter(
        f"{PREFIX_JOB}prober_brokers",
        Kind.GAUGE,
        (*_JOB, "answered"),
        "Brokers that answered the prober, or did not.",
    ),
    Meter(f"{PREFIX_JOB}prober_groups", Kind.GAUGE, _JOB, "Groups that the prober found in a rebalance."),
    Meter(
        f"{PREFIX_JOB}prober_restarts_total",
        Kind.COUNTER,
        _JOB,
        "How often the prober's process was restarted.",
    ),
    Meter(
        f"{PREFIX_JOB}build_info",
        Kind.KNOWN,
        ("component", "version"),
        "Versions of the job and the exporter.",
    ),
    Meter(f"{PREFIX_JOB}exporter_ready", Kind.KNOWN, (), "1 when the topics were read to their ends once."),
    Meter(
        f"{PREFIX_JOB}exporter_groups_left_out",
        Kind.KNOWN,
        (),
        "Groups beyond --max-groups, which have no gauges.",
    ),
    Meter(
        f"{PREFIX_JOB}exporter_unreadable_total",
        Kind.COUNTER,
        (),
        "Messages in the topics that the job has not written.",
    ),
)
_METERS: Final = {meter.name: meter for meter in METERS}


class Sheet:
    """The metrics of one scrape. Of two samples with the same labels the larger one counts."""

    def __init__(self, *, blind: bool) -> None:
        self._blind = blind
        self._samples: dict[str, dict[tuple[tuple[str, str], ...], float]] = {one.name: {} for one in METERS}

    def add(self, name: str, value: float, **labels: str) -> None:
        """Adds a sample; NaN for a gauge while the job sends no heartbeats."""
        if self._blind and _METERS[name].kind is Kind.GAUGE:
            value = math.nan
        samples, key = self._samples[name], tuple(labels.items())
        samples[key] = max(value, samples.get(key, value))

    def metrics(self) -> Iterator[Metric]:
        """The metrics that have a sample, in the order of the table."""
        from prometheus_client.core import Metric

        for meter in METERS:
            kind = "counter" if meter.kind is Kind.COUNTER else "gauge"
            # The library appends ``_total`` itself.
            metric = Metric(meter.name.removesuffix("_total"), meter.text, kind)
            for labels, value in self._samples[meter.name].items():
                metric.add_sample(meter.name, dict(labels), value)
            if metric.samples:
                yield metric


def metrics_table() -> str:
    """The metrics as a table of Markdown, for docs/monitoring.md."""
    lines = ["| metric | kind | labels | meaning |", "| --- | --- | --- | --- |"]
    for meter in METERS:
        labels = ", ".join(f"`{label}`" for label in meter.labels)
        lines.append(f"| `{meter.name}` | {meter.kind.value} | {labels} | {meter.text} |")
    return "\n".join(lines)
