"""A checkpoint that was damaged while nobody looked: it is refused in words, or the job goes on with its state.

One real checkpoint, made by a run of the job; each test damages a copy. A job that lost its state and went on in
silence would tell the groups' creation again as soon as they commit: that is what is looked for.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster, RunSettings, TopicNames
from groupreplay.streaming.demo.scenario import create_topics
from groupreplay.streaming.job import query_run
from groupreplay.streaming.job import run as run_module
from groupreplay.streaming.job.run import run
from support.job.jobs import comparable, read_topic, topic_names
from support.job.spark_sessions import small_session
from support.kafka.waiting import wait_until

if TYPE_CHECKING:
    from groupreplay.streaming.local.broker import EmbeddedBroker

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

ORDERS = "damaged-orders"
GROUPS = ("damaged-a", "damaged-b", "damaged-c")
PATIENCE_SECONDS = 240.0


@dataclass(frozen=True)
class Stored:
    """A checkpoint as a stopped job has left it."""

    server: str
    folder: Path
    topics: TopicNames

    def settings(self, checkpoint: Path) -> RunSettings:
        """Those of the run that made it."""
        return RunSettings(
            source=Cluster(bootstrap_servers=self.server),
            checkpoint=str(checkpoint),
            topics=self.topics,
            trigger_seconds=0.5,
            shuffle_partitions=1,
            probe=False,
        )

    def commit(self) -> None:
        """Every group commits, as a tool does."""
        for group in GROUPS:
            consumer = Consumer({"bootstrap.servers": self.server, "group.id": group})
            try:
                consumer.commit(offsets=[TopicPartition(ORDERS, 0, 1)], asynchronous=False)
            finally:
                consumer.close()

    def caught_up(self, after_ms: int) -> bool:
        """Whether a job says that it has applied everything up to this moment."""
        beats = [json.loads(one.value or b"{}") for one in read_topic(self.server, self.topics.probes)]
        return any((beat.get("caught_up_ms") or 0) >= after_ms for beat in beats)

    def creations(self) -> set[str]:
        """The ids of the events that say that one of the groups was created."""
        events = [
            comparable(json.loads(one.value or b"")) for one in read_topic(self.server, self.topics.events)
        ]
        created = [one for one in events if one["type"] == "groupreplay.group.created.v1"]
        return {one["id"] for one in created if one["data"]["group_id"] in GROUPS}


@contextmanager
def stopped_when(condition: Callable[[], None], done: threading.Event) -> Iterator[None]:
    """The process is asked to stop when the condition has been waited for, unless the block is ``done`` before."""
    failures: list[BaseException] = []

    def watch() -> None:
        try:
            condition()
        except BaseException as error:
            failures.append(error)
        if not done.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
    assert failures == []


def goes_on(stored: Stored, checkpoint: Path, until: Callable[[], bool] = lambda: True) -> None:
    """Runs the job until it has applied what is written from now on, and until this holds.

    Raises:
        GroupReplayError: what the job ended with.
    """
    before, done = batches(checkpoint), threading.Event()

    def commit_and_wait() -> None:
        # A job that was refused finishes no batch: the deadline is somebody else's then.
        wait_until(lambda: done.is_set() or batches(checkpoint) > before, PATIENCE_SECONDS)
        if done.is_set():
            return
        stored.commit()
        committed_ms = time.time_ns() // 1_000_000
        wait_until(lambda: stored.caught_up(committed_ms) and until(), PATIENCE_SECONDS, pause=1.0)

    with stopped_when(commit_and_wait, done):
        assert run(stored.settings(checkpoint)) == 128 + signal.SIGTERM


def batches(checkpoint: Path) -> int:
    """The number of the last batch that is finished; -1 before the first."""
    return max((int(file.name) for file in checkpoint.glob("commits/*") if file.name.isdigit()), default=-1)


@pytest.fixture(scope="module", autouse=True)
def one_session() -> Iterator[None]:
    """All runs in one JVM, which is not ended by them."""

    @contextmanager
    def kept(_: RunSettings) -> Iterator[Any]:
        yield small_session()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "_session", kept)
        patch.setattr(query_run, "quiet", lambda _: None)
        yield


@pytest.fixture(scope="module")
def stored(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Two runs of the job, so that there are several batches; the groups' creation has been said."""
    folder = tmp_path_factory.mktemp("stored") / "checkpoint"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    create_topics(admin, {ORDERS: 1})
    made = Stored(broker.bootstrap_servers, folder, topic_names("damaged"))
    goes_on(made, folder)
    # Spark makes one after ten batches, within a minute.
    goes_on(made, folder, until=lambda: any(folder.glob("state/0/0/*.zip")))
    assert len(made.creations()) == len(GROUPS)
    # A batch that was planned and not finished would be planned again: its files are not needed.
    for file in (folder / "offsets").glob("*"):
        if file.name.isdigit() and int(file.name) > batches(folder):
            missing(file)
    return made


def last(folder: Path, pattern: str = "*") -> Path:
    """The file with the highest number in its name."""
    files = [file for file in folder.glob(pattern) if file.name.partition(".")[0].isdigit()]
    return max(files, key=lambda file: int(file.name.partition(".")[0]))


def changes(checkpoint: Path) -> Path:
    """What the last finished batch changed in the state, which has one partition; there is no newer snapshot."""
    state = checkpoint / "state" / "0" / "0"
    for file in state.glob("[0-9]*.zip"):
        missing(file)
    return state / f"{batches(checkpoint) + 1}.changelog"


def snapshot(checkpoint: Path) -> Path:
    """The latest snapshot of the state: it spares reading all changes from the beginning."""
    return last(checkpoint / "state" / "0" / "0", "[0-9]*.zip")


def without_checksum(file: Path) -> Path:
    """The file, whose checksum Hadoop does not look at any more."""
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return file


def flip(file: Path) -> None:
    """Changes one byte in the middle."""
    content = bytearray(without_checksum(file).read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)


def halve(file: Path) -> None:
    """Cuts the second half off."""
    without_checksum(file).write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty(file: Path) -> None:
    """Leaves nothing but the name, as a power cut does."""
    without_checksum(file).write_bytes(b"")


def missing(file: Path) -> None:
    """Takes the file away."""
    without_checksum(file).unlink()


#: What happened to the checkpoint -> how it is done, and words of the refusal; None: the job goes on.
DAMAGES: dict[str, tuple[Callable[[Path], object], str | None]] = {
    "nothing": (lambda folder: None, None),
    "no metadata": (lambda folder: missing(folder / "metadata"), "lost its metadata"),
    "empty metadata": (lambda folder: empty(folder / "metadata"), "damaged"),
    "half the metadata": (lambda folder: halve(folder / "metadata"), "damaged"),
    "no identity": (lambda folder: missing(folder / "groupreplay.json"), "not made by groupreplay"),
    "half the identity": (lambda folder: halve(folder / "groupreplay.json"), "cannot be read"),
    "empty last offsets": (lambda folder: empty(last(folder / "offsets")), "damaged"),
    "half the last offsets": (lambda folder: halve(last(folder / "offsets")), "damaged"),
    "no last offsets": (lambda folder: missing(last(folder / "offsets")), "damaged"),
    "no offsets at all": (lambda folder: shutil.rmtree(folder / "offsets"), "damaged"),
    "empty last commit": (lambda folder: empty(last(folder / "commits")), "damaged"),
    "half the last commit": (lambda folder: halve(last(folder / "commits")), "damaged"),
    "no last commit": (lambda folder: missing(last(folder / "commits")), None),
    "no commits at all": (lambda folder: shutil.rmtree(folder / "commits"), "damaged"),
    "no last state file": (lambda folder: missing(changes(folder)), "damaged"),
    "half the last state file": (lambda folder: halve(changes(folder)), "damaged"),
    "empty last state file": (lambda folder: empty(changes(folder)), "damaged"),
    "flipped byte in the last state file": (lambda folder: flip(changes(folder)), "damaged"),
    "no snapshot of the state": (lambda folder: missing(snapshot(folder)), None),
    "half a snapshot of the state": (lambda folder: halve(snapshot(folder)), "damaged"),
    "flipped byte in a snapshot": (lambda folder: flip(snapshot(folder)), "damaged"),
    "no files of a snapshot": (lambda folder: shutil.rmtree(folder / "state/0/0/SSTs"), "damaged"),
    "no state at all": (lambda folder: shutil.rmtree(folder / "state"), "damaged"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_checkpoint(stored: Stored, tmp_path: Path, what: str) -> None:
    """Refused with what, where and a remedy, or gone on with: never begun again from nothing in silence."""
    damage, words = DAMAGES[what]
    copy = tmp_path / "checkpoint"
    shutil.copytree(stored.folder, copy)
    damage(copy)
    before = stored.creations()
    if words is None:
        goes_on(stored, copy)
        assert batches(copy) > batches(stored.folder)
    else:
        with pytest.raises(GroupReplayError, match=words) as caught:
            goes_on(stored, copy)
        print(caught.value)  # noqa: T201
        assert caught.value.exit_code in (ExitCode.DATA, ExitCode.USAGE)
        assert str(copy) in str(caught.value)
        assert "checkpoint" in str(caught.value.fix)
    assert stored.creations() == before
