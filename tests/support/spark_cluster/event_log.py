"""Spark's own record of what ran: its event log, for where tasks ran and for their speculative copies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: The RDD of a stage whose tasks read and write the state.
_STATE_RDD = "StateStoreRDD"


def event_log_conf(folder: Path) -> dict[str, str]:
    """The settings that make a job write its event log as lines of JSON into this folder, which must exist."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


@dataclass(frozen=True)
class TaskCopy:
    """A speculative copy of a task that has ended.

    ``is_stateful``: its stage reads and writes the state, and writes to the sink. ``reason`` is Spark's: ``Success``,
    ``TaskKilled``, ``TaskCommitDenied``, …
    """

    host: str
    is_stateful: bool
    reason: str


def task_copies(folder: Path) -> list[TaskCopy]:
    """The copies in the event logs of this folder; Spark writes the last events when a stage ends."""
    found = []
    for log in sorted(folder.iterdir()):
        stateful: set[int] = set()
        for event in _events(log):
            if event["Event"] == "SparkListenerStageSubmitted":
                stage = event["Stage Info"]
                if any(rdd["Name"] == _STATE_RDD for rdd in stage["RDD Info"]):
                    stateful.add(stage["Stage ID"])
            elif event["Event"] == "SparkListenerTaskEnd" and event["Task Info"]["Speculative"]:
                is_stateful = event["Stage ID"] in stateful
                reason = event["Task End Reason"]["Reason"]
                found.append(TaskCopy(event["Task Info"]["Host"], is_stateful, reason))
    return found


def task_hosts(folder: Path) -> list[str]:
    """The address on which each task ran that has succeeded, in the order in which they ended."""
    ended = [
        event
        for log in sorted(folder.iterdir())
        for event in _events(log)
        if event["Event"] == "SparkListenerTaskEnd"
    ]
    return [one["Task Info"]["Host"] for one in ended if one["Task End Reason"]["Reason"] == "Success"]


def _events(log: Path) -> Iterator[Mapping[str, Any]]:
    for line in log.read_text(encoding="utf-8").splitlines():
        # The last line of a log that is written now may be torn.
        if line.endswith("}") and ("SparkListenerTaskEnd" in line or "SparkListenerStageSubmitted" in line):
            yield json.loads(line)
