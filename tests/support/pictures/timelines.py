"""Timelines of small histories, as the program makes them from a log."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from groupreplay.app.text.event_text import text_of
from groupreplay.codecs import OffsetCommitValue
from groupreplay.state import Context
from groupreplay.state.output.envelope import cloud_event
from groupreplay.timeline.commit_rates import CommitLog
from groupreplay.timeline.document import TimelineDocument, TimelineSource
from groupreplay.timeline.group_timeline import timeline_document
from groupreplay.timeline.limits import TimelineLimits
from groupreplay.timeline.states import TimelineInput
from support.histories.builders import (
    CONTEXT,
    GROUP,
    Raw,
    commit,
    generation,
    group_record,
    member,
    placed,
    replay,
)

SOURCE = TimelineSource(
    command="groupreplay timeline",
    version="1",
    origin="a.parquet",
    cluster_id="test-cluster",
    topic_id="era-1",
    digest=None,
    redacted=(),
)
SECOND = 1_000
MINUTE = 60 * SECOND
#: 2026-01-01T00:00:00Z
BEGIN = 1_767_225_600_000


def bodies(history: Iterable[Raw], context: Context = CONTEXT) -> list[dict[str, Any]]:
    """The CloudEvents of a history."""
    _, events = replay(list(history), context)
    return [json.loads(cloud_event(event, context, event.time_ms).value) for event in events]


def commit_log(history: Iterable[Raw]) -> CommitLog:
    """Its commits."""
    commits = [one for one in history if isinstance(one.value, OffsetCommitValue)]
    places = sorted({(one.key.topic, one.key.partition) for one in commits})
    return CommitLog(
        places=tuple(places),
        place=np.array([places.index((one.key.topic, one.key.partition)) for one in commits], np.int64),
        at_ms=np.array([one.at for one in commits], np.int64),
        repeats=_repeats(commits),
    )


def _repeats(commits: Iterable[Raw]) -> int:
    before: dict[tuple[str, int], int] = {}
    repeats = 0
    for one in commits:
        place = (one.key.topic, one.key.partition)
        repeats += before.get(place) == one.value.offset
        before[place] = one.value.offset
    return repeats


def input_of(history: Iterable[Raw], **given: Any) -> TimelineInput:
    """What the program gives for a history; ``given`` replaces some of it."""
    records = placed(history)
    defaults: dict[str, Any] = {
        "group_id": GROUP,
        "source": SOURCE,
        "events": bodies(records),
        "end_ms": max(one.at for one in records),
        "has_log": True,
        "probed": True,
        "records": [group_record(one) for one in records],
        "commits": commit_log(records),
    }
    return TimelineInput(**{**defaults, **given})


def timeline_of(
    history: Iterable[Raw], limits: TimelineLimits | None = None, **given: Any
) -> TimelineDocument:
    """The timeline of a history; ``given`` replaces what the program would have given."""
    return timeline_document(input_of(history, **given), text_of, limits)


def history(names: tuple[str, str] = ("a", "b"), topic: str = "t") -> list[Raw]:
    """Two members take turns with four partitions of a topic, and commit."""
    first = member("a", (0, 1, 2, 3), client_id=names[0], topic=topic)
    both = (
        member("a", (0, 1), client_id=names[0], topic=topic),
        member("b", (2, 3), client_id=names[1], topic=topic),
    )
    records = [generation(0, at=BEGIN, since=BEGIN, protocol_type="")]
    for number in range(1, 9):
        at = BEGIN + number * MINUTE
        records.append(generation(number, *(both if number % 2 else (first,)), at=at))
        records += [commit(topic, one, number, at=at + 20 * SECOND) for one in range(4)]
    return records
