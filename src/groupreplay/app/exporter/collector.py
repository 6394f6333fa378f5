"""The samples of a scrape: groups, conditions and the job itself, measured on a snapshot of the topics.

The time is an argument: this module reads no clock.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from groupreplay.app.exporter.feed import Limits, heartbeat_age, is_fresh, is_up
from groupreplay.app.exporter.lag_watch import MeasuredLags, measure_lags
from groupreplay.app.exporter.metric_catalog import PREFIX_GROUP, PREFIX_JOB, STATES, Sheet
from groupreplay.state.conditions.rebalance_stuck import WEDGED
from groupreplay.state.events.event import Severity
from groupreplay.state.job.bad_records import CORRECTED
from groupreplay.state.output.envelope import EVENTS
from groupreplay.state.phrases import safe_text
from groupreplay.streaming.contract.messages import JobDocument, LastBatch
from groupreplay.streaming.engine.packing.key_columns import RECORD_TYPES
from groupreplay.streaming.sinks.known_groups import Holding, KnownGroup
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from groupreplay.version import __version__

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_IN_PROGRESS: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
PHASES: Final = ("starting", "catching_up", "caught_up", "waiting", "stopped")
#: Kinds of records that cannot be used (``state.bad_records``).
_BAD_KINDS: Final = ("malformed", "skipped")
_LABEL_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")
_OWN_LABELS: Final = frozenset(
    {"cluster", "consumergroup", "condition", "condition_id", "severity", "job", "instance"}
)


#: Types and states of groups, far more than Kafka has; groups of further ones are counted as ``other``.
_MOST_KINDS: Final = 200


@dataclass(frozen=True, slots=True)
class ShownGroups:
    """The labels of the groups that have series in one scrape, the most important first.

    ``left_out`` is the number of the others, ``ill`` that of those among them that have an active condition.
    """

    labels: Sequence[str]
    left_out: int
    ill: int


def measure(
    snapshot: TopicsSnapshot | None,
    now_ms: int,
    limits: Limits,
    *,
    topics_up: bool = True,
    lags: MeasuredLags | None = None,
) -> list[Metric]:
    """All metrics at this moment; without a snapshot only those about the exporter.

    ``topics_up``: whether the exporter can read the topics now. ``lags`` None: they are not measured.
    """
    sheet = Sheet(
        blind=snapshot is None or not is_fresh(snapshot, now_ms, limits),
        groups_unknown=snapshot is None or not is_up(snapshot, now_ms, limits),
    )
    sheet.add("groupreplay_build_info", 1, component="exporter", version=__version__)
    sheet.add("groupreplay_exporter_ready", snapshot is not None)
    sheet.add("groupreplay_exporter_topics_up", topics_up, cluster=_cluster(snapshot))
    if limits.public_url:
        sheet.add("groupreplay_pages_info", 1, cluster=_cluster(snapshot), url=limits.public_url)
    if snapshot is not None:
        snapshot.roll(now_ms)
        sheet.add("groupreplay_exporter_unreadable_total", snapshot.unreadable)
        _measure_groups(sheet, snapshot, now_ms, limits)
        _measure_job_conditions(sheet, snapshot)
        _measure_incidents(sheet, snapshot)
        if lags is not None and lags.answered_ms:
            measure_lags(sheet, snapshot, lags, now_ms, limits)
        if snapshot.job is not None:
            _measure_job(sheet, snapshot, snapshot.job, now_ms, limits)
    return list(sheet.metrics())


def shown_groups(snapshot: TopicsSnapshot, max_groups: int) -> ShownGroups:
    """The groups that have series, the same for all metrics; by id where they are equally important.

    First groups with an active ERROR; then those with a WARN and those that lost offsets today; then other conditions,
    also those that are over; then groups with members; then those that rebalanced today; then the rest.
    """
    buckets: list[list[str]] = [[] for _ in range(6)]
    today = snapshot.today
    counted = {**dict.fromkeys(today.rebalances, 4), **dict.fromkeys(today.fired, 2)}
    counted.update(dict.fromkeys([*today.expired, *today.lost], 1))
    for group in snapshot.groups.values():
        buckets[min(_rank(group), counted.pop(group.label, 5))].append(group.label)
    # What is left are groups that are deleted by now: a counter must not go back.
    for label, rank in counted.items():
        buckets[rank].append(label)
    chosen: list[str] = []
    for bucket in buckets:
        room = max_groups - len(chosen)
        chosen += sorted(bucket) if len(bucket) <= room else nsmallest(room, bucket)
    total = sum(map(len, buckets))
    if total == len(chosen):
        return ShownGroups(chosen, 0, 0)
    ill = sum(bool(group.conditions) for group in snapshot.groups.values())
    shown_ill = sum(bool(label in snapshot.groups and snapshot.groups[label].conditions) for label in chosen)
    return ShownGroups(chosen, total - len(chosen), ill - shown_ill)


def _rank(group: KnownGroup) -> int:
    if group.conditions:
        return {"ERROR": 0, "WARN": 1}.get(group.worst or "", 2)
    return 3 if group.member_count else 5


def _measure_groups(sheet: Sheet, snapshot: TopicsSnapshot, now_ms: int, limits: Limits) -> None:
    shown = shown_groups(snapshot, limits.max_groups)
    sheet.add("groupreplay_exporter_groups_left_out", shown.left_out)
    sheet.add("groupreplay_exporter_conditions_left_out", shown.ill)
    sheet.add("groupreplay_exporter_counters_forgotten_total", snapshot.today.forgotten)
    counts = (
        (f"{PREFIX_GROUP}rebalances_total", snapshot.today.rebalances),
        (f"{PREFIX_GROUP}offsets_expired_total", snapshot.today.expired),
        (f"{PREFIX_GROUP}members_lost_total", snapshot.today.lost),
    )
    for label in shown.labels:
        group = snapshot.groups.get(label)
        cluster = _cluster(snapshot) if group is None else group.cluster_id
        for name, counted in counts:
            # From 0 on: increase() needs a value before the first event.
            if group is not None or label in counted:
                sheet.add(name, counted.get(label, 0), cluster=cluster, consumergroup=label)
        if group is not None:
            _measure_group(sheet, snapshot, group, now_ms)
        _measure_conditions(sheet, snapshot, label, cluster, group)
    _measure_census(sheet, snapshot)


def _measure_census(sheet: Sheet, snapshot: TopicsSnapshot) -> None:
    census = Counter((group.cluster_id, group.type, group.state) for group in snapshot.groups.values())
    kinds = census.most_common()
    for (cluster, type_, state), count in kinds[:_MOST_KINDS]:
        sheet.add("groupreplay_groups", count, cluster=cluster, type=type_, state=state)
    if rest := sum(count for _, count in kinds[_MOST_KINDS:]):
        sheet.add("groupreplay_groups", rest, cluster=_cluster(snapshot), type="other", state="other")


def _measure_group(sheet: Sheet, snapshot: TopicsSnapshot, group: KnownGroup, now_ms: int) -> None:
    labels = {"cluster": group.cluster_id, "consumergroup": group.label}
    sheet.add(f"{PREFIX_GROUP}group_state", STATES.get(group.state, 0), **labels)
    sheet.add(f"{PREFIX_GROUP}members", group.member_count, **labels)
    if group.generation is not None:
        sheet.add(f"{PREFIX_GROUP}generation_total", group.generation, **labels)
    running = group.state in _IN_PROGRESS and group.since_ms is not None
    since_ms = group.since_ms if running and group.since_ms is not None else now_ms
    sheet.add(f"{PREFIX_GROUP}rebalance_in_progress_seconds", max(0, now_ms - since_ms) / 1000, **labels)
    completed_ms = snapshot.rebalanced_ms.get(group.label)
    if completed_ms is None and group.state == "Stable":
        completed_ms = group.since_ms
    if completed_ms is not None:
        sheet.add(f"{PREFIX_GROUP}rebalance_last_timestamp_seconds", completed_ms / 1000, **labels)
    if group.next_expiry_ms is not None:
        sheet.add(f"{PREFIX_GROUP}offsets_expire_timestamp_seconds", group.next_expiry_ms / 1000, **labels)


def _measure_conditions(
    sheet: Sheet, snapshot: TopicsSnapshot, label: str, cluster: str, group: KnownGroup | None
) -> None:
    """The conditions of one group: 1 for those that hold, 0 for those that fired since midnight and are over."""
    active = set()
    if group is not None:
        for holding in group.conditions:
            active.add((holding.condition, holding.severity))
            _condition(sheet, 1, cluster, label, holding, group.labels)
            if holding.condition_id:
                _alerted(sheet, cluster, label, holding, group.labels)
    for holding, labels in snapshot.today.fired.get(label, {}).items():
        # Its labels may differ from those of the document, when rules have changed.
        if (holding.condition, holding.severity) not in active:
            _condition(sheet, 0, cluster, label, holding, labels)


def _condition(
    sheet: Sheet, value: int, cluster: str, label: str, holding: Holding, policy: Mapping[str, str]
) -> None:
    for name in _condition_names(holding):
        labels = {
            "cluster": cluster,
            "consumergroup": label,
            "condition": name,
            "severity": holding.severity,
            **policy_labels(policy),
        }
        sheet.add(f"{PREFIX_GROUP}condition", value, **labels)


def _condition_names(holding: Holding) -> Sequence[str]:
    return (holding.condition, WEDGED) if holding.wedged else (holding.condition,)


def _alerted(sheet: Sheet, cluster: str, label: str, holding: Holding, policy: Mapping[str, str]) -> None:
    """What an alert needs of a condition: its id and its begin; and beside them what may change while it holds.

    A change of a label would end one alert and begin another, so blockers and suspects are in a metric of their own.
    """
    place = {"cluster": cluster, "consumergroup": label}
    for name in _condition_names(holding):
        labels = {"condition": name, "severity": holding.severity, "condition_id": holding.condition_id}
        since = f"{PREFIX_GROUP}condition_since_timestamp_seconds"
        sheet.add(since, (holding.since_ms or 0) / 1000, **place, **labels, **policy_labels(policy))
    more = {"condition_id": holding.condition_id, "who": holding.who, "runbook": holding.runbook}
    sheet.add(f"{PREFIX_GROUP}condition_info", 1, **place, **more)


def _measure_job_conditions(sheet: Sheet, snapshot: TopicsSnapshot) -> None:
    # Of one kind several may hold, such as the clocks of the job and of a broker; ``add`` keeps one of each series.
    for holding in snapshot.job_conditions:
        labels = {
            "cluster": _cluster(snapshot),
            "condition": holding.condition,
            "severity": holding.severity,
            "what": holding.what or "",
        }
        sheet.add("groupreplay_condition", 1, **labels)
        if holding.condition_id:
            since = "groupreplay_condition_since_timestamp_seconds"
            sheet.add(since, (holding.since_ms or 0) / 1000, **labels, condition_id=holding.condition_id)


def _measure_incidents(sheet: Sheet, snapshot: TopicsSnapshot) -> None:
    """The open incidents, and the groups that are in one that is more than INFO: their alerts give way to its own."""
    cluster = _cluster(snapshot)
    for incident_id, incident in snapshot.incidents.items():
        place, since = {"cluster": cluster, "incident_id": incident_id}, incident.since_ms / 1000
        name = "incident_since_timestamp_seconds"
        sheet.add(f"{PREFIX_JOB}{name}", since, **place, severity=incident.severity)
        texts = {"text": incident.text, "first": incident.first, "runbook": incident.runbook}
        sheet.add(f"{PREFIX_JOB}incident_info", 1, **place, **texts)
        if incident.severity != Severity.INFO.name:
            for label in sorted(incident.groups):
                sheet.add(f"{PREFIX_GROUP}{name}", since, **place, consumergroup=label)


def policy_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of the policy under names that Prometheus accepts; they overwrite no label of this exporter."""
    safe: dict[str, str] = {}
    for name, text in sorted(labels.items()):
        key = _LABEL_NAME.sub("_", name)
        if key in _OWN_LABELS or not key or key[0].isdigit() or key.startswith("__"):
            key = f"label_{key}"
        safe.setdefault(key, safe_text(text))
    return safe


def _measure_job(
    sheet: Sheet, snapshot: TopicsSnapshot, job: JobDocument, now_ms: int, limits: Limits
) -> None:
    cluster = job.cluster_id

    def add(name: str, value: float | None, **labels: str) -> None:
        if value is not None:
            sheet.add(f"{PREFIX_JOB}{name}", value, cluster=cluster, **labels)

    sheet.add("groupreplay_build_info", 1, component="job", version=job.version)
    add("job_up", is_up(snapshot, now_ms, limits))
    add("query_up", job.query.running)
    add("once", job.once)
    add("heartbeat_age_seconds", heartbeat_age(snapshot, now_ms))
    add("start_timestamp_seconds", job.started_ms / 1000)
    for phase in PHASES:
        add("phase", phase == job.phase, phase=phase)
    add("caught_up_timestamp_seconds", None if job.caught_up_ms is None else job.caught_up_ms / 1000)
    for partition, lag in job.lag.partitions.items():
        add("lag_offsets", lag, partition=partition)
    if job.batch is not None:
        _measure_batch(add, job.batch)
    add("state_rows", job.state_rows)
    add("clock_off_seconds", None if job.clock_off_ms is None else job.clock_off_ms / 1000)
    add("restarts_total", job.restarts)
    add("rules_changes_total", job.rules.changes)
    add("rules_refused", job.rules.error is not None)
    add("prober_restarts_total", job.prober_restarts)
    _measure_counters(sheet, snapshot, job)
    if job.prober is not None:
        answered = Counter(error is None for error in job.prober.brokers.values())
        add("prober_round_timestamp_seconds", job.prober.round_ms / 1000)
        add("prober_brokers", answered[True], answered="yes")
        add("prober_brokers", answered[False], answered="no")
        add("prober_groups", job.prober.groups)


def _measure_batch(add: Callable[..., None], batch: LastBatch) -> None:
    add("batch_seconds", batch.seconds)
    add("batch_rows", batch.rows)
    for phase, seconds in batch.phases.items():
        add("batch_phase_seconds", seconds, phase=phase)
    if (state := batch.state) is not None:
        add("state_rows_written", state.written)
        add("state_memory_bytes", state.memory_bytes)
        add("state_partitions_loaded", state.loaded)
        add("state_task_seconds", state.update_seconds, work="update")
        add("state_task_seconds", state.timer_seconds, work="timer")
        add("state_task_seconds", state.commit_seconds, work="commit")
        add("state_task_seconds", state.load_seconds, work="load")


def _measure_counters(sheet: Sheet, snapshot: TopicsSnapshot, job: JobDocument) -> None:
    cluster = job.cluster_id
    for name in RECORD_TYPES:
        sheet.add(f"{PREFIX_JOB}records_total", job.record_types.get(name, 0), cluster=cluster, type=name)
    for name in ("batches", "unmissed_expired", "quarantined"):
        sheet.add(f"{PREFIX_JOB}{name}_total", job.counters.get(name, 0), cluster=cluster)
    for reason in ("unreadable", "misdated"):
        count = job.counters.get(f"probes_{reason}", 0)
        sheet.add(f"{PREFIX_JOB}probes_left_out_total", count, cluster=cluster, reason=reason)
    for topic in ("events", "states", "dead_letters", "job"):
        sheet.add(f"{PREFIX_JOB}written_total", job.counters.get(topic, 0), cluster=cluster, topic=topic)
    _measure_bad_records(sheet, snapshot, cluster)
    for event in EVENTS:
        usual = event.SEVERITY.name
        sheet.add(f"{PREFIX_JOB}events_total", 0, cluster=cluster, event=event.NAME, severity=usual)
    for (name, severity), count in snapshot.today.events.items():
        sheet.add(f"{PREFIX_JOB}events_total", count, cluster=cluster, event=name, severity=severity)


def _measure_bad_records(sheet: Sheet, snapshot: TopicsSnapshot, cluster: str) -> None:
    bad = dict.fromkeys((*_BAD_KINDS, *CORRECTED), 0) | bad_records(snapshot)
    for kind, count in bad.items():
        name = "corrected_records_total" if kind in CORRECTED else "dead_letters_total"
        sheet.add(PREFIX_JOB + name, count, cluster=cluster, kind=kind)


def bad_records(snapshot: TopicsSnapshot) -> dict[str, int]:
    """The number of records that could not be used as they are, by kind."""
    counts = Counter[str]()
    for kinds in snapshot.bad_records.values():
        for kind in kinds:
            counts[kind.kind] += kind.records
    return dict(counts)


def _cluster(snapshot: TopicsSnapshot | None) -> str:
    return "" if snapshot is None or snapshot.job is None else snapshot.job.cluster_id
