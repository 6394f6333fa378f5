"""Timelines from the history alone, when the log is left out on purpose, and what a prober was answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from groupreplay.app.serve.offsets_log.group_logs import LiveLogs, LogUnreadError
from groupreplay.app.serve.offsets_log.timelines import LiveTimelines, hides_names
from groupreplay.app.serve.watched_cluster import WatchedCluster
from groupreplay.state.policy.context import Redaction
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from support.job.sink_messages import SINCE_MS, document, events, stuck
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
