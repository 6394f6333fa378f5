"""Serves simulated captures with the pages of ``groupreplay serve``, for screenshots: no broker, no Spark.

The captures are read as of one moment. Their end is the present of the pages, and goes on.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from groupreplay.app.report.timelines import TimelineQuery, group_timelines
from groupreplay.app.serve.history.rows import CommitCounts
from groupreplay.app.serve.offsets_log.commit_sample import SAMPLE_MS, CommitSample, batch_commits
from groupreplay.app.serve.offsets_log.timelines import LiveTimelines
from groupreplay.state import Context
from groupreplay.streaming.contract.messages import Output
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.sources.capture import read_captures
from groupreplay.streaming.sources.source import Rows
from groupreplay.timeline.document import TimelineDocument
from support.pictures.live_pages import RunningTime, live_site
from support.pictures.timelines import SOURCE

#: Of the simulated brokers; `--scenario expiry` has its own.
_RETENTION_MS = 7 * 86_400_000
#: The time of the pages is so many times slower than that of the clock.
_SLOWER = 20


class Written:
    """The messages of a job."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        self.times: list[int] = []
        self.documents: dict[str, bytes | None] = {}


class Capture:
    """A capture up to a moment: what the job has written by then, and the timelines of its groups."""

    def __init__(self, path: Path, seconds: int, retention_ms: int = _RETENTION_MS) -> None:
        self.path = path
        self._retention_ms = retention_ms
        first = self._replayed(None)
        begin_ms = min(first.times)
        self.begin_ms, self.end_ms = begin_ms, begin_ms + seconds * 1000
        self.written = self._replayed(self.end_ms)
        self.commits = self._commits()

    def rows(self) -> Rows:
        """Its records and probes."""
        return read_captures([self.path], (), probes_topic="group-probes")

    def context(self, **more: Any) -> Context:
        """The settings of its replay."""
        rows = self.rows()
        return Context(
            cluster_id=rows.cluster_id, era=rows.era, retention_ms=self._retention_ms, probing=True, **more
        )

    def timeline(self, group: str, since_ms: int, until_ms: int) -> TimelineDocument | None:
        """The document of a group."""
        query = TimelineQuery(groups=[group], source=SOURCE, since_ms=since_ms, until_ms=until_ms)
        found, _ = group_timelines(self.rows(), self.context(member_events=True), query)
        return found[0] if found else None

    def _commits(self) -> CommitCounts:
        """The commits of the last minutes, as the page counts them in the offsets topic."""
        since_ms, found = self.end_ms - SAMPLE_MS, Counter[str]()
        for batch in self.rows().batches:
            at = batch["timestamp"]
            kept = pc.and_(pc.greater_equal(at, since_ms), pc.less(at, self.end_ms))
            found.update(batch_commits(batch.filter(kept)))
        return CommitCounts(since_ms, self.end_ms, dict(found))

    def _replayed(self, until_ms: int | None) -> Written:
        replay, made = Replay(self.context(), until_ms=until_ms), Written()
        for row in replay.feed(self.rows()):
            if row.output is Output.EVENTS and row.value is not None:
                made.events.append(row.value)
                at = datetime.fromisoformat(json.loads(row.value)["time"].replace("Z", "+00:00"))
                made.times.append(int(at.timestamp() * 1000))
            elif row.output is Output.STATES:
                made.documents[row.key.decode()] = row.value
        return made


@contextmanager
def served_captures(captures: Mapping[str, Capture]) -> Iterator[str]:
    """The address of a site that has each capture as a cluster, by name; the first one decides the time."""
    first = next(iter(captures.values()))

    def document(
        self: LiveTimelines, group: str, since_ms: int, until_ms: int | None
    ) -> TimelineDocument | None:
        return captures[self.cluster.name].timeline(
            group, since_ms, min(until_ms or sys.maxsize, self.cluster.clock())
        )

    def slow(self: RunningTime) -> int:
        """A busy machine needs minutes for a picture: they must not pass on it."""
        return self.begin_ms + int((time.monotonic() - self._begun) * 1_000 / _SLOWER)

    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(RunningTime, "__call__", slow),
        patch.object(LiveTimelines, "document", document),
        patch.object(CommitSample, "counts", lambda _: first.commits),
        live_site(Path(folder), first.end_ms, list(captures)) as site,
    ):
        for at, capture in enumerate(captures.values()):
            site.write(capture.written.events, list(capture.written.documents.items()), at)
            site.beat(at, started_ms=capture.begin_ms - 86_400_000)
        yield site.url("")
