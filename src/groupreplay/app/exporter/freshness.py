"""Whether the job works, by its last document; between single runs, whether one has worked not long ago.

The time is an argument: this module reads no clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from groupreplay.streaming.contract.job_document import STOPPED, JobDocument
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot

#: A single run counts as fresh for this long after the time up to which it has read: schedules are shorter.
_ONCE_TIMEOUT_SECONDS: Final = 7_200.0
#: The least age at which a heartbeat is late, whatever the trigger: scrapes are not more frequent.
_LEAST_TIMEOUT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_groups`` have series. Without a heartbeat for ``timeout_seconds`` the job is down; None: 3 triggers.

    With single runs (``run --once``) the time counts from the last caught-up time; None: two hours.
    """

    max_groups: int = 5_000
    timeout_seconds: float | None = None


def heartbeat_age(snapshot: TopicsSnapshot, now_ms: int) -> float:
    """Seconds since the broker appended the job's last document; 0 when its clock is ahead.

    The clock of the job's machine does not count, unless clients date the messages of the topic.
    """
    return max(0, now_ms - snapshot.heartbeat_ms) / 1000


def silence_seconds(job: JobDocument, limits: Limits) -> float:
    """For how long a job that runs may write nothing until it is down."""
    return limits.timeout_seconds or _timeout_seconds(job)


def _timeout_seconds(job: JobDocument) -> float:
    return max(3 * job.trigger_seconds, _LEAST_TIMEOUT_SECONDS)


def is_fresh(snapshot: TopicsSnapshot, now_ms: int, limits: Limits) -> bool:
    """Whether the job's heartbeat is not late; between single runs, whether one has caught up not long ago."""
    job = snapshot.job
    if job is None:
        return False
    timeout = _timeout_seconds(job)
    if not job.once:
        return heartbeat_age(snapshot, now_ms) <= silence_seconds(job, limits)
    # Runs that fail write heartbeats, too: between runs only what they have read counts.
    if job.phase != STOPPED and heartbeat_age(snapshot, now_ms) <= timeout:
        return True
    caught_up_ms = -math.inf if job.caught_up_ms is None else job.caught_up_ms
    return now_ms - caught_up_ms <= 1_000 * (limits.timeout_seconds or _ONCE_TIMEOUT_SECONDS)


def is_up(snapshot: TopicsSnapshot, now_ms: int, limits: Limits) -> bool:
    """Whether the job follows the groups: its heartbeat is not late, and a query reads the log."""
    job = snapshot.job
    return job is not None and job.query.running and is_fresh(snapshot, now_ms, limits)
