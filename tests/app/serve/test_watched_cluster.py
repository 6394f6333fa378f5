"""A cluster that is served, on a broker: what the job writes is on the pages at once, with lanes; and its clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from groupreplay.app.exporter.feed import Limits
from groupreplay.app.report.timelines import TimelineQuery, group_timelines
from groupreplay.app.serve import watched_cluster
from groupreplay.app.serve.history.writer import Bounds
from groupreplay.app.serve.watched_cluster import ClusterToServe, ServerClock, WatchedCluster
from groupreplay.state import Context
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.messages import JOB_KEY
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.sources.topic import read_topic
from groupreplay.timeline.document import TimelineSource
from groupreplay.version import __version__
from support.job.sink_messages import document, events, job_document, stable, stuck
from support.kafka.clients import make_topics
from support.kafka.polled_members import PolledMembers
from support.kafka.waiting import wait_until
from support.kafka.written_topics import WrittenTopics
from support.serve.asked_site import AskedSite
from support.serve.http_streams import FollowedStream, served_over_http
from support.serve.written_clusters import DAY_MS

NOW_MS = 1_000_000_000


@contextmanager
def serving(broker: EmbeddedBroker, names: TopicNames, path: Path) -> Iterator[WatchedCluster]:
    """A cluster whose topics are read."""
    here = Cluster(bootstrap_servers=broker.bootstrap_servers)
    served = ClusterToServe(name="here", source=here, sink=here, topics=names)
    made = WatchedCluster(served, path, Bounds(age_ms=7 * DAY_MS, size_bytes=1 << 30), Limits(), now_ms)
    made.start()
    try:
        yield made
    finally:
        made.close()


def topic_names(unique: Callable[[str], str]) -> TopicNames:
    """Of this test."""
    kinds = ("events", "states", "job", "probes")
    return TopicNames(**{kind: unique(kind) for kind in kinds})


@pytest.mark.broker
def test_at_once(broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path) -> None:
    """An event is on the stream within 2 s of its message, its group on the board; no consumer group is made.

    After a restart with the same file everything is there again, once.
    """
    topics, names = WrittenTopics(broker.bootstrap_servers), topic_names(unique)
    topics.create(names.events, names.states, names.job)
    before, (sick, told) = topics.groups(), stuck()
    topics.write(names.job, JOB_KEY, job_document(now_ms()))
    topics.write(names.events, b"g", *events(told[:1]))
    path = tmp_path / "history.db"
    with serving(broker, names, path) as cluster, served_over_http(now_ms(), cluster) as port:
        site = AskedSite(now_ms(), cluster)
        wait_until(lambda: site.get("/readyz").status_code == 200)
        with FollowedStream(port) as stream:
            stream.frame()
            delays = []
            for one in events(told[1:]):
                began = time.monotonic()
                topics.write(names.events, b"g", one)
                assert stream.event()["event"] == msgspec.json.decode(one)
                delays.append(time.monotonic() - began)
            # The fastest: a busy machine may hold up any of them, and none depends on a timer of seconds.
            assert min(delays) < 2
        topics.write(names.states, b"g", document(sick))
        wait_until(lambda: site.json("/api/groups")["total"] == 1)
        assert site.json("/api/conditions")["counts"] == {"ERROR": 1, "WARN": 1}
        assert site.json("/api/clusters")["clusters"][0]["job"]["up"]
    topics.write(names.states, b"g", None)
    with serving(broker, names, path) as cluster:
        site = AskedSite(now_ms(), cluster)
        assert len(site.json("/api/events")["events"]) == len(told)
        wait_until(lambda: site.json("/api/groups")["total"] == 0)
        wait_until(lambda: site.get("/readyz").status_code == 200)
        assert len(site.json("/api/events")["events"]) == len(told)
    assert topics.groups() - before == set()


@pytest.mark.broker
def test_a_topic_that_is_made_anew(
    broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history begins again with the new topic, and nothing of the former one stays."""
    monkeypatch.setattr(watched_cluster, "_CHECK_SECONDS", 0.5)
    topics, names = WrittenTopics(broker.bootstrap_servers), topic_names(unique)
    topics.create(names.events, names.states, names.job)
    topics.write(names.events, b"g", *events(stuck()[1]))

    def kinds() -> list[str]:
        return sorted(one["event"]["subject"] for one in site.json("/api/events")["events"])

    with serving(broker, names, tmp_path / "history.db") as cluster:
        site = AskedSite(now_ms(), cluster)
        wait_until(lambda: kinds() == ["g"] * len(stuck()[1]))
        topics.admin.delete_topics([names.events])[names.events].result(30)
        wait_until(lambda: names.events not in topics.admin.list_topics(timeout=30).topics)
        topics.create(names.events)
        topics.write(names.events, b"calm", *events(stable()[1], "calm"))
        wait_until(lambda: kinds() == ["calm"] * len(stable()[1]))


def lanes(shown: dict[str, Any]) -> dict[str, Any]:
    """What a timeline takes from the log, without its end."""
    return {
        "slots": [
            (one["name"], [(tenure["member_id"], tenure["since_ms"]) for tenure in one["tenures"]])
            for one in shown["slots"]
        ],
        "owners": [
            (topic["topic"], row["partition"], [(owner[0], owner[2]) for owner in row["owners"]])
            for topic in shown["topics"]
            for row in topic["partitions"]
        ],
        "commits": sum(sum(topic["commits"]) for topic in shown["topics"]),
        "states": [(one["state"], one["since_ms"]) for one in shown["states"]],
        "deadlines": list(shown["deadlines"]),
    }


@pytest.mark.broker
def test_lanes_from_the_log(broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path) -> None:
    """A page that is asked for again and again while members come and go has what a report has that reads all at once.

    The same commits are those that are counted for the list of committers.
    """
    servers, group, topic = broker.bootstrap_servers, unique("group"), unique("topic")
    make_topics(servers, {topic: 4})
    topics, names = WrittenTopics(servers), topic_names(unique)
    topics.create(names.events, names.states, names.job)
    for number in range(4):
        topics.write(topic, b"k", *[b"v"] * 20, partition=number)
    since_ms, members = now_ms() - 1_000, PolledMembers(servers, 30_000)
    with serving(broker, names, tmp_path / "history.db") as cluster:
        site = AskedSite(now_ms(), cluster)
        path = f"/api/groups/{group}/timeline?since={since_ms}"

        def shown() -> dict[str, Any]:
            answer = site.get(path)
            return answer.json() if answer.status_code == 200 else {"slots": [], "topics": []}

        assert site.get(path).status_code == 404
        members.join("one", group, topic)
        members.wait_until(lambda: [one["name"] for one in shown()["slots"]] == ["one"])
        members.join("two", group, topic)
        members.wait_until(lambda: len(shown()["slots"]) == 2)
        members.wait_until(lambda: sum(sum(one["commits"]) for one in shown()["topics"]) >= 4)
        for one in members.consumers.values():
            one.close()
        wait_until(lambda: shown()["states"][-1]["state"] == "Empty")
        live = shown()
        remarks = {one["kind"]: one["text"] for one in live["remarks"]}
        assert remarks["history"] == "The history of this server has no events yet."
        # There is no topic of probes here: nobody knows whether somebody asked.
        assert [(one["what"], one["reason"], one["since_ms"]) for one in live["unread"]] == [
            ("probes", "absent", None)
        ]
        assert live["known_until_ms"] == live["until_ms"] - 1
        assert since_ms < live["last_commit_ms"] < live["known_until_ms"]
        committed = {
            one["group_id"]: one["commits"] for one in site.json("/api/committers?limit=500")["committers"]
        }
    rows = read_topic(Cluster(bootstrap_servers=servers))
    source = TimelineSource(
        command="", version=__version__, origin="", cluster_id="", topic_id="", digest=None, redacted=()
    )
    assert rows.connection is not None
    context = Context(
        cluster_id=rows.cluster_id,
        era=rows.era,
        topic_names=rows.connection.topic_names(),
        member_events=True,
        retention_ms=7 * DAY_MS,
    )
    asked = TimelineQuery(groups=[group], source=source, since_ms=since_ms, end_ms=now_ms())
    (whole,), _ = group_timelines(replace(rows, probes=()), context, asked)
    expected = lanes(msgspec.to_builtins(whole))
    found = lanes(live)
    assert found == expected
    assert (len(found["slots"]), len(found["owners"])) == (2, 4)
    assert committed[group] == expected["commits"]


@pytest.mark.broker
def test_a_log_that_cannot_be_read(
    broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """The page has what the events say, and names what is missing and why; so does the list of committers."""
    topics, names = WrittenTopics(broker.bootstrap_servers), topic_names(unique)
    topics.create(names.events, names.states, names.job)
    topics.write(names.events, b"g", *events(stuck()[1]))
    with serving(broker, names, tmp_path / "history.db") as cluster:
        nowhere = Cluster(bootstrap_servers="127.0.0.1:1", properties={"security.protocol": "NONE"})
        cluster.served = replace(cluster.served, source=nowhere)
        site = AskedSite(now_ms(), cluster)
        wait_until(lambda: len(site.json("/api/events")["events"]) == len(stuck()[1]))
        shown = site.json("/api/groups/g/timeline?since=0")
        assert [one["name"] for one in shown["conditions"]] == ["rebalance.slow", "rebalance.stuck"]
        assert [one["name"] for one in shown["slots"]] == ["client-a", "client-b"]
        assert shown["remarks"][0]["text"].startswith("The offsets topic could not be read: ")
        assert [(one["what"], one["since_ms"]) for one in shown["unread"]] == [("log", None)]
        assert "127.0.0.1:1" in str(site.json("/api/committers")["error"])


@pytest.mark.parametrize(
    ("delays_ms", "off_ms", "present_ms"),
    [
        ((), None, NOW_MS),
        # Messages that were delayed for hours while the reader was away show nothing.
        ((7_200_000, 60_000, 200, 900), 200, NOW_MS),
        ((95_000, 90_200, 90_900), 90_200, NOW_MS - 90_200),
        ((-90_000, -89_000), -90_000, NOW_MS + 90_000),
        ((-4_000,), -4_000, NOW_MS),
        # What was measured long ago does not count.
        ((200, *[90_300] * 8), 90_300, NOW_MS - 90_300),
    ],
)
def test_a_clock_that_is_off(delays_ms: tuple[int, ...], off_ms: int | None, present_ms: int) -> None:
    """The shortest delay is the difference; more than 5 s are corrected."""
    clock = ServerClock(lambda: NOW_MS)
    for delay_ms in delays_ms:
        clock.note(("group-job", 0), NOW_MS - delay_ms)
    assert (clock.off_ms, clock()) == (off_ms, present_ms)


def test_one_broker_of_two_is_off() -> None:
    """It is not the clock of this machine: nothing is corrected."""
    clock = ServerClock(lambda: NOW_MS)
    clock.note(("group-events", 0), NOW_MS - 100)
    clock.note(("group-events", 1), NOW_MS + 90_000)
    assert (clock.off_ms, clock()) == (100, NOW_MS)
