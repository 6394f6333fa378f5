"""Every metric of ``serve`` in one table, and the collection of samples of one scrape."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from groupreplay.state.phrases import LONGEST_TEXT, is_safe, safe_text

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
    """Without heartbeats of the job a counter keeps its value, and a gauge has none (NaN).

    Gauges about groups have none while the query is stopped, either.
    """

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


PREFIX_GROUP: Final = "kafka_consumergroup_"
PREFIX_JOB: Final = "groupreplay_"
#: Metrics that show the state of groups.
_ABOUT_GROUPS: Final = (PREFIX_GROUP, "groupreplay_groups")
_NUMBERS: Final = ", ".join(f"{number} {state}" for state, number in STATES.items())


def _meter(name: str, text: str, labels: tuple[str, ...], *, always: bool = False) -> Meter:
    gauge = Kind.KNOWN if always else Kind.GAUGE
    return Meter(name, Kind.COUNTER if name.endswith("_total") else gauge, labels, text)


def _of_group(name: str, text: str, *labels: str) -> Meter:
    return _meter(PREFIX_GROUP + name, text, ("cluster", "consumergroup", *labels))


def _of_job(name: str, text: str, *labels: str, always: bool = False) -> Meter:
    return _meter(PREFIX_JOB + name, text, ("cluster", *labels), always=always)


def _of_program(name: str, text: str, *labels: str) -> Meter:
    return _meter(PREFIX_JOB + name, text, labels, always=True)


def _of_lag(name: str, text: str, *labels: str) -> Meter:
    # It does not depend on the job: without recorded ends it has no samples.
    return _meter(name, text, ("cluster", "consumergroup", "topic", *labels), always=True)


#: Names and texts of danielqsj/kafka_exporter; ``members`` is a metric in any case.
_OF_KAFKA_EXPORTER: Final = (
    ("current_offset", "The committed offset.", "partition"),
    ("current_offset_sum", "The committed offsets of a topic."),
    ("lag", "Records that the group has not consumed.", "partition"),
    ("lag_sum", "The same of a topic."),
)

METERS: Final = (
    _of_group("group_state", f"State of the group: 0 unknown, {_NUMBERS}."),
    _of_group("members", "Members of the group."),
    _of_group("generation_total", "Generation of the group, or its group epoch."),
    _of_group("rebalances_total", "Rebalances completed since midnight UTC."),
    _of_group(
        "rebalance_in_progress_seconds", "For how long a rebalance has been in progress; 0 without one."
    ),
    _of_group(
        "rebalance_last_timestamp_seconds", "When the last rebalance was completed, in seconds since 1970."
    ),
    _of_group(
        "offsets_expire_timestamp_seconds",
        "The broker removes no committed offset before this time if nothing happens until then; rounded down by at "
        "most a 28th of the retention.",
    ),
    _of_group(
        "offsets_expired_total",
        "Committed offsets (partitions) that expired since midnight UTC, of groups that matter.",
    ),
    _of_group(
        "members_lost_total",
        "Members since midnight UTC that were removed, or whose client gave up, and that nobody had planned "
        "(`member.left` of severity WARN).",
    ),
    _of_group(
        "condition",
        "1 while the condition is active; 0 when it fired since midnight UTC and is over. Has the labels of the rules.",
        "condition",
        "severity",
    ),
    _of_group(
        "condition_since_timestamp_seconds",
        "When the condition began, while it is active and more than INFO; `condition_id` is that of its events. Has "
        "the labels of the rules.",
        "condition",
        "severity",
        "condition_id",
    ),
    _of_group(
        "condition_info",
        "1 while the condition is active and more than INFO; `who`: its blockers or suspects, or its subject; "
        "`runbook`: the address of its section.",
        "condition_id",
        "who",
        "runbook",
    ),
    _of_group(
        "incident_since_timestamp_seconds",
        "When the incident began that the group is in (200 groups of each), while it is open and more than INFO.",
        "incident_id",
    ),
    _of_job(
        "incident_since_timestamp_seconds",
        "When an incident across groups began, while it is open; `incident_id` is that of its events.",
        "severity",
        "incident_id",
    ),
    _of_job(
        "incident_info",
        "1 while an incident across groups is open; `text`: its sentence, `first`: what to do first, `runbook`: the "
        "address of the section.",
        "incident_id",
        "text",
        "first",
        "runbook",
    ),
    _of_lag(
        "groupreplay_group_lag",
        "Records that the group has not consumed of a topic, by the ends that were recorded last; with "
        "`--partition-metrics` for each `partition`. Partitions of unknown lag are left out.",
    ),
    _of_lag(
        "groupreplay_group_lag_seconds",
        "How long ago the end of the topic passed the committed offset: the age of the first record that is not "
        "consumed, of the partition that is furthest behind.",
    ),
    _of_lag(
        "groupreplay_group_committed_offset", "Committed offsets, summed up: it moves when the group commits."
    ),
    _of_lag(
        "groupreplay_group_lag_unknown_partitions", "Partitions with a committed offset and no known lag."
    ),
    _meter(
        "groupreplay_group_lag_objective_seconds",
        "The longest time lag that the rules allow the group: their label `lag_objective`, such as `5m`.",
        ("cluster", "consumergroup"),
        always=True,
    ),
    _of_job("ends_timestamp_seconds", "When the ends of partitions were recorded last.", always=True),
    *(
        _of_lag(
            PREFIX_GROUP + name, f"{text} With `--kafka-exporter-names`, as kafka_exporter names it.", *more
        )
        for name, text, *more in _OF_KAFKA_EXPORTER
    ),
    _of_job("groups", "Groups by type and state, all of them.", "type", "state"),
    _of_job("events_total", "Events since midnight UTC, without late ones (catch_up).", "event", "severity"),
    _of_job(
        "condition",
        "1 while a condition of the job itself is active; `what`: the reason of job.blind.",
        "condition",
        "severity",
        "what",
    ),
    _of_job(
        "condition_since_timestamp_seconds",
        "When the condition of the job itself began, while it is active.",
        "condition",
        "severity",
        "what",
        "condition_id",
    ),
    _of_job(
        "job_up",
        "1 when the job's heartbeat is fresh and its query reads the log, else 0; while "
        "`groupreplay_exporter_topics_up` is 0 nobody knows whether the job is up.",
        always=True,
    ),
    _of_job(
        "query_up", "1 when the query reads the log, by the job's last heartbeat; 0 while it is stopped."
    ),
    _of_job("once", "1 when the job's last run was a single one (run --once), else 0.", always=True),
    _of_job(
        "heartbeat_age_seconds",
        "Age of the job's last heartbeat, by the broker's append time (by the job's clock if the topic has none).",
        always=True,
    ),
    _of_job("start_timestamp_seconds", "When the job's process was started.", always=True),
    _of_job("phase", "1 for the job's current phase, 0 for the others.", "phase"),
    _of_job(
        "caught_up_timestamp_seconds",
        "Every record written to the offsets topic before this time has been applied.",
        always=True,
    ),
    _of_job("lag_offsets", "Offsets that the job has not read yet.", "partition"),
    _of_job("batch_seconds", "Length of the last batch."),
    _of_job("batch_rows", "Rows of the last batch."),
    _of_job(
        "batch_phase_seconds",
        "Length of a part of the last batch, by the name in Spark's report of it (`addBatch` is the work itself).",
        "phase",
    ),
    _of_job(
        "state_rows_written", "States that the last batch wrote: of groups with records, or a due timer."
    ),
    _of_job("state_memory_bytes", "Memory that the state stores held after the last batch."),
    _of_job(
        "state_partitions_loaded",
        "Partitions of the state that the last batch fetched from the checkpoint: after a start, and when their task "
        "moved to another executor. Not with Spark 3.5.",
    ),
    _of_job(
        "state_task_seconds",
        "Time of the last batch's tasks for the state, together: calls of groups with records (update), with a due "
        "timer (timer), writing (commit), fetching (load, not with Spark 3.5).",
        "work",
    ),
    _of_job("batches_total", "Batches since the start of the job's process."),
    _of_job("records_total", "Records read since the start of the job's process, by record type.", "type"),
    _of_job("written_total", "Messages written since the start of the job's process, by topic.", "topic"),
    _of_job(
        "dead_letters_total",
        "Records that could not be used, ever: malformed, or of an unknown type or version.",
        "kind",
    ),
    _of_job(
        "corrected_records_total",
        "Records that were applied without values that cannot be (`partial`) or with another time than theirs "
        "(`timestamp`), ever. They are no dead letters.",
        "kind",
    ),
    _of_job(
        "unmissed_expired_total",
        "Expiries in groups that do not matter, since the start of the job's process.",
    ),
    _of_job(
        "quarantined_total",
        "Groups that the job has set aside because their records made it fail, since the start of its process.",
    ),
    _of_job(
        "probes_left_out_total",
        "Messages of group-probes that were not used since the start of the job's process: not readable (unreadable), "
        "or dated more than a minute ahead of their append time (misdated).",
        "reason",
    ),
    _of_job(
        "clock_off_seconds",
        "How far the clock of the job's machine is ahead of the brokers'; a difference of more than 5 s is corrected.",
    ),
    _of_job("state_rows", "Keys in the job's state: groups, and a few of its own."),
    _of_job("restarts_total", "How often the job had to restart its query after a failure."),
    _of_job("rules_changes_total", "How often the job has taken over changed rules."),
    _of_job("rules_refused", "1 when the job has refused the current rules file."),
    _of_job("prober_round_timestamp_seconds", "When the prober last asked the brokers."),
    _of_job("prober_brokers", "Brokers that answered the prober, or did not.", "answered"),
    _of_job("prober_groups", "Groups that the prober found in a rebalance."),
    _of_job("prober_restarts_total", "How often the prober's process was restarted."),
    _of_program("build_info", "Versions of the job and the exporter.", "component", "version"),
    _of_program("exporter_ready", "1 when the topics were read to their ends once."),
    _of_job(
        "exporter_topics_up",
        "1 when the partitions of the job's topics have answered within seconds, 0 when the exporter cannot read them; "
        "`cluster` is empty until the job's document was read.",
        always=True,
    ),
    _of_job(
        "pages_info",
        "1 when `serve` knows by which `url` people reach its pages (`--public-url`): alerts link to them.",
        "url",
        always=True,
    ),
    _of_program("exporter_groups_left_out", "Groups beyond --max-groups, which have no series."),
    _of_program(
        "exporter_conditions_left_out", "Groups with an active condition among those that have no series."
    ),
    _of_program(
        "exporter_counters_forgotten_total",
        "Groups whose counts were dropped since midnight UTC, because too many groups had events.",
    ),
    _of_program("exporter_unreadable_total", "Messages in the topics that the job has not written."),
)
_METERS: Final = {meter.name: meter for meter in METERS}


class Sheet:
    """The metrics of one scrape. Of two samples with the same labels the larger one counts."""

    def __init__(self, *, blind: bool, groups_unknown: bool) -> None:
        self._blind = blind
        self._groups_unknown = groups_unknown
        self._samples: dict[str, dict[tuple[tuple[str, str], ...], float]] = {
            meter.name: {} for meter in METERS
        }

    def add(self, name: str, value: float, /, **labels: str) -> None:
        """Adds a sample; NaN for a gauge while nothing is known about it."""
        is_unknown = self._blind or (self._groups_unknown and name.startswith(_ABOUT_GROUPS))
        if is_unknown and _METERS[name].kind is Kind.GAUGE:
            value = math.nan
        samples, key = self._samples[name], tuple((label, _safe(text)) for label, text in labels.items())
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


def _safe(text: str) -> str:
    # One that is safe already may be the label of a group, which ends in a hash that must not be cut off.
    return text if len(text) <= 2 * LONGEST_TEXT and is_safe(text) else safe_text(text)


def metrics_table() -> str:
    """The metrics as a table of Markdown, for docs/monitoring.md."""
    lines = ["| metric | kind | labels | meaning |", "| --- | --- | --- | --- |"]
    for meter in METERS:
        labels = ", ".join(f"`{label}`" for label in meter.labels)
        lines.append(f"| `{meter.name}` | {meter.kind.value} | {labels} | {meter.text} |")
    return "\n".join(lines)
