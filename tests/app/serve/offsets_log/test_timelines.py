"""Timelines from the history alone, when the log is left out on purpose, and what a prober was answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka.admin import ConfigResource

from groupreplay.app.serve.offsets_log.group_logs import LiveLogs, LogUnreadError
from groupreplay.app.serve.offsets_log.timelines import LiveAnswers, LiveTimelines, hides_names
from groupreplay.app.serve.watched_cluster import WatchedCluster
from groupreplay.state.policy.context import Redaction
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.probe_messages import encode_message
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.captures import CLUSTER_ID
from support.job.probes import asked as answered
from support.job.probes import summed_up
from support.job.sink_messages import SINCE_MS, document, events, stuck
from support.kafka.clients import set_configs
from support.kafka.waiting import wait_until
from support.kafka.written_topics import WrittenTopics
from support.serve.written_clusters import messages, served_cluster, states, take

NOW = SINCE_MS + 400_000
NOT_READ = (
    "The offsets topic could not be read: members and states are those of events, and partitions and commits are not "
    "known."
)
PREPARING = "PreparingRebalance"
HIDING = Redaction(frozenset({"hosts"}), b"k" * 16)


def redacted(value: bytes) -> bytes:
    """A message as a job with --redact writes it."""
    return msgspec.json.encode(HIDING.of(msgspec.json.decode(value)))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The groups whose log was to be read; it cannot be."""
    found: list[str] = []

    def read(_: LiveLogs, group_id: str, __: int) -> None:
        found.append(group_id)
        raise GroupReplayError(
            "not allowed to read", where="__consumer_offsets", exit_code=ExitCode.AUTHORISATION
        )

    monkeypatch.setattr(LiveLogs, "read", read)
    return iter([found])  # type: ignore[return-value]


def shown(cluster: WatchedCluster, *, hides: bool) -> tuple[list[str], list[str]]:
    """The names of lanes and the texts of the first two remarks."""
    change = redacted if hides else bytes
    group, told = stuck()
    take(cluster, states([("g", change(document(group)))]), NOW)
    take(cluster, messages([change(one) for one in events(told)], NOW), NOW)
    found = LiveTimelines(cluster).document("g", 0, None)
    assert found is not None
    return [one.client_host for one in found.slots], [one.text for one in found.remarks[:2]]


def test_names_that_the_job_hides(tmp_path: Path, opened: Iterator[list[str]]) -> None:
    """Without the job's key the log is not even read: it would show the names that the job hides."""
    (asked,) = opened
    with served_cluster(tmp_path, NOW) as cluster:
        hosts, remarks = shown(cluster, hides=True)
    assert hosts == [HIDING.hide("/10.0.0.1")] * 2
    assert remarks[0] == (
        f"{NOT_READ} The job hides names, and this server has no --redact-key-file to hide them in the log."
    )
    assert asked == []


def test_names_that_both_hide(tmp_path: Path, opened: Iterator[list[str]]) -> None:
    """With the key the log is read."""
    (asked,) = opened
    with served_cluster(tmp_path, NOW, redaction=HIDING) as cluster:
        shown(cluster, hides=True)
    assert asked == ["g"]


def test_a_log_that_may_not_be_read(tmp_path: Path, opened: Iterator[list[str]]) -> None:
    """The lanes are those of the events, and the remarks say what is missing, why, and since when events are known."""
    (asked,) = opened
    with served_cluster(tmp_path, NOW) as cluster:
        hosts, remarks = shown(cluster, hides=False)
    assert (hosts, asked) == (["/10.0.0.1"] * 2, ["g"])
    assert remarks == [
        f"{NOT_READ} Not allowed to read (__consumer_offsets).",
        "The history of this server has no events before 1970-01-01T01:40:00.000Z.",
    ]


def test_a_long_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is read for the first time, the page says how far."""

    def read(_: LiveLogs, __: str, ___: int) -> None:
        raise LogUnreadError("7 of 9 records of its partition were read so far", fix="ask again")

    monkeypatch.setattr(LiveLogs, "read", read)
    with served_cluster(tmp_path, NOW) as cluster:
        _, remarks = shown(cluster, hides=False)
    assert remarks[0] == (f"{NOT_READ} 7 of 9 records of its partition were read so far: ask again.")


def test_a_group_that_nobody_knows(tmp_path: Path, opened: Iterator[list[str]]) -> None:
    """There is no timeline of it."""
    del opened
    with served_cluster(tmp_path, NOW) as cluster:
        assert LiveTimelines(cluster).document("nobody", 0, None) is None


@pytest.mark.parametrize(
    ("written", "hidden"),
    [
        ({"client_host": "/10.0.0.1"}, False),
        ({"client_host": "~ab"}, True),
        ({"data": {"member_id": "~ab"}}, True),
        ({"data": {"members": [{"client_id": "a"}, {"instance_id": "~ab"}]}}, True),
        ({"members": "~ab", "data": 7}, False),
        ({"members": [None, 7, {"client_id": None}]}, False),
    ],
)
def test_hidden_names(written: dict[str, object], hidden: bool) -> None:
    """In documents and in events; whatever the values are."""
    assert hides_names(written) is hidden


@pytest.mark.broker
def test_a_prober_with_a_wrong_clock(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """Answers from ten minutes ahead are not used, and counted; one of a clock that is behind is bounded, not moved.

    The times of the rounds are those of the broker.
    """
    topics, name = WrittenTopics(broker.bootstrap_servers), unique("probes")
    topics.create(name, partitions=1)
    appended = {"message.timestamp.type": "LogAppendTime"}
    set_configs(broker.bootstrap_servers, ConfigResource.Type.TOPIC, [name], appended)
    began = now_ms()
    ahead, behind = (answered("g", PREPARING, at=began + off_ms) for off_ms in (600_000, -600_000))
    elsewhere = msgspec.structs.replace(ahead, cluster_id="another")
    for message in (
        ahead,
        behind,
        elsewhere,
        answered("h", PREPARING, at=began),
        summed_up(at=began + 600_000),
    ):
        topics.write(name, *encode_message(message))
    answers = LiveAnswers(Cluster(bootstrap_servers=broker.bootstrap_servers), name)
    found = answers.of_group("g", CLUSTER_ID, now_ms())
    assert (found.misdated, found.error) == (1, None)
    (state,) = found.states
    assert (state.state, state.asked_ms <= began <= state.answered_ms) == (PREPARING, True)
    assert found.rounds is not None
    assert all(began - 1_000 <= at_ms <= now_ms() + 1_000 for at_ms in found.rounds)
    assert answers.of_group("h", CLUSTER_ID, now_ms()).misdated == 0


@pytest.mark.broker
def test_answers_that_cannot_be_read(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """Nobody asked, the topic is missing, the brokers are away: three things. What was read before stays."""
    topics, name, here = WrittenTopics(broker.bootstrap_servers), unique("probes"), broker.bootstrap_servers
    away: list[str] = []
    answers = LiveAnswers(Cluster(bootstrap_servers=here), name, lambda: away[0] if away else None)
    missing = answers.of_group("g", CLUSTER_ID, now_ms())
    assert "does not exist" in str(missing.error)
    assert missing[:3] == ((), None, None)
    topics.create(name, partitions=1)
    read_ms = now_ms()
    # A broker may have the metadata of a new topic a moment late.
    wait_until(lambda: answers.of_group("g", CLUSTER_ID, read_ms).error is None, 30)
    assert answers.of_group("g", CLUSTER_ID, read_ms)[:4] == ((), None, read_ms, None)
    topics.write(name, *encode_message(summed_up(at=read_ms)))
    topics.write(name, *encode_message(answered("g", PREPARING, at=read_ms)))
    whole = answers.of_group("g", CLUSTER_ID, read_ms + 1)
    away.append("cannot reach the cluster")
    kept = answers.of_group("g", CLUSTER_ID, read_ms + 60_000)
    assert isinstance(kept.error, UnreachableError)
    assert (len(whole.states), kept[:3]) == (1, whole[:3])
    assert kept.known_ms == read_ms + 1
