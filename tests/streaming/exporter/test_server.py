"""The exporter: reading the topics of a job, and answering over HTTP."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.job_document import JOB_KEY
from groupreplay.streaming.exporter.collector import Limits
from groupreplay.streaming.exporter.server import Exporter, SinkFeed, open_server
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.sinks.topics_snapshot import DAY_MS, TopicsSnapshot
from support.job.sink_messages import SINCE_MS, document, events, expired, job_document, stable, stuck
from support.kafka.waiting import wait_until

NOW = SINCE_MS + 200_000


class Still:
    """A feed that shows one picture."""

    def __init__(self, picture: TopicsSnapshot | None, *, alive: bool = True, trouble: str = "") -> None:
        self.picture, self.alive, self.trouble = picture, alive, trouble

    def look(self, measure: Callable[[TopicsSnapshot | None], Any]) -> Any:
        """What the function says of it."""
        return measure(self.picture)


def exporter(picture: TopicsSnapshot | None, **feed: Any) -> Exporter:
    """One that shows this picture."""
    return Exporter(cast("SinkFeed", Still(picture, **feed)), Limits(), lambda: NOW)


def picture(heartbeat_ms: int | None = NOW) -> TopicsSnapshot:
    """A group that is stuck, and the job."""
    made = TopicsSnapshot()
    made.take_state(b"g", document(stuck()[0]))
    if heartbeat_ms is not None:
        made.take_job(JOB_KEY, job_document(heartbeat_ms))
    return made


@contextmanager
def served(shown: Exporter) -> Iterator[Callable[..., http.client.HTTPResponse]]:
    """Asks a server on a free port of this machine."""
    server = open_server(shown, "127.0.0.1", 0)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()

    def ask(path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
        connection.request(method, path, headers=headers)
        return connection.getresponse()

    try:
        yield ask
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def values(text: str) -> dict[str, float]:
    """The samples of metrics about groups, by name and group."""
    return {
        f"{one.name} {one.labels['consumergroup']}": one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if "consumergroup" in one.labels
    }


@pytest.mark.parametrize(
    ("shown", "path", "status", "says"),
    [
        (exporter(picture()), "/healthz", 200, "ok"),
        (exporter(picture(), alive=False), "/healthz", 503, "the thread that reads the topics has ended"),
        (exporter(picture()), "/readyz", 200, "ok"),
        (exporter(None), "/readyz", 503, "the job's topics have not been read to their ends yet"),
        (
            exporter(None, trouble="no topic 'x\x1b'"),
            "/readyz",
            503,
            r"the job's topics have not been read to their ends yet: no topic 'x\u{1b}'",
        ),
        (exporter(picture(None)), "/readyz", 503, "the job has written nothing about itself yet"),
        (exporter(picture(NOW - 31_000)), "/readyz", 503, "the job's heartbeat is late"),
        (exporter(None), "/", 200, "groupreplay: /metrics /healthz /readyz"),
        (exporter(None), "/metrics/x", 404, "there are /metrics, /healthz and /readyz"),
    ],
)
def test_pages(shown: Exporter, path: str, status: int, says: str) -> None:
    """Each says in words what is missing."""
    page = shown.page(path, "")
    assert (page.status, page.content_type, page.body.decode()) == (
        status,
        "text/plain; charset=utf-8",
        f"{says}\n",
    )


def test_metrics_over_http() -> None:
    """In the format that is asked for; a HEAD has no body; what is posted is refused."""
    with served(exporter(picture())) as ask:
        plain = ask("/metrics?x=1")
        assert (plain.status, plain.getheader("Server")) == (200, "groupreplay")
        assert str(plain.getheader("Content-Type")).startswith("text/plain; version=0.0.4")
        assert values(plain.read().decode())["kafka_consumergroup_group_state g"] == 1
        open_metrics = ask("/metrics", Accept="application/openmetrics-text; version=1.0.0")
        assert str(open_metrics.getheader("Content-Type")).startswith("application/openmetrics-text")
        assert open_metrics.read().endswith(b"# EOF\n")
        head = ask("/metrics", "HEAD")
        assert (head.status, head.read()) == (200, b"")
        assert int(str(head.getheader("Content-Length"))) > 0
        assert ask("/metrics", "POST").status == 501


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1"])
def test_an_address_that_cannot_be_used(host: str) -> None:
    """Taken, or another machine's: a clear error."""
    taken = open_server(exporter(None), "127.0.0.1", 0)
    try:
        with pytest.raises(GroupReplayError) as caught:
            open_server(exporter(None), host, taken.server_address[1])
        assert caught.value.exit_code == ExitCode.USAGE
        assert "--listen" in str(caught.value.fix)
    finally:
        taken.server_close()


class Sink:
    """The topics of a job, written by hand."""

    def __init__(self, broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        self.cluster = Cluster(bootstrap_servers=broker.bootstrap_servers)
        self.names = TopicNames(events=unique("events"), states=unique("states"), job=unique("job"))
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def create(self, *topics: str) -> None:
        """Topics of two partitions."""
        from confluent_kafka.admin import NewTopic

        made = self.admin.create_topics([NewTopic(name, 2, replication_factor=1) for name in topics])
        for answer in made.values():
            answer.result(30)

    def write(self, topic: str, key: bytes, *values_: bytes | None, at_ms: int | None = None) -> None:
        """Messages of one key."""
        for value in values_:
            self._producer.produce(topic, value, key, timestamp=at_ms or now_ms())
        assert self._producer.flush(30) == 0

    def groups(self) -> set[str]:
        """Consumer groups of the cluster."""
        return {found.group_id for found in self.admin.list_consumer_groups().result(30).valid}


def groups(feed: SinkFeed) -> list[bytes] | None:
    """The groups that it knows, once it has read the topics."""
    return cast("list[bytes] | None", feed.look(lambda seen: None if seen is None else sorted(seen.groups)))


@pytest.mark.broker
def test_reads_what_a_job_writes(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """From topics that come later than the exporter; each scrape has what was written until then.

    Events of the day before are not counted, and no group is left behind.
    """
    sink, (calm, said), (sick, _) = Sink(broker, unique), stable(), stuck()
    before, names = sink.groups(), sink.names
    feed = SinkFeed(sink.cluster, names, now_ms)
    shown = Exporter(feed, Limits(), now_ms)

    def found() -> dict[str, float]:
        return values(shown.page("/metrics", "").body.decode())

    feed.start()
    try:
        assert shown.page("/readyz", "").status == 503
        sink.create(names.events, names.states, names.job)
        sink.write(names.states, b"calm", document(calm, "calm"))
        sink.write(names.states, b"sick", document(sick, "sick"))
        sink.write(names.events, b"calm", *events(said, "calm")[:1], at_ms=now_ms() - DAY_MS)
        sink.write(names.events, b"calm", *events(said, "calm")[1:])
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
    finally:
        feed.close()
    assert not feed.alive
    assert shown.page("/healthz", "").status == 503


@pytest.mark.broker
def test_a_topic_that_grows(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """What is written to new partitions is found, too."""
    from confluent_kafka.admin import NewPartitions

    sink, (calm, _) = Sink(broker, unique), stable()
    names = sink.names
    sink.create(names.events, names.states, names.job)
    feed = SinkFeed(sink.cluster, names, now_ms, look_seconds=0.3)
    feed.start()
    try:
        wait_until(lambda: groups(feed) == [])
        sink.admin.create_partitions([NewPartitions(names.states, 8)])[names.states].result(30)
        wait_until(
            lambda: len(sink.admin.list_topics(names.states, timeout=30).topics[names.states].partitions) == 8
        )
        keys = [f"g{number}".encode() for number in range(30)]
        for key in keys:
            sink.write(names.states, key, document(calm, key.decode()))
        wait_until(lambda: groups(feed) == sorted(keys))
    finally:
        feed.close()


@pytest.mark.broker
def test_a_topic_that_was_made_anew(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """It is read from its beginning; what only the former one held is forgotten."""
    sink, (calm, _) = Sink(broker, unique), stable()
    names = sink.names
    sink.create(names.events, names.states, names.job)
    sink.write(names.states, b"a", *[document(calm, "a")] * 3)
    feed = SinkFeed(sink.cluster, names, now_ms)
    feed.start()

    def known() -> list[bytes] | None:
        return cast(
            "list[bytes] | None", feed.look(lambda seen: None if seen is None else sorted(seen.groups))
        )

    try:
        wait_until(lambda: groups(feed) == [b"a"])
        sink.admin.delete_topics([names.states])[names.states].result(30)
        wait_until(lambda: names.states not in sink.admin.list_topics(timeout=30).topics)
        sink.create(names.states)
        sink.write(names.states, b"b", document(calm, "b"))
        wait_until(lambda: groups(feed) == [b"b"], 120)
    finally:
        feed.close()
