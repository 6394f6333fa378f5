"""Pages and metrics get the messages of an engine in this process as they would from the job's topics."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from groupreplay.app.exporter.feed import Feed, Limits
from groupreplay.app.serve.history.writer import Bounds, HistoryWriter
from groupreplay.app.serve.local_feed import LocalFeed
from groupreplay.app.serve.watched_cluster import ClusterToServe, TopicRecorder, WatchedCluster
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.messages import Output, OutputRow
from support.job.sink_messages import SINCE_MS, document, events, stuck
from support.serve.written_clusters import served_cluster

NOW_MS = SINCE_MS + 60_000


def test_messages_are_shown_when_the_log_was_read(tmp_path: Path) -> None:
    """Before there is no snapshot and the reason; then the group with its document, and its event in the history."""
    topics, source = TopicNames(), Cluster(bootstrap_servers="127.0.0.1:1")
    feeds: list[LocalFeed] = []

    def feed_of(recorder: TopicRecorder) -> Feed:
        feeds.append(LocalFeed(recorder, topics, "e", [("t", 0)], lambda: NOW_MS))
        return feeds[0]

    cluster = WatchedCluster(
        ClusterToServe(name="kafka", source=source, sink=source, topics=topics),
        tmp_path / "history.db",
        Bounds(age_ms=86_400_000, size_bytes=1 << 24),
        Limits(),
        lambda: NOW_MS,
        feed_of=feed_of,
    )
    (feed,) = feeds
    group, emitted = stuck()
    values = events(emitted)
    feed.take(
        [
            OutputRow(Output.STATES, b"pay", document(group, "pay")),
            *(OutputRow(Output.EVENTS, b"pay", value) for value in values),
        ]
    )
    assert feed.evaluate(lambda snapshot: snapshot) is None
    assert feed.trouble == "the log has not been read to its end yet"
    feed.complete()
    assert feed.evaluate(lambda snapshot: list(snapshot.groups) if snapshot else None) == ["pay"]
    counts = cluster.ask(
        lambda db: [
            db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("groups", "events")
        ]
    )
    assert (counts, feed.trouble, feed.alive) == ([1, len(values)], "", True)
    cluster.file.close()
    feed.close()
    assert not feed.alive


def test_a_disk_that_is_full_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be stored is stored when there is room again: nobody could read it a second time."""
    feeds: list[LocalFeed] = []

    def feed_of(recorder: TopicRecorder) -> Feed:
        feeds.append(LocalFeed(recorder, TopicNames(), "e", [("t", 0)], lambda: NOW_MS))
        return feeds[0]

    with served_cluster(tmp_path, NOW_MS, feed_of=feed_of) as cluster:
        (feed,) = feeds
        feed.complete()
        _, emitted = stuck()
        first, second, *others = events(emitted)
        with monkeypatch.context() as patch:
            patch.setattr(HistoryWriter, "_store", refuse)
            for value in (first, second):
                feed.take([OutputRow(Output.EVENTS, b"pay", value)])
            assert cluster.history.trouble == "database or disk is full"
        feed.take([OutputRow(Output.EVENTS, b"pay", value) for value in others])
        (count,) = cluster.ask(lambda db: db.execute("SELECT count(*) FROM events").fetchone())
        assert (count, cluster.history.trouble) == (2 + len(others), "")


def refuse(*_: object) -> None:
    """A disk without room."""
    raise sqlite3.OperationalError("database or disk is full")
