"""What the API sends of a cluster and its job, from the snapshot of the topics. The time is an argument."""

from __future__ import annotations

from collections import Counter
from typing import Any

from groupreplay.app.exporter.freshness import Limits, is_fresh, is_up, silence_seconds
from groupreplay.streaming.contract.job_document import JobDocument
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot

Json = dict[str, Any]


def job_summary(
    snapshot: TopicsSnapshot | None,
    now_ms: int,
    limits: Limits,
    trouble: str,
    answering_ms: int | None = None,
) -> Json:
    """The job's own health; ``trouble`` is why the topics cannot be read at this moment, empty when they can.

    They could be read since ``answering_ms`` without a gap (None: not known).
    """
    job = None if snapshot is None else snapshot.job
    if snapshot is None or job is None:
        missing = (
            "the job's topics have not been read to their ends yet"
            if snapshot is None
            else "there is no job yet"
        )
        return {**_UNKNOWN, "up": None if trouble or snapshot is None else False, "error": trouble or missing}
    held = [
        {"name": one.condition, "severity": one.severity, "what": one.what}
        for one in dict.fromkeys(snapshot.job_conditions)
    ]
    return {
        **_UNKNOWN,
        **_of_document(job),
        "up": None if trouble else _is_up(snapshot, job, now_ms, limits, answering_ms),
        "silent": None if trouble else not is_fresh(snapshot, now_ms, limits),
        "heartbeat_ms": snapshot.heartbeat_ms,
        "behind_ms": None if job.caught_up_ms is None else max(0, snapshot.heartbeat_ms - job.caught_up_ms),
        "error": trouble or job.query.error or None,
        "conditions": held,
        "groups": len(snapshot.groups),
        "bad_records": _bad_records(snapshot),
    }


def _is_up(
    snapshot: TopicsSnapshot, job: JobDocument, now_ms: int, limits: Limits, answering_ms: int | None
) -> bool | None:
    """None: nobody could have written a heartbeat, or read it, for as long as a job may be silent."""
    if is_up(snapshot, now_ms, limits):
        return True
    is_new = answering_ms is not None and now_ms - answering_ms <= 1_000 * silence_seconds(job, limits)
    return None if is_new and not is_fresh(snapshot, now_ms, limits) else False


_UNKNOWN: Json = {
    "up": None,
    "silent": None,
    "query_running": None,
    "phase": None,
    "once": None,
    "version": None,
    "host": None,
    "trigger_seconds": None,
    "started_ms": None,
    "heartbeat_ms": None,
    "caught_up_ms": None,
    "behind_ms": None,
    "error": None,
    "conditions": [],
    "groups": 0,
    "state_rows": None,
    "lag_offsets": None,
    "batch": None,
    "restarts": None,
    "rules_error": None,
    "prober": None,
    "bad_records": {},
}


def _of_document(job: JobDocument) -> Json:
    prober = job.prober
    return {
        "query_running": job.query.running,
        "phase": job.phase,
        "once": job.once,
        "version": job.version,
        "host": job.host,
        "trigger_seconds": job.trigger_seconds,
        "started_ms": job.started_ms,
        "caught_up_ms": job.caught_up_ms,
        "state_rows": job.state_rows,
        "lag_offsets": job.lag.offsets,
        "batch": None if job.batch is None else {"seconds": job.batch.seconds, "rows": job.batch.rows},
        "restarts": job.restarts,
        "rules_error": job.rules.error,
        "prober": None
        if prober is None
        else {
            "round_ms": prober.round_ms,
            "groups": prober.groups,
            "brokers": len(prober.brokers),
            "silent_brokers": sorted(name for name, error in prober.brokers.items() if error is not None),
        },
    }


def _bad_records(snapshot: TopicsSnapshot) -> dict[str, int]:
    counts = Counter[str]()
    for found in snapshot.bad_records.values():
        for one in found:
            counts[one.kind] += one.records
    return dict(counts)
