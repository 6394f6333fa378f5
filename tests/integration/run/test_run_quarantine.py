"""A record that makes the job fail in one group, or a damaged state of one group, live: all others go on."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from support.job.jobs import JobTopics, read_json, running_job, topic_names
from support.job.own_process import OwnJob, keep_session, run_here, run_until
from support.job.replays import event_name
from support.kafka.blank_brokers import blank_broker
from support.kafka.clients import commit_once, make_topics
from support.remedies import read_remedy

pytestmark = [pytest.mark.broker, pytest.mark.spark]

#: Imported by every Python process that has its folder on the path: the driver, and Spark's workers.
DEFECT = """
from groupreplay.state.group import Group

apply_run = Group._apply_run

def fails(self, run):
    if self.group_id == "poison":
        raise ValueError("the secret text of a record")
    return apply_run(self, run)

Group._apply_run = fails
"""


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


def test_one_group_that_fails_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reported, dead letters written, counted; other groups go on; tried again when it is asked for."""
    (tmp_path / "defect").mkdir()
    (tmp_path / "defect" / "sitecustomize.py").write_text(DEFECT)
    path = os.environ.get("PYTHONPATH", "")
    topics, checkpoint = topic_names("quarantine"), tmp_path / "checkpoint"
    with blank_broker(1) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {"t": 3})
        commit_once(server, "poison", TopicPartition("t", 0, 5))
        commit_once(server, "well", TopicPartition("t", 0, 5))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "defect"), path]))
        with running_job(server, checkpoint, topics, "--shuffle-partitions", "1") as job:
            job.wait_until(lambda: events_named(job, "group.quarantined"))
            (event,) = events_named(job, "group.quarantined")
            assert (event["group_id"], event["what"], event["error"]) == ("poison", "group", "ValueError")
            assert (event["partition"], event["records"]) == (0, 1)
            (letter,) = [one for one in read_json(server, topics.dead_letters) if one]
            assert (letter["group_id"], letter["kind"]) == ("poison", "quarantined")

            # All others go on; of this one only its place in the log moves on.
            commit_once(server, "poison", TopicPartition("t", 1, 5))
            commit_once(server, "well", TopicPartition("t", 1, 5))
            job.wait_until(lambda: committed(job, "well") == 2)
            job.wait_until(lambda: blind(job) == ["firing"])
            (blinded,) = events_named(job, "job.blind")
            read_remedy("state.conditions.job_blind: groupreplay run --retry-quarantined", blinded["fix"])
            job.wait_until(lambda: job.status()["counters"]["quarantined"] == 1)
            assert set(job.documents()) == {"well"}
            assert len(events_named(job, "group.quarantined")) == 1
            assert "the secret text of a record" not in str(read_json(server, topics.events))
            assert (job.status()["restarts"], job.stop()) == (0, 143)

        # The defect is gone, but the release is the same: the group stays aside until somebody asks for it.
        monkeypatch.setenv("PYTHONPATH", path)
        keep_session(monkeypatch)

        def retried(done: threading.Event) -> None:
            job = OwnJob(server, topics, done)
            commit_once(server, "poison", TopicPartition("t", 2, 5))
            job.wait_until(lambda: committed(job, "poison") == 1)
            assert job.documents()["poison"]["history"] == "partial"
            job.wait_until(lambda: blind(job) == ["firing", "resolved"])

        run_until(server, checkpoint, topics, retried, retry_quarantined=True)


#: A disk that flips a bit of one group's state each time it is written.
DAMAGE = """
from groupreplay.state.group import Group

snapshot = Group.snapshot

def damaged(self):
    blob = snapshot(self)
    if self.group_id != "unlucky":
        return blob
    return blob[:-1] + bytes([blob[-1] ^ 4])

Group.snapshot = damaged
"""


def test_one_damaged_state_ends_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A start whose checkpoint has it names the group in event and log, and goes on with all others.

    The group begins anew, and gets what the log holds of it while the job runs.
    """
    (tmp_path / "damage").mkdir()
    (tmp_path / "damage" / "sitecustomize.py").write_text(DAMAGE)
    path = os.environ.get("PYTHONPATH", "")
    topics, checkpoint = topic_names("state-damaged"), tmp_path / "checkpoint"
    with blank_broker(1) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {"t": 3})
        for group in ("unlucky", "well"):
            commit_once(server, group, TopicPartition("t", 0, 5))
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "damage"), path]))
        with running_job(server, checkpoint, topics) as job:
            job.wait_until(lambda: set(job.documents()) == {"unlucky", "well"})
            assert (events_named(job, "group.state_damaged"), job.stop()) == ([], 143)

        monkeypatch.setenv("PYTHONPATH", path)
        for group in ("unlucky", "well"):
            commit_once(server, group, TopicPartition("t", 1, 5))
        keep_session(monkeypatch)
        logged: list[str] = []

        def log() -> str:
            logged.append(capfd.readouterr().err)
            return "".join(logged)

        def goes_on(done: threading.Event) -> None:
            job = OwnJob(server, topics, done)
            job.wait_until(lambda: committed(job, "well") == 2)
            job.wait_until(lambda: events_named(job, "group.state_damaged"))
            (event,) = events_named(job, "group.state_damaged")
            assert (event["group_id"], event["history"]) == ("unlucky", "partial")
            assert event["damage"] == "snapshot of version 1 is damaged: its bytes do not have its checksum"
            # What it knew of the first partition was lost, and is known again without a new commit of it.
            job.wait_until(lambda: committed(job, "unlucky") == 2)
            job.wait_until(lambda: "the stored state of group 'unlucky' is damaged" in log())
            job.wait_until(lambda: "the state of group 'unlucky', which was damaged, is built anew" in log())
            commit_once(server, "unlucky", TopicPartition("t", 2, 5))
            job.wait_until(lambda: committed(job, "unlucky") == 3)
            assert len(events_named(job, "group.state_damaged")) == 1
            assert (job.status()["restarts"], job.status()["counters"]["quarantined"]) == (0, 0)
            assert blind(job) == []
            read_remedy("streaming.engine.quarantine: …; check the", log())

        run_until(server, checkpoint, topics, goes_on)
        anew = topic_names("state-anew")
        assert run_here(server, tmp_path / "new", anew, once=True) == 0
        assert committed(JobTopics(server, anew), "unlucky") == 3
