"""When the driver writes heartbeats, and that no failure stops it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from groupreplay.streaming.base.clock import AppendedMessage, BrokerClock
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.kafka.publisher import MessageTooLargeError
from groupreplay.streaming.run.heartbeat import HeartbeatWriter
from groupreplay.streaming.run.interface import Batch
from groupreplay.streaming.run.status import JobReport
from groupreplay.version import __version__
from support.job.progress import IDENTITY, batch
from support.kafka.waiting import wait_until

TOPICS = TopicNames()
HOUR_MS = 3_600_000


class Cluster:
    """A log that is written and read by hand, and everything that was published about it."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        #: What somebody has added to the clock of the machine.
        self.set_by_ms = 0
        self.ends = {0: 5, 1: 0}
        self.finished: list[Batch] = []
        self.published: list[tuple[str, bytes, dict[str, Any]]] = []
        self.broken = False
        self.most_bytes = 1 << 20
        #: Topics that cannot be written.
        self.refused: set[str] = set()
        self.high: Mapping[int, int] | None = {1: 4, 0: 8}
        self.report = JobReport(IDENTITY, seconds=lambda: self.now_ms / 1_000)
        self.heartbeat = HeartbeatWriter(
            report=self.report,
            topics=TOPICS,
            partitions=2,
            ends=self._ends,
            high_watermarks=self._high_watermarks,
            progress=lambda: list(self.finished),
            publish=self._publish,
            clock=BrokerClock(lambda: self.now_ms + self.set_by_ms, lambda: self.now_ms / 1_000),
            seconds=lambda: self.now_ms / 1_000,
        )

    def _ends(self) -> Mapping[int, int]:
        if self.broken:
            raise OSError("no broker")
        # The answer takes a while, in which records are written.
        self.now_ms += 7
        return dict(self.ends)

    def _high_watermarks(self) -> Mapping[int, int]:
        if self.high is None:
            raise OSError("no broker")
        return self.high

    def _publish(self, topic: str, key: bytes, value: bytes) -> None:
        if self.broken or topic in self.refused:
            raise OSError(f"no broker for {topic}")
        if len(value) > self.most_bytes:
            raise MessageTooLargeError("too large")
        self.published.append((topic, key, json.loads(value)))

    def finish(self, number: int, read: Mapping[int, int]) -> None:
        """A batch has ended, and the writer's turn comes."""
        self.finished = [batch(number, read)]
        self.heartbeat.tick()

    def beats(self) -> list[int | None]:
        """The caught-up times published so far."""
        return [value["caught_up_ms"] for topic, _, value in self.published if topic == TOPICS.probes]


def test_topics_that_take_only_small_messages() -> None:
    """The heartbeat does without high watermarks, the document without some partitions: both go on."""
    cluster = Cluster()
    cluster.ends = dict.fromkeys(range(300), 10**9)
    cluster.high = dict.fromkeys(range(300), 10**9)
    cluster.most_bytes = 2_000
    cluster.heartbeat.tick()
    (_, _, beat), (_, _, document) = cluster.published
    assert (beat["kind"], beat["at_ms"], beat["high_watermarks"]) == ("heartbeat", 1_000_007, {})
    assert (document["truncated"], document["run_id"], document["lag"]["offsets"]) == (
        True,
        IDENTITY.run_id,
        300 * 10**9,
    )


def test_a_beat_is_published_once_all_its_ends_were_passed() -> None:
    """Every partition must have been read to its end at the moment T; T, not now, is then published."""
    cluster = Cluster()
    cluster.heartbeat.tick()
    cluster.finish(0, {0: 4, 1: 0})
    assert cluster.beats() == [None]
    cluster.now_ms += 60_000
    cluster.ends = {0: 6, 1: 0}
    cluster.finish(1, {0: 5, 1: 0})
    assert cluster.beats() == [None, 1_000_000]
    assert cluster.report.announced_ms == 1_000_000
    (topic, key, beat) = [one for one in cluster.published if one[0] == TOPICS.probes][-1]
    assert (topic, key, beat) == (
        "group-probes",
        b"\0",
        {
            "kind": "heartbeat",
            "cluster_id": "c",
            "era": "e",
            "job_id": "j",
            "run_id": "r",
            "at_ms": 1_060_014,
            "caught_up_ms": 1_000_000,
            "offsets": {"0": 5, "1": 0},
            "unmissed_expired": 0,
            "dead_letters": 0,
            "quarantined": 0,
            "release": __version__,
            "retries": False,
            "high_watermarks": {"0": 8, "1": 4},
            "clock_off_ms": None,
            "unanswered": [],
            "query_stopped_ms": None,
            "query_error": "",
            "told_to": 0,
        },
    )


def test_a_heartbeat_is_written_without_high_watermarks() -> None:
    """They only serve to check the brokers' clocks; the groups wait for the heartbeat."""
    cluster = Cluster()
    cluster.high = None
    cluster.heartbeat.write_heartbeat()
    ((_, _, written),) = cluster.published
    assert (written["at_ms"], written["high_watermarks"]) == (1_000_000, {})


def test_a_clock_that_is_off_is_corrected_and_told() -> None:
    """All times are the brokers'; the heartbeat and the document say by how much the machine is ahead."""
    cluster = Cluster()
    cluster.set_by_ms = HOUR_MS
    cluster.heartbeat.clock.note([AppendedMessage(1_000.0, 1_000.0, 1_000_000)])
    cluster.finish(0, {0: 5, 1: 0})
    (beat, document) = [value for _, _, value in cluster.published]
    assert (beat["at_ms"], beat["caught_up_ms"], beat["clock_off_ms"]) == (1_000_007, 1_000_000, HOUR_MS)
    assert (document["heartbeat_ms"], document["clock_off_ms"]) == (1_000_007, HOUR_MS)


def test_nothing_is_claimed_before_the_first_batch() -> None:
    """An empty topic counts as read only after Spark has reported a batch."""
    cluster = Cluster()
    cluster.ends = {0: 0, 1: 0}
    cluster.heartbeat.tick()
    cluster.heartbeat.tick()
    assert cluster.beats() == [None]


def test_a_job_that_is_behind_says_so() -> None:
    """Until the ends are reached, the last caught-up time is repeated once a trigger, with the present time."""
    cluster = Cluster()
    cluster.finish(0, {0: 5, 1: 0})
    cluster.ends = {0: 9, 1: 0}
    for _ in range(50):
        cluster.now_ms += 500
        cluster.heartbeat.tick()
    written = [value for topic, _, value in cluster.published if topic == TOPICS.probes]
    assert [(one["at_ms"], one["caught_up_ms"], one["offsets"]) for one in written] == [
        (at_ms, 1_000_000, {"0": 5, "1": 0}) for at_ms in (1_000_007, 1_010_049, 1_020_098)
    ]


def test_one_beat_a_trigger() -> None:
    """A heartbeat is itself a message that Spark reads: more of them would only be work."""
    cluster = Cluster()
    cluster.finished = [batch(0, {0: 5, 1: 0})]
    for _ in range(40):
        cluster.heartbeat.tick()
        cluster.now_ms += 500
    assert cluster.beats() == [1_000_000, 1_009_042]


def two_minutes(set_by_ms: int) -> tuple[list[tuple[str, int]], list[int]]:
    """Topic and real time of every message, and the caught-up times, if somebody sets the clock after a minute."""
    cluster = Cluster()
    timeline: list[tuple[str, int]] = []
    for number in range(240):
        cluster.set_by_ms = set_by_ms if number >= 120 else 0
        cluster.ends = {0: number, 1: 0}
        cluster.finish(number // 20, {0: number // 20 * 20, 1: 0})
        timeline += [(topic, cluster.now_ms) for topic, _, _ in cluster.published[len(timeline) :]]
        cluster.now_ms += 500
    return timeline, [one for one in cluster.beats() if one is not None]


@pytest.mark.parametrize("set_by_ms", [-HOUR_MS, HOUR_MS, 365 * 24 * HOUR_MS])
def test_a_clock_that_somebody_sets_changes_no_schedule(set_by_ms: int) -> None:
    """Heartbeats and documents come when they would have come; only the times in them are those of the clock."""
    timeline, caught_up = two_minutes(0)
    set_timeline, set_caught_up = two_minutes(set_by_ms)
    assert (len(timeline), set_timeline) == (24, timeline)
    moved = [after - before for before, after in zip(caught_up, set_caught_up, strict=True)]
    assert sorted(set(moved), key=abs) == [0, set_by_ms]


def test_a_batch_that_ends_is_news() -> None:
    """It has reached all ends taken before it began; the latest of them is written without waiting for the trigger."""
    cluster = Cluster()
    cluster.finish(0, {0: 5, 1: 0})
    for end in (6, 7, 8, 9):
        cluster.now_ms += 2_000
        cluster.ends = {0: end, 1: 0}
        cluster.heartbeat.tick()
    cluster.finish(1, {0: 7, 1: 0})
    assert cluster.beats() == [1_000_000, 1_004_014]


def test_a_job_that_is_far_behind_keeps_few_ends() -> None:
    """In growing steps; a caught-up time is never too late."""
    cluster = Cluster()
    cluster.heartbeat.tick()
    for end in range(6, 1_000):
        cluster.now_ms += 10_000
        cluster.ends = {0: end, 1: 0}
        cluster.heartbeat.tick()
    assert len(cluster.heartbeat._unread) <= 64
    cluster.finish(0, {0: 995, 1: 0})
    last = cluster.beats()[-1]
    assert last is not None
    assert 1_000_000 + 10_000 * 900 <= last < 1_000_000 + 10_007 * 991


def test_a_waking_heartbeat_claims_nothing() -> None:
    """It is only there so that Spark has something to read."""
    cluster = Cluster()
    cluster.heartbeat.write_heartbeat()
    assert cluster.beats() == [None]
    assert cluster.report.caught_up_ms is None


def test_the_document_says_how_far_the_job_is() -> None:
    """Lag by partition against fresh ends, the last batch, and the phase, once a trigger."""
    cluster = Cluster()
    cluster.ends = {0: 9, 1: 3}
    cluster.finish(0, {0: 5})
    cluster.heartbeat.tick()
    documents = [value for topic, key, value in cluster.published if (topic, key) == ("group-job", b"\0job")]
    assert len(documents) == 1
    assert documents[0]["lag"] == {"offsets": 7, "partitions": {"0": 4, "1": 3}}
    assert documents[0]["phase"] == "catching_up"


def test_the_thread_survives_whatever_happens() -> None:
    """A broker that is away stops nothing: the ticks go on, and go through when it is back."""
    cluster = Cluster()
    cluster.broken = True
    cluster.finished = [batch(0, {0: 5, 1: 0})]
    thread = cluster.heartbeat.background()
    cluster.heartbeat.wake_query()
    thread.start()
    cluster.broken = False
    wait_until(lambda: 1_000_000 in cluster.beats())
    thread.close()
    assert cluster.published[-1][0] == TOPICS.job


def test_a_broken_end_is_no_hindrance() -> None:
    """Closing writes the document a last time if it can, and returns if it cannot."""
    cluster = Cluster()
    thread = cluster.heartbeat.background()
    thread.start()
    cluster.broken = True
    thread.close()


def said(cluster: Cluster) -> list[dict[str, Any]]:
    """The heartbeats so far."""
    return [value for topic, _, value in cluster.published if topic == TOPICS.probes]


def test_one_partition_without_a_leader_hides_nothing() -> None:
    """It is named at once, all else goes on; the caught-up time waits, because it may hold older records."""
    cluster = Cluster()
    cluster.finish(0, {0: 5, 1: 0})
    cluster.now_ms += 2_000
    cluster.ends = {0: 7}
    cluster.finish(1, {0: 7, 1: 0})
    assert [(one["caught_up_ms"], one["unanswered"]) for one in said(cluster)] == [
        (1_000_000, []),
        (1_000_000, [1]),
    ]
    assert cluster.report.ends == {0: 7, 1: 0}
    for _ in range(100):
        cluster.now_ms += 300
        cluster.heartbeat.tick()
    assert {one["caught_up_ms"] for one in said(cluster)} == {1_000_000}
    assert said(cluster)[-1]["high_watermarks"] == {}
    cluster.ends = {0: 7, 1: 0}
    cluster.now_ms += 2_000
    back_ms = cluster.now_ms
    cluster.heartbeat.tick()
    cluster.finish(2, {0: 7, 1: 0})
    assert (said(cluster)[-1]["caught_up_ms"], said(cluster)[-1]["unanswered"]) == (back_ms, [])


def test_a_source_that_is_away_is_told() -> None:
    """The topics of the job may be on another cluster: heartbeats and documents go on."""
    cluster = Cluster()
    cluster.finish(0, {0: 5, 1: 0})
    cluster.ends = {}
    for _ in range(200):
        cluster.now_ms += 250
        cluster.heartbeat.tick()
    assert len(said(cluster)) == 6
    assert said(cluster)[-1]["unanswered"] == [0, 1]
    documents = [value for topic, _, value in cluster.published if topic == TOPICS.job]
    assert len(documents) == 6
    assert documents[-1]["caught_up_ms"] == 1_000_000


def test_a_topic_that_cannot_be_written_stops_no_other() -> None:
    """The document is written although the heartbeat is refused, and the other way round; the failure is reported."""
    for refused, left in ((TOPICS.probes, TOPICS.job), (TOPICS.job, TOPICS.probes)):
        cluster = Cluster()
        cluster.refused = {refused}
        for _ in range(60):
            cluster.now_ms += 500
            with suppress(OSError):
                cluster.heartbeat.tick()
        assert {topic for topic, _, _ in cluster.published} == {left}
        assert len(cluster.published) >= 3
        cluster.now_ms += 10_000
        with pytest.raises(OSError, match=f"no broker for {refused}"):
            cluster.heartbeat.tick()


def test_a_query_that_stands_still_is_told() -> None:
    """At once, then at least every ten seconds however long the trigger is; and at once when it reads again."""
    cluster = Cluster()
    identity = replace(IDENTITY, trigger_seconds=60)
    cluster.report.identity = identity
    cluster.report.query.trigger_seconds = 60
    cluster.finish(0, {0: 5, 1: 0})
    cluster.report.query_failed("disk full")
    cluster.report.told_to = 4
    for _ in range(100):
        cluster.now_ms += 500
        cluster.heartbeat.tick()
    stopped = [one for one in said(cluster) if one["query_stopped_ms"] is not None]
    assert {(one["query_stopped_ms"], one["query_error"], one["told_to"]) for one in stopped} == {
        (1_000_007, "disk full", 4)
    }
    assert [round((one["at_ms"] - 1_000_007) / 1_000) for one in stopped] == [30, 40, 50]
    cluster.report.query_started()
    cluster.finish(1, {0: 5, 1: 0})
    assert said(cluster)[-1]["query_stopped_ms"] is None


def test_a_jvm_that_is_gone_stops_no_heartbeat() -> None:
    """Whatever the query's progress is asked for raises."""
    cluster = Cluster()

    def gone() -> list[Mapping[str, Any]]:
        raise ConnectionError("the JVM is gone")

    cluster.heartbeat.progress = gone
    with pytest.raises(ConnectionError, match="JVM"):
        cluster.heartbeat.tick()
    assert [topic for topic, _, _ in cluster.published] == [TOPICS.probes, TOPICS.job]
