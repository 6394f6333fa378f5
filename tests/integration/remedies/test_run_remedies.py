"""What the job's messages about its checkpoint, its topics and Spark say to do: afterwards it runs.

All runs are in one JVM; a run that works is one that reads everything and ends.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from groupreplay.state.policy.context import OFFSETS_TOPIC, Context
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.kafka.log_watch import LogLostError, lost_log
from groupreplay.streaming.kafka.rights import SPARK_GROUPS, source_rights
from groupreplay.streaming.run import job_run
from groupreplay.streaming.spark.checkpoint_files import DRIVER_FILE
from groupreplay.streaming.spark.event_frame import event_frame
from groupreplay.streaming.spark.faults import failure_text, known_fault
from groupreplay.streaming.spark.query import TopicPlan, read_options
from groupreplay.streaming.spark.session import OLD_OFFSETS
from support.job.captures import invoke
from support.job.jobs import read_events, topic_flags, topic_names
from support.job.own_process import run_here
from support.job.replays import named
from support.job.spark_sessions import small_session
from support.kafka.clients import commit_once, make_topics, produce
from support.kafka.runbook_commands import as_administrator
from support.kafka.secured import SecuredBroker
from support.remedies import read_remedy
from support.tools.job_observations import WELL, fed, fix_of, taken
from support.tools.small_disks import filled, small_disk

pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.usefixtures("one_session"),
]

IDENTITY = "groupreplay.json"
OWN_CHECKPOINT = "streaming.run.identity: give this job a checkpoint of its own"


@dataclass(frozen=True)
class Stored:
    """A checkpoint of a run that has ended, and what it was made with."""

    server: str
    folder: Path
    topics: TopicNames

    def copy(self, place: Path) -> Path:
        """The whole folder, as a backup has it."""
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.folder, place)
        return place

    def runs(self, checkpoint: Path, topics: TopicNames | None = None, log_source: str = "auto") -> None:
        """A run with this checkpoint reads everything and ends."""
        topics = topics or self.topics
        assert run_here(self.server, checkpoint, topics, once=True, log_source=log_source) == ExitCode.OK

    def refused(self, checkpoint: Path, topics: TopicNames | None = None, log_source: str = "auto") -> str:
        """What a run with this checkpoint ends with."""
        with pytest.raises(GroupReplayError) as caught:
            self.runs(checkpoint, topics, log_source)
        return str(caught.value)


@pytest.fixture(scope="module")
def stored(guarded: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """A run on the address without logins."""
    server = guarded.broker.bootstrap_servers
    made = Stored(server, tmp_path_factory.mktemp("stored") / "checkpoint", topic_names("remedies-run"))
    made.runs(made.folder)
    return made


def rewritten(checkpoint: Path, **values: object) -> None:
    """Other values in the checkpoint's identity."""
    path = checkpoint / IDENTITY
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    path.with_name(f".{path.name}.crc").unlink()


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"cluster_id": "another"}, OWN_CHECKPOINT),
        ({"format": 99, "version": "9.0"}, "streaming.run.identity: run the release that made it"),
    ],
    ids=["another cluster", "a later release"],
)
def test_a_checkpoint_of_another_job(
    stored: Stored, tmp_path: Path, values: dict[str, object], key: str
) -> None:
    """With an empty folder, as the message says, the job runs."""
    checkpoint = stored.copy(tmp_path / "other")
    rewritten(checkpoint, **values)
    read_remedy(key, stored.refused(checkpoint))
    stored.runs(tmp_path / "empty")


def test_a_folder_that_is_no_checkpoint_of_ours(stored: Stored, tmp_path: Path) -> None:
    """Another query of Spark has made it: the job needs a folder of its own."""
    checkpoint = stored.copy(tmp_path / "foreign")
    (checkpoint / IDENTITY).unlink()
    read_remedy(
        "streaming.spark.checkpoint_files: give this job a checkpoint of its own", stored.refused(checkpoint)
    )
    stored.runs(tmp_path / "empty")


def test_the_topics_of_the_checkpoint(stored: Stored, tmp_path: Path) -> None:
    """Heartbeats are in another topic: with the same topics again it goes on."""
    checkpoint = stored.copy(tmp_path / "checkpoint")
    others = replace(stored.topics, probes="remedies-other-probes")
    told = stored.refused(checkpoint, others)
    read_remedy("streaming.run.identity: name the same sink and topics again", told)
    stored.runs(checkpoint)


def test_a_log_that_is_another_one(stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``check``, the event and a run that was refused say: start it. The state is built anew, with a ``job.gap``."""
    checkpoint, topics = stored.copy(tmp_path / "checkpoint"), stored.topics
    rewritten(checkpoint, partitions=7)

    def answer() -> dict[str, str]:
        words = ("--bootstrap-server", stored.server, "--checkpoint", checkpoint, *topic_flags(topics))
        answers = json.loads(invoke("check", "-o", "json", *words).stdout)
        return next(one for one in answers if one["check"] == "checkpoint")

    read_remedy("app.check.machine_checks: start the job:", answer()["fix"])
    event = fed([taken(1, count=2), taken(2, {**WELL, 2: (0, 0)}, count=3)])[0]
    read_remedy("state.conditions.job_blind: start the job", fix_of(event))
    losses = list[LogLostError | None]()

    def lost_twice(*args: Any, **more: Any) -> LogLostError | None:
        losses.append(lost_log(*args, **more))
        # As if the log had changed again before the first batch.
        return losses[0] if len(losses) == 2 else losses[-1]

    with monkeypatch.context() as patch:
        patch.setattr(job_run, "lost_log", lost_twice)
        told = stored.refused(checkpoint)
    read_remedy("streaming.kafka.log_watch: start again:", told)
    stored.runs(checkpoint)
    assert answer()["status"] == "ok"
    assert len(named(list(read_events(stored.server, topics).values()), "job.gap")) == 1


def test_what_ends_a_query(guarded: SecuredBroker, stored: Stored, tmp_path: Path) -> None:
    """A right that was taken away, another login, records that were deleted: in the words of Spark's connector."""
    guarded.allow_only(source_rights(probe=False, ask_retention=False))
    login = guarded.properties(tmp_path)
    assert read_by_spark(guarded.checked, login) is None
    guarded.allow_only([])
    told = str(read_by_spark(guarded.checked, login))
    read_remedy("streaming.spark.faults: groupreplay check", told)
    words = ("--bootstrap-server", guarded.checked, "--command-config", login)
    for answer in json.loads(invoke("check", "-o", "json", *words).stdout):
        if answer["status"] == "failed" and any(
            name in answer["check"] for name in ("__consumer_offsets", "spark-kafka")
        ):
            as_administrator(guarded, answer["fix"])
    assert read_by_spark(guarded.checked, login) is None
    told = str(read_by_spark(guarded.checked, guarded.properties(tmp_path, "0ther-Pa55")))
    read_remedy("streaming.spark.faults: check the --command-config", told)
    assert read_by_spark(guarded.checked, guarded.properties(tmp_path)) is None

    topic = topic_names("shortened").events
    admin = make_topics(stored.server, {topic: 1})
    produce(stored.server, topic, [(None, b"x")] * 5)
    for future in admin.delete_records([TopicPartition(topic, 0, 3)]).values():
        future.result(30)
    told = str(read_by_spark(stored.server, None, topic, startingOffsets=json.dumps({topic: {"0": 0}})))
    read_remedy("streaming.spark.faults: start again with", told)
    # A new checkpoint begins with what the log still holds.
    assert read_by_spark(stored.server, None, topic) is None
    stored.runs(tmp_path / "new")


def read_by_spark(
    server: str, login: Path | None, topic: str = OFFSETS_TOPIC, **options: str
) -> GroupReplayError | None:
    """What the job makes of the failure of Spark's connector to read a topic with the job's options; None: it reads."""
    properties = {} if login is None else dict(line.split("=", 1) for line in login.read_text().splitlines())
    plan = TopicPlan(
        cluster=Cluster(bootstrap_servers=server, properties=properties), topic=topic, partitions=1
    )
    rows = small_session().read.format("kafka").options(**{**read_options(plan), **options})
    try:
        # A query has its groups below this prefix by itself.
        rows.option("groupIdPrefix", SPARK_GROUPS).load().selectExpr("length(value)").collect()
    except Exception as error:  # of Spark or of the JVM
        return known_fault(failure_text(error)) or GroupReplayError(str(error))
    return None


@pytest.mark.long
def test_a_damaged_checkpoint(stored: Stored, tmp_path: Path) -> None:
    """Its identity is cut, or its state is: the whole folder from a backup is as good as ever."""
    checkpoint = stored.copy(tmp_path / "cut")
    (checkpoint / IDENTITY).write_text("{")
    read_remedy("streaming.run.identity: restore the whole folder from a backup", stored.refused(checkpoint))
    stored.copy(checkpoint)
    stored.runs(checkpoint)
    # Another folder: Spark may have the state of the first one in memory.
    checkpoint = stored.copy(tmp_path / "stateless")
    newest = max(
        checkpoint.glob("state/0/0/*.changelog"), key=lambda path: int(path.name.split(".")[0].split("_")[0])
    )
    newest.unlink()
    commit_once(stored.server, "after-damage")
    read_remedy("streaming.spark.faults: restore the whole folder from a backup", stored.refused(checkpoint))
    stored.copy(checkpoint)
    stored.runs(checkpoint)


def test_a_checkpoint_that_another_job_holds(stored: Stored, tmp_path: Path) -> None:
    """Its owner is named, and stopped; another folder does, too."""
    checkpoint = stored.copy(tmp_path / "held")
    lock = checkpoint / DRIVER_FILE
    code = "import fcntl, sys; fcntl.flock(file := open(sys.argv[1], 'a'), fcntl.LOCK_EX); print(); input()"
    command = [sys.executable, "-c", code, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        told = stored.refused(checkpoint)
        read_remedy("streaming.spark.checkpoint_files: stop it (its owner: …), or use another", told)
        stored.runs(stored.copy(tmp_path / "another"))
        holder.communicate(b"\n")
    stored.runs(checkpoint)


def test_a_disk_that_is_full(stored: Stored, tmp_path: Path) -> None:
    """The first start is refused; with space on the disk it runs."""
    with small_disk(tmp_path / "checkpoint", 64) as disk:
        with filled(disk):
            told = stored.refused(disk)
        read_remedy("streaming.spark.checkpoint_files: check that its disk is there", told)
        stored.runs(disk)


def test_a_setting_of_the_connector(stored: Stored, tmp_path: Path) -> None:
    """With the other way to fetch offsets the connector reads nothing.

    With the named one it does, and so does the source that needs no connector, on the same checkpoint.
    """
    checkpoint, spark = tmp_path / "checkpoint", small_session()
    spark.conf.set(OLD_OFFSETS, "false")
    try:
        told = stored.refused(checkpoint, log_source="connector")
    finally:
        spark.conf.set(OLD_OFFSETS, "true")
    read_remedy(f"streaming.spark.preflight: keep {OLD_OFFSETS}=true", told)
    stored.runs(checkpoint, log_source="connector")
    stored.runs(checkpoint, log_source="python")


KAFKA = "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary"


@pytest.mark.parametrize(
    ("schema", "late_by", "key"),
    [
        (
            KAFKA.replace("offset bigint, ", ""),
            None,
            "streaming.spark.event_frame: give a frame",
        ),
        (
            KAFKA.replace("key binary", "key string"),
            None,
            "streaming.spark.event_frame: leave key",
        ),
        (
            KAFKA.replace("timestamp timestamp", "timestamp string"),
            None,
            "streaming.spark.event_frame: give timestamps",
        ),
        (KAFKA, "1 minute", "streaming.spark.event_frame: leave it out: a batch has an end"),
    ],
)
def test_other_frames(schema: str, late_by: str | None, key: str) -> None:
    """The columns as Spark's Kafka source has them, and no bound for a batch: there are its events."""

    def events(columns: str, bound: str | None) -> list[object]:
        frame = small_session().createDataFrame([], columns)
        return list(event_frame(frame, Context(cluster_id="c"), bound).collect())

    with pytest.raises(GroupReplayError) as caught:
        events(schema, late_by)
    read_remedy(key, str(caught.value))
    assert events(KAFKA, None) == []
