"""The samples of a scrape: groups, conditions and the job itself, measured on a snapshot of the topics.

The time is an argument: this module reads no clock.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from groupreplay import __version__
from groupreplay.state.conditions.condition import Condition
from groupreplay.state.display.safe_text import safe_text
from groupreplay.state.output.catalogue import EVENTS
from groupreplay.streaming.contract.job_document import JobDocument
from groupreplay.streaming.engine.record_counts import RECORD_TYPES
from groupreplay.streaming.exporter.metric_catalog import PREFIX_GROUP, PREFIX_JOB, STATES, Sheet
from groupreplay.streaming.sinks.topics_snapshot import GroupDocument, Holding, TopicsSnapshot

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_IN_PROGRESS: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
PHASES: Final = ("starting", "catching_up", "caught_up", "stopped")
#: The name of ``rebalance.stuck`` when it lasts longer than the protocol allows.
WEDGED: Final = "rebalance.wedged"
#: Kinds of records that cannot be used (``state.bad_records``).
_BAD_KINDS: Final = ("malformed", "skipped")
#: The least age at which a heartbeat is late, whatever the trigger: scrapes are not more frequent.
_LEAST_TIMEOUT_SECONDS: Final = 10.0
_LABEL_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")
_OWN_LABELS: Final = frozenset({"cluster", "consumergroup", "condition", "severity", "job", "instance"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_groups`` have gauges. Without a heartbeat for ``timeout_seconds`` the job is down; None: 3 triggers."""

    max_groups: int = 5_000
    timeout_seconds: float | None = None


def group_label(group_id: str) -> str:
    """The id itself, so that series can be joined with those of other exporters.

    An id that is empty, very long or has control characters is made safe, with a hash of the whole id at its end.
    """
    shown = safe_text(group_id)
    if shown == group_id and shown:
        return shown
    return f"{shown}#{hashlib.sha256(group_id.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def heartbeat_age(job: JobDocument, now_ms: int) -> float:
    """Seconds since the job's last heartbeat; 0 when the clock of the job is ahead."""
    return max(0, now_ms - job.heartbeat_ms) / 1000


def is_fresh(snapshot: TopicsSnapshot, now_ms: int, limits: Limits) -> bool:
    """Whether the job is alive: its heartbeat is not late."""
    job = snapshot.job
    if job is None:
        return False
    timeout = limits.timeout_seconds or max(3 * job.trigger_seconds, _LEAST_TIMEOUT_SECONDS)
    return heartbeat_age(job, now_ms) <= timeout


def measure(snapshot: TopicsSnapshot | None, now_ms: int, limits: Limits) -> list[Metric]:
    """All metrics at this moment; without a snapshot only those about the exporter."""
    sheet = Sheet(blind=snapshot is None or not is_fresh(snapshot, now_ms, limits))
    sheet.add("groupreplay_build_info", 1, component="exporter", version=__version__)
    sheet.add("groupreplay_exporter_ready", snapshot is not None)
    if snapshot is not None:
        snapshot.roll(now_ms)
        sheet.add("groupreplay_exporter_unreadable_total", snapshot.unreadable)
        _measure_groups(sheet, snapshot, now_ms, limits)
        _measure_conditions(sheet, snapshot)
        if snapshot.job is not None:
            _measure_job(sheet, snapshot, snapshot.job, now_ms, limits)
    return list(sheet.metrics())


def shown_groups(snapshot: TopicsSnapshot, max_groups: int) -> list[GroupDocument]:
    """The groups that get gauges: those with a condition first, then those with members, then by id."""

    def rank(group: GroupDocument) -> tuple[bool, bool, str]:
        return not group.conditions, not group.member_count, group.group_id

    return sorted(snapshot.groups.values(), key=rank)[:max_groups]


def _measure_groups(sheet: Sheet, snapshot: TopicsSnapshot, now_ms: int, limits: Limits) -> None:
    clusters = {group.group_id: group.cluster_id for group in snapshot.groups.values()}
    shown = shown_groups(snapshot, limits.max_groups)
    sheet.add("groupreplay_exporter_groups_left_out", len(snapshot.groups) - len(shown))
    for group in shown:
        _measure_group(sheet, snapshot, group, now_ms)
    counts = (
        (f"{PREFIX_GROUP}rebalances_total", snapshot.today.rebalances),
        (f"{PREFIX_GROUP}offsets_expired_total", snapshot.today.expired),
    )
    # Also for groups that are deleted by now or beyond the limit: a counter never goes back.
    for name, counted in counts:
        for group_id, count in counted.items():
            cluster = clusters.get(group_id) or _cluster(snapshot)
            sheet.add(name, count, cluster=cluster, consumergroup=group_label(group_id))
    census = Counter((one.cluster_id, one.type, one.state) for one in snapshot.groups.values())
    for (cluster, type_, state), count in census.items():
        sheet.add("groupreplay_groups", count, cluster=cluster, type=type_, state=state)


def _measure_group(sheet: Sheet, snapshot: TopicsSnapshot, group: GroupDocument, now_ms: int) -> None:
    labels = {"cluster": group.cluster_id, "consumergroup": group_label(group.group_id)}
    sheet.add(f"{PREFIX_GROUP}group_state", STATES.get(group.state, 0), **labels)
    sheet.add(f"{PREFIX_GROUP}members", group.member_count, **labels)
    generation = group.generation if group.group_epoch is None else group.group_epoch
    if generation is not None:
        sheet.add(f"{PREFIX_GROUP}generation_total", generation, **labels)
    # From 0 on: increase() needs a value before the first event.
    sheet.add(f"{PREFIX_GROUP}rebalances_total", 0, **labels)
    sheet.add(f"{PREFIX_GROUP}offsets_expired_total", 0, **labels)
    running = group.state in _IN_PROGRESS and group.since_ms is not None
    since_ms = group.since_ms if running and group.since_ms is not None else now_ms
    sheet.add(f"{PREFIX_GROUP}rebalance_in_progress_seconds", max(0, now_ms - since_ms) / 1000, **labels)
    completed_ms = snapshot.rebalanced_ms.get(group.group_id)
    if completed_ms is None and group.state == "Stable":
        completed_ms = group.since_ms
    if completed_ms is not None:
        sheet.add(f"{PREFIX_GROUP}rebalance_last_timestamp_seconds", completed_ms / 1000, **labels)
    if group.offsets.next_expiry_ms is not None:
        sheet.add(
            f"{PREFIX_GROUP}offsets_expire_timestamp_seconds", group.offsets.next_expiry_ms / 1000, **labels
        )


def _measure_conditions(sheet: Sheet, snapshot: TopicsSnapshot) -> None:
    clusters, held = {}, set()
    for group in snapshot.groups.values():
        clusters[group.group_id] = group.cluster_id
        for holding in group.conditions:
            held.add((group.group_id, holding.condition, holding.severity))
            _condition(sheet, 1, group.cluster_id, group.group_id, holding, group.labels)
    for (group_id, holding), labels in snapshot.today.fired.items():
        # Its labels may differ from those of the document, when rules have changed.
        if (group_id, holding.condition, holding.severity) not in held:
            _condition(sheet, 0, clusters.get(group_id) or _cluster(snapshot), group_id, holding, labels)
    for holding in snapshot.job_conditions:
        sheet.add(
            "groupreplay_condition",
            1,
            cluster=_cluster(snapshot),
            condition=holding.condition,
            severity=holding.severity,
            what=holding.what or "",
        )


def _condition(
    sheet: Sheet, value: int, cluster: str, group_id: str, holding: Holding, policy: Mapping[str, str]
) -> None:
    names: Sequence[str] = (holding.condition, WEDGED) if holding.wedged else (holding.condition,)
    for name in names:
        labels = {
            "cluster": cluster,
            "consumergroup": group_label(group_id),
            "condition": name,
            "severity": holding.severity,
            **policy_labels(policy),
        }
        sheet.add(f"{PREFIX_GROUP}condition", value, **labels)


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
    add("job_up", is_fresh(snapshot, now_ms, limits))
    add("heartbeat_age_seconds", heartbeat_age(job, now_ms))
    add("start_timestamp_seconds", job.started_ms / 1000)
    for phase in PHASES:
        add("phase", phase == job.phase, phase=phase)
    add("caught_up_timestamp_seconds", None if job.caught_up_ms is None else job.caught_up_ms / 1000)
    for partition, lag in job.lag.partitions.items():
        add("lag_offsets", lag, partition=partition)
    if job.batch is not None:
        add("batch_seconds", job.batch.seconds)
        add("batch_rows", job.batch.rows)
    add("state_rows", job.state_rows)
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


def _measure_counters(sheet: Sheet, snapshot: TopicsSnapshot, job: JobDocument) -> None:
    cluster = job.cluster_id
    for name in RECORD_TYPES:
        sheet.add(f"{PREFIX_JOB}records_total", job.record_types.get(name, 0), cluster=cluster, type=name)
    for name in ("batches", "unmissed_expired", "quarantined"):
        sheet.add(f"{PREFIX_JOB}{name}_total", job.counters.get(name, 0), cluster=cluster)
    for topic in ("events", "states", "dead_letters", "job"):
        sheet.add(f"{PREFIX_JOB}written_total", job.counters.get(topic, 0), cluster=cluster, topic=topic)
    bad = Counter(dict.fromkeys(_BAD_KINDS, 0))
    for counts in snapshot.bad_records.values():
        for one in counts:
            bad[one.kind] += one.records
    for kind, count in bad.items():
        sheet.add(f"{PREFIX_JOB}dead_letters_total", count, cluster=cluster, kind=kind)
    for event in EVENTS:
        severity = event.SEVERITY.name if issubclass(event, Condition) else "INFO"
        sheet.add(f"{PREFIX_JOB}events_total", 0, cluster=cluster, event=event.NAME, severity=severity)
    for (name, severity), count in snapshot.today.events.items():
        sheet.add(f"{PREFIX_JOB}events_total", count, cluster=cluster, event=name, severity=severity)


def _cluster(snapshot: TopicsSnapshot) -> str:
    return "" if snapshot.job is None else snapshot.job.cluster_id
