"""Streams of events over HTTP: every event once, from where the client was, to many clients."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from groupreplay.app.serve import application
from groupreplay.app.serve.event_streams import read_place
from groupreplay.app.serve.watched_cluster import WatchedCluster
from support.job.sink_messages import SINCE_MS, events, stable, stuck
from support.serve.http_streams import FollowedStream, asked, served_over_http
from support.serve.written_clusters import TOPICS, messages, served_cluster, take

NOW = SINCE_MS + 400_000
TOLD = [*events(stuck()[1]), *events(stable()[1], "calm")]
FIRST = msgspec.json.decode(TOLD[0])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[WatchedCluster]:
    """One with an event."""
    with served_cluster(tmp_path, NOW) as made:
        take(made, messages(TOLD[:1], NOW), NOW)
        yield made


def numbered(numbers: range) -> list[bytes]:
    """Events that differ in their ids only."""
    return [msgspec.json.encode({**FIRST, "id": str(number)}) for number in numbers]


def test_new_events(cluster: WatchedCluster) -> None:
    """What comes is sent as it was written, with its sentence; what was before is not."""
    with served_over_http(NOW, cluster) as port, FollowedStream(port) as stream:
        assert stream.answer.status == 200
        assert str(stream.answer.getheader("Content-Type")).startswith("text/event-stream")
        assert stream.frame()["event"] == "reset"
        take(cluster, messages(TOLD, NOW), NOW)
        found = [stream.event() for _ in TOLD[1:]]
        assert [one["event"] for one in found] == [msgspec.json.decode(one) for one in TOLD[1:]]
        assert found[2]["text"].startswith("3 min 0 s so far, in PreparingRebalance, not joined")


def test_some_events(cluster: WatchedCluster) -> None:
    """Of a group, of a name, of a severity."""
    with served_over_http(NOW, cluster) as port, ExitStack() as streams:
        queries = ("group=calm&type=member.*", "min_severity=ERROR", "group=ca[l]m")
        opened = [streams.enter_context(FollowedStream(port, query)) for query in queries]
        for one in opened:
            one.frame()
        take(cluster, messages(TOLD, NOW), NOW)
        kinds = [one.event()["event"]["type"] for one in opened]
        assert kinds[:2] == ["groupreplay.member.joined.v1", "groupreplay.rebalance.stuck.v1"]


def test_a_lost_connection(cluster: WatchedCluster) -> None:
    """The next one goes on behind the last event, from memory and from the file alike; nothing is sent twice."""
    with served_over_http(NOW, cluster) as port:
        with FollowedStream(port) as stream:
            stream.frame()
            take(cluster, messages(numbered(range(3)), NOW), NOW)
            assert [stream.event()["event"]["id"] for _ in range(3)] == ["0", "1", "2"]
            place = stream.place
        # More than is kept in memory.
        for first in range(3, 3_003, 500):
            take(cluster, messages(numbered(range(first, first + 500)), NOW), NOW)
        with FollowedStream(port, last=place) as stream:
            assert stream.frame() == {"": "resumed"}
            found = [stream.event()["event"]["id"] for _ in range(3_000)]
            assert found == [str(number) for number in range(3, 3_003)]


@pytest.mark.parametrize("last", ["", "x", "abcdef-1", "-1", "0-9999999999999999999", "a" * 9_000])
def test_a_place_of_another_history(cluster: WatchedCluster, last: str) -> None:
    """A client that cannot go on learns it: it has to read again what it shows."""
    with served_over_http(NOW, cluster) as port, FollowedStream(port, last=last) as stream:
        assert stream.frame()["event"] == "reset"


def test_a_history_that_begins_again(cluster: WatchedCluster) -> None:
    """The topic was made anew while a stream is open: a reset, and then the events of the new one."""
    with served_over_http(NOW, cluster) as port, FollowedStream(port) as stream:
        stream.frame()
        take(cluster, messages(TOLD[:2], NOW), NOW)
        assert stream.event()["event"]["id"] == msgspec.json.decode(TOLD[1])["id"]
        cluster.history.begin({**TOPICS, "group-events": "F"})
        take(cluster, messages(TOLD[2:4], NOW), NOW)
        assert stream.frame()["event"] == "reset"
        take(cluster, messages(TOLD[4:], NOW), NOW)
        assert stream.event()["event"]["id"] == msgspec.json.decode(TOLD[4])["id"]


def test_a_hundred_streams(cluster: WatchedCluster) -> None:
    """Each gets every event once and in order, while pages are answered."""
    with served_over_http(NOW, cluster) as port, ExitStack() as streams:
        opened = [streams.enter_context(FollowedStream(port, seconds=60)) for _ in range(100)]
        for one in opened:
            one.frame()

        def write() -> None:
            for first in range(0, 200, 20):
                take(cluster, messages(numbered(range(first, first + 20)), NOW), NOW)

        writer = threading.Thread(target=write)
        writer.start()
        expected = [str(number) for number in range(200)]
        for one in opened:
            assert [one.event()["event"]["id"] for _ in range(200)] == expected
        writer.join()
        assert asked(port, "/api/events?limit=1")[0] == 200


def test_too_many_streams(cluster: WatchedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """One address gets half of them, and others the rest; when one ends there is room again."""
    monkeypatch.setattr(application, "MOST_STREAMS", 4)
    with served_over_http(NOW, cluster) as port:
        with FollowedStream(port) as first, FollowedStream(port) as second:
            first.frame()
            second.frame()
            status, body = asked(port, "/api/events/stream")
            assert (status, body) == (429, b'{"error":"too many open streams of this address"}')
            with FollowedStream(port, source="127.0.0.2") as other:
                assert other.answer.status == 200
        for number in range(200):
            with FollowedStream(port) as again:
                if again.answer.status == 200:
                    break
            take(cluster, messages(numbered(range(number, number + 1)), NOW), NOW)
        assert again.answer.status == 200


def test_many_streams_at_one_moment(cluster: WatchedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than the limit are opened, also where all ask before the first one has got anything."""
    monkeypatch.setattr(application, "MOST_STREAMS", 5)
    request = b"GET /api/events/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with served_over_http(NOW, cluster) as port, ExitStack() as opened:
        clients = [
            opened.enter_context(
                socket.create_connection(("127.0.0.1", port), 30, source_address=(f"127.0.0.{number + 1}", 0))
            )
            for number in range(40)
        ]
        for one in clients:
            one.sendall(request)
        answers = Counter(one.recv(12).decode()[-3:] for one in clients)
        assert answers == {"200": 5, "503": 35}


def test_a_client_that_does_not_read(cluster: WatchedCluster) -> None:
    """It holds up neither the writer nor the others."""
    with served_over_http(NOW, cluster) as port, FollowedStream(port) as slow, FollowedStream(port) as quick:
        slow.frame()
        quick.frame()
        note = "x" * 20_000
        for number in range(600):
            event = msgspec.json.encode({**FIRST, "id": str(number), "data": {**FIRST["data"], "note": note}})
            take(cluster, messages([event], NOW), NOW)
        assert [quick.event()["event"]["id"] for _ in range(600)][-1] == "599"
        assert [slow.event()["event"]["id"] for _ in range(600)][-1] == "599"


def test_a_place() -> None:
    """Only what a stream has sent."""
    assert read_place("0a1b-17") == ("0a1b", 17)
    assert read_place(" 0a1b-17 ") == ("0a1b", 17)
    assert [read_place(one) for one in (None, "", "17", "0a1b-", "XY-1", "0a1b-1-1")] == [None] * 6
