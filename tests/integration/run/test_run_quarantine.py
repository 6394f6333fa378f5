"""A record that makes the job fail in one group, or a damaged state of one group, live: all others go on.

A state that a later release has written ends the job.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from support.job.jobs import JobTopics, read_json, running_job, topic_names
from support.job.own_process import OwnJob, keep_session, run_here, run_until
from support.job.replays import event_name
from support.kafka.blank_brokers import blank_broker
from support.kafka.clients import commit_once, make_topics
from support.kafka.waiting import wait_until
from support.remedies import read_remedy
from support.startup_code import python_path

pytestmark = [pytest.mark.broker, pytest.mark.spark]

#: A group that raises, and a limit of states that one with many partitions exceeds.
DEFECT = """
from groupreplay.state.group import Group
from groupreplay.streaming.engine import advance

advance._MOST_BLOB_BYTES = 2_000

apply_run = Group._apply_run

def fails(self, run):
    if self.group_id == "poison":
        raise ValueError("the secret text of a record")
    return apply_run(self, run)

Group._apply_run = fails
"""


@contextmanager
def imported_everywhere(text: str, folder: Path) -> Iterator[None]:
    """Every Python process that starts meanwhile runs this code first: the driver, and Spark's workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", python_path(folder, text))
        yield


def events_named(job: JobTopics, name: str) -> list[dict[str, Any]]:
    """The data of the events of a type, in the order of their time."""
    found = [event for event in job.events().values() if event_name(event) == name]
    return [event["data"] for event in sorted(found, key=lambda event: event["time"])]


def blind(job: JobTopics) -> list[str]:
    """What became of the condition that a group failed."""
    return [one["status"] for one in events_named(job, "job.blind") if one["what"] == "group_failed"]


def committed(job: JobTopics, group: str) -> int:
    """The number of partitions with an offset in a group's document; 0 without one."""
    document = job.documents().get(group, {})
    return int(document.get("offsets", {}).get("partitions", 0))


def test_groups_that_fail_stop_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One raises, the state of one is too large: reported, dead letters written, counted; others go on.

    They are tried again when it is asked for.
    """
    topics, checkpoint = topic_names("quarantine"), tmp_path / "checkpoint"
    wide = [TopicPartition("wide", partition, 5) for partition in range(60)]
    with blank_broker(1) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {"t": 3, "wide": len(wide)})
        commit_once(server, "poison", TopicPartition("t", 0, 5))
        commit_once(server, "huge", *wide)
        commit_once(server, "well", TopicPartition("t", 0, 5))
        with (
            imported_everywhere(DEFECT, tmp_path / "defect"),
            running_job(server, checkpoint, topics, "--shuffle-partitions", "1") as job,
        ):
            job.wait_until(lambda: len(events_named(job, "group.quarantined")) == 2)
            events = {event["group_id"]: event for event in events_named(job, "group.quarantined")}
            assert {group: event["error"] for group, event in events.items()} == {
                "poison": "ValueError",
                "huge": "StateTooLargeError",
            }
            poison = events["poison"]
            assert (poison["what"], poison["partition"], poison["records"]) == ("group", 0, 1)
            letters = [one for one in read_json(server, topics.dead_letters) if one]
            assert {(one["group_id"], one["kind"]) for one in letters} == {
                ("poison", "quarantined"),
                ("huge", "quarantined"),
            }
            assert "the state of group 'huge' has " in job.process.tail(1_000)

            # All others go on; of these only their places in the log move on.
            commit_once(server, "poison", TopicPartition("t", 1, 5))
            commit_once(server, "well", TopicPartition("t", 1, 5))
            job.wait_until(lambda: committed(job, "well") == 2)
            job.wait_until(lambda: blind(job) == ["firing"])
            (blinded,) = events_named(job, "job.blind")
            read_remedy("state.conditions.job_blind: groupreplay run --retry-quarantined", blinded["fix"])
            job.wait_until(lambda: job.status()["counters"]["quarantined"] == 2)
            assert set(job.documents()) == {"well"}
            assert len(events_named(job, "group.quarantined")) == 2
            assert "the secret text of a record" not in str(read_json(server, topics.events))
            assert (job.status()["restarts"], job.stop()) == (0, 143)

        # The defect is gone, but the release is the same: groups stay aside until somebody asks for them.
        keep_session(monkeypatch)

        def retried(done: threading.Event) -> None:
            job = OwnJob(server, topics, done)
            commit_once(server, "poison", TopicPartition("t", 2, 5))
            commit_once(server, "huge", *wide)
            job.wait_until(lambda: (committed(job, "poison"), committed(job, "huge")) == (1, len(wide)))
            assert job.documents()["poison"]["history"] == "partial"
            job.wait_until(lambda: blind(job) == ["firing", "resolved"])

        run_until(server, checkpoint, topics, retried, retry_quarantined=True)


#: A disk that flips a bit of one group's state, and loses the second half of another one's, each time it is written.
DAMAGE = """
from groupreplay.state.group import Group

snapshot = Group.snapshot

def damaged(self):
    blob = snapshot(self)
    if self.group_id == "unlucky":
        return blob[:-1] + bytes([blob[-1] ^ 4])
    return blob[: len(blob) // 2] if self.group_id == "cut" else blob

Group.snapshot = damaged
"""


def test_damaged_states_end_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A start whose checkpoint has them names the groups in event and log, and goes on with all others.

    They begin anew, and get what the log holds of them while the job runs.
    """
    topics, checkpoint = topic_names("state-damaged"), tmp_path / "checkpoint"
    with blank_broker(1) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {"t": 3})
        groups = {"unlucky", "cut", "well"}
        for group in groups:
            commit_once(server, group, TopicPartition("t", 0, 5))
        with (
            imported_everywhere(DAMAGE, tmp_path / "damage"),
            running_job(server, checkpoint, topics) as job,
        ):
            job.wait_until(lambda: set(job.documents()) == groups)
            assert (events_named(job, "group.state_damaged"), job.stop()) == ([], 143)

        for group in groups:
            commit_once(server, group, TopicPartition("t", 1, 5))
        keep_session(monkeypatch)
        logged: list[str] = []

        def log() -> str:
            logged.append(capfd.readouterr().err)
            return "".join(logged)

        def goes_on(done: threading.Event) -> None:
            job = OwnJob(server, topics, done)
            job.wait_until(lambda: committed(job, "well") == 2)
            job.wait_until(lambda: len(events_named(job, "group.state_damaged")) == 2)
            damage = "snapshot of version 1 is damaged: its bytes do not have its checksum"
            assert {
                (event["group_id"], event["history"], event["damage"])
                for event in events_named(job, "group.state_damaged")
            } == {(group, "partial", damage) for group in ("unlucky", "cut")}
            for group in ("unlucky", "cut"):
                # What it knew of the first partition was lost, and is known again without a new commit of it.
                job.wait_until(lambda group=group: committed(job, group) == 2)
                for words in (
                    f"the stored state of group '{group}' is",
                    f"the state of group '{group}', which was",
                ):
                    job.wait_until(lambda words=words: f"{words} damaged" in log())
            commit_once(server, "unlucky", TopicPartition("t", 2, 5))
            job.wait_until(lambda: committed(job, "unlucky") == 3)
            assert len(events_named(job, "group.state_damaged")) == 2
            assert (job.status()["restarts"], job.status()["counters"]["quarantined"]) == (0, 0)
            assert blind(job) == []
            read_remedy("streaming.engine.quarantine: …; check the", log())

        run_until(server, checkpoint, topics, goes_on)
        anew = topic_names("state-anew")
        assert run_here(server, tmp_path / "new", anew, once=True) == 0
        assert committed(JobTopics(server, anew), "unlucky") == 3


#: A release that is older by one reader of states.
EARLIER = """
from groupreplay.state.snapshot import group_snapshot

group_snapshot.FORM.reader -= 1
"""


def test_a_state_of_a_later_release_ends_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 5, in words and without a stack; the release that wrote it goes on from there."""
    topics, checkpoint = topic_names("state-later"), tmp_path / "checkpoint"
    keep_session(monkeypatch)
    with blank_broker(1) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {"t": 2})
        commit_once(server, "g", TopicPartition("t", 0, 5))
        assert run_here(server, checkpoint, topics, once=True) == 0
        commit_once(server, "g", TopicPartition("t", 1, 5))
        with (
            imported_everywhere(EARLIER, tmp_path / "earlier"),
            running_job(server, checkpoint, topics, "--shuffle-partitions", "1") as job,
        ):
            wait_until(lambda: job.process.exit_code is not None)
            assert job.process.exit_code == 5
            said = " ".join(job.process.tail(1_000).split())
        assert "the state in the checkpoint was written by another release: " in said
        assert "snapshot for readers from " in said
        assert "Traceback" not in said.partition("the state in the checkpoint was")[2]
        assert run_here(server, checkpoint, topics, once=True) == 0
        assert committed(JobTopics(server, topics), "g") == 2
