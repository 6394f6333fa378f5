"""The exporter reads the topics of a job; and when a job counts as working, by its last document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic
from prometheus_client.parser import text_string_to_metric_families

from groupreplay.app.exporter import feed as feed_module
from groupreplay.app.exporter.feed import Limits, SinkFeed, heartbeat_age, is_fresh, is_up
from groupreplay.app.exporter.server import Exporter
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.messages import JOB_KEY
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.sinks.known_groups import DAY_MS
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from support.job.sink_messages import SINCE_MS, document, events, expired, job_document, stable, stuck
from support.kafka.waiting import wait_until
from support.kafka.written_topics import WrittenTopics
from support.tools.hostile_json import BYTES

NOW = SINCE_MS + 200_000
HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics that are missing are sought again at once."""
    monkeypatch.setattr(feed_module, "_PAUSE_SECONDS", 0.1)


class Sink(WrittenTopics):
    """The topics of a job, written by hand."""

    def __init__(self, broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
        super().__init__(broker.bootstrap_servers)
        self.cluster = Cluster(bootstrap_servers=broker.bootstrap_servers)
        self.names = TopicNames(events=unique("events"), states=unique("states"), job=unique("job"))


@contextmanager
def reading(sink: Sink, **settings: float) -> Iterator[SinkFeed]:
    """A feed that has been started, and is closed at the end."""
    feed = SinkFeed(sink.cluster, sink.names, now_ms, **settings)
    feed.start()
    try:
        yield feed
    finally:
        feed.close()


def groups(feed: SinkFeed) -> list[str] | None:
    """The groups that it knows, once it has read the topics."""
    return feed.evaluate(lambda seen: None if seen is None else sorted(seen.groups))


@pytest.mark.broker
def test_reads_what_a_job_writes(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """From topics that come later than the exporter; each scrape has what was written until then.

    Events of the day before are not counted, and no group is left behind.
    """
    sink, (calm, emitted), (sick, _) = Sink(broker, unique), stable(), stuck()
    before, names = sink.groups(), sink.names

    def found() -> dict[str, float]:
        families = text_string_to_metric_families(shown.page("/metrics", "").body.decode())
        samples = [
            sample for family in families for sample in family.samples if "consumergroup" in sample.labels
        ]
        return {f"{sample.name} {sample.labels['consumergroup']}": sample.value for sample in samples}

    with reading(sink) as feed:
        shown = Exporter(feed, Limits(), now_ms)
        assert shown.page("/readyz", "").status == 503
        sink.create(names.events, names.states, names.job)
        sink.write(names.states, b"calm", document(calm, "calm"))
        sink.write(names.states, b"sick", document(sick, "sick"))
        sink.write(names.events, b"calm", *events(emitted, "calm")[:1], at_ms=now_ms() - DAY_MS)
        sink.write(names.events, b"calm", *events(emitted, "calm")[1:])
        sink.write(names.job, JOB_KEY, job_document(now_ms()))
        wait_until(lambda: shown.page("/readyz", "").status == 200)
        first = found()
        assert first["kafka_consumergroup_rebalances_total calm"] == 1
        assert first["kafka_consumergroup_group_state sick"] == 1
        assert first["kafka_consumergroup_condition sick"] == 1
        sink.write(names.events, b"sick", *events([expired(2)], "sick"))
        sink.write(names.states, b"sick", None)
        wait_until(lambda: found().get("kafka_consumergroup_offsets_expired_total sick") == 2)
        wait_until(lambda: "kafka_consumergroup_group_state sick" not in found())
        assert sink.groups() - before == set()
    assert not feed.alive
    assert shown.page("/healthz", "").status == 503


@pytest.mark.broker
def test_a_topic_that_grows(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """What is written to new partitions is found, too."""
    from confluent_kafka.admin import NewPartitions

    sink, (calm, _) = Sink(broker, unique), stable()
    names = sink.names
    sink.create(names.events, names.states, names.job)
    with reading(sink, check_seconds=0.3) as feed:
        wait_until(lambda: groups(feed) == [])
        sink.admin.create_partitions([NewPartitions(names.states, 8)])[names.states].result(30)
        wait_until(
            lambda: len(sink.admin.list_topics(names.states, timeout=30).topics[names.states].partitions) == 8
        )
        keys = [f"g{number}".encode() for number in range(30)]
        for key in keys:
            sink.write(names.states, key, document(calm, key.decode()))
        wait_until(lambda: groups(feed) == sorted(key.decode() for key in keys))


@pytest.mark.broker
def test_a_topic_that_was_made_anew(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """It is read from its beginning; what only the former one held is forgotten."""
    sink, (calm, _) = Sink(broker, unique), stable()
    names = sink.names
    sink.create(names.events, names.states, names.job)
    sink.write(names.states, b"a", *[document(calm, "a")] * 3)
    with reading(sink) as feed:
        wait_until(lambda: groups(feed) == ["a"])
        sink.admin.delete_topics([names.states])[names.states].result(30)
        wait_until(lambda: names.states not in sink.admin.list_topics(timeout=30).topics)
        sink.create(names.states)
        sink.write(names.states, b"b", document(calm, "b"))
        wait_until(lambda: groups(feed) == ["b"])


@pytest.mark.broker
def test_bad_messages_do_not_end_the_feed(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """They are counted once each, the feed does not start over, and what is written behind them is shown."""
    sink, (calm, _) = Sink(broker, unique), stable()
    names = sink.names
    sink.create(names.states, names.job, partitions=1)
    # Brokers before 4.0 accept every timestamp.
    lax = NewTopic(names.events, 1, config={"message.timestamp.after.max.ms": str(2**62)})
    sink.admin.create_topics([lax])[names.events].result(30)
    for topic in (names.events, names.states, names.job):
        sink.write(topic, b"bad", *BYTES)
    # Dated a year ahead: it must neither begin another day nor count today.
    ahead = events(stable()[1], "ahead")
    sink.write(names.events, b"ahead", *ahead, at_ms=now_ms() + 365 * DAY_MS)
    sink.write(names.states, b"calm", document(calm, "calm"))
    sink.write(names.job, JOB_KEY, job_document(now_ms()))
    with reading(sink) as feed:
        wait_until(lambda: groups(feed) == ["calm"])
        seen = feed.evaluate(lambda snapshot: snapshot)
        assert seen is not None
        # In the topic of the job some of them are objects, and without fields that must be there.
        assert len(BYTES) * 2 < seen.unreadable <= len(BYTES) * 3
        assert (feed.trouble, seen.today.number) == ("", -1)
        assert seen.today.rebalances == {}
        unreadable = seen.unreadable
        sink.write(names.events, b"bad", *BYTES)
        wait_until(lambda: feed.evaluate(lambda now: now and now.unreadable) == unreadable + len(BYTES))
        assert feed.evaluate(lambda snapshot: snapshot) is seen


def written(at_ms: int, **fields: Any) -> TopicsSnapshot:
    """The job's document, written at this time."""
    seen = TopicsSnapshot()
    seen.take_job(JOB_KEY, job_document(at_ms, **fields))
    return seen


@pytest.mark.parametrize(
    ("silent_ms", "timeout_seconds", "fresh"),
    [
        (30_000, None, True),
        (30_001, None, False),
        (30_001, 60.0, True),
        (5_001, 5.0, False),
        (-60_000, None, True),  # a clock that is ahead of ours
    ],
)
def test_a_heartbeat_is_fresh(silent_ms: int, timeout_seconds: float | None, fresh: bool) -> None:
    """For three triggers of ten seconds, or as long as the flag sets."""
    seen = written(NOW - silent_ms)
    assert is_fresh(seen, NOW, Limits(timeout_seconds=timeout_seconds)) is fresh


@pytest.mark.parametrize(
    ("age_ms", "phase", "caught_up_ms", "timeout_seconds", "fresh"),
    [
        # Between two runs the time up to which the last one has read counts.
        (HOUR_MS, "stopped", NOW - 2 * HOUR_MS, None, True),
        (HOUR_MS, "stopped", NOW - 2 * HOUR_MS - 1, None, False),
        (HOUR_MS, "stopped", NOW - 3 * HOUR_MS, 3 * 3_600.0, True),
        (0, "stopped", NOW - 901_000, 900.0, False),
        # One run after the other that fails writes documents, and reads nothing.
        (0, "stopped", None, 900.0, False),
        # A run that has just begun lives.
        (10_000, "catching_up", None, 900.0, True),
        (30_001, "catching_up", None, 900.0, False),
    ],
)
def test_single_runs_are_fresh(
    age_ms: int, phase: str, caught_up_ms: int | None, timeout_seconds: float | None, fresh: bool
) -> None:
    """No alert between two runs, and one when they fail or are not started any more."""
    seen = written(NOW - age_ms, once=True, phase=phase, caught_up_ms=caught_up_ms)
    limits = Limits(timeout_seconds=timeout_seconds)
    assert (is_fresh(seen, NOW, limits), is_up(seen, NOW, limits)) == (fresh, fresh)


@pytest.mark.parametrize("off_ms", [-3_600_000, 0, 3_600_000])
def test_the_clock_of_the_job_does_not_matter(off_ms: int) -> None:
    """The broker has dated its document: a job is down when it writes nothing more, and only then."""
    seen = TopicsSnapshot()
    seen.take_job(JOB_KEY, job_document(NOW + off_ms), NOW)
    assert [is_fresh(seen, NOW + age_ms, Limits()) for age_ms in (30_000, 30_001)] == [True, False]
    assert heartbeat_age(seen, NOW + 4_000) == 4


def test_a_quick_job_may_miss_a_beat() -> None:
    """With a trigger of a second, three of them are shorter than a scrape."""
    seen = written(NOW, trigger_seconds=1)
    assert [is_fresh(seen, NOW + age_ms, Limits()) for age_ms in (10_000, 10_001)] == [True, False]


def test_a_stopped_query_is_no_job() -> None:
    """Its heartbeat is fresh; also when a scheduler has ended a single run in an outage."""
    stopped = {"running": False, "since_ms": 1, "error": None}
    for seen in (written(NOW, query=stopped), written(NOW, query=stopped, once=True, phase="stopped")):
        assert (is_fresh(seen, NOW, Limits()), is_up(seen, NOW, Limits())) == (True, False)


def test_nothing_is_known_of_a_job() -> None:
    """Before it has written anything."""
    assert not is_fresh(TopicsSnapshot(), NOW, Limits())
    assert not is_up(TopicsSnapshot(), NOW, Limits())
