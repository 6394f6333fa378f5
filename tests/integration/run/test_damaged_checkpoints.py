"""A checkpoint that was damaged while nobody looked: it is refused in words, or the job goes on with its state.

One real checkpoint, made by a run of the job; each test damages a copy. A job that lost its state and went on in
silence would tell the groups' creation again as soon as they commit: that is what is looked for.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import PATIENCE_SECONDS, has_caught_up, last_batch, read_events, topic_names
from support.job.own_process import keep_session, run_until
from support.job.replays import named
from support.kafka.clients import commit_once, make_topics
from support.kafka.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

ORDERS = "damaged-orders"
GROUPS = ("damaged-a", "damaged-b", "damaged-c")


@dataclass(frozen=True)
class Stored:
    """A checkpoint as a stopped job has left it."""

    server: str
    folder: Path
    topics: TopicNames

    def creations(self) -> set[str]:
        """The ids of the events that say that one of the groups was created."""
        created = named(list(read_events(self.server, self.topics).values()), "group.created")
        return {one["id"] for one in created if one["data"]["group_id"] in GROUPS}


def goes_on(stored: Stored, checkpoint: Path, until: Callable[[], bool] = lambda: True) -> None:
    """Runs the job until it has applied what is written from now on, and until this holds.

    Raises:
        GroupReplayError: what the job ended with.
    """
    before = last_batch(checkpoint)

    def commit_and_wait(done: threading.Event) -> None:
        # A job that was refused finishes no batch: the deadline is somebody else's then.
        wait_until(lambda: done.is_set() or last_batch(checkpoint) > before, PATIENCE_SECONDS)
        if done.is_set():
            return
        for group in GROUPS:
            commit_once(stored.server, group, TopicPartition(ORDERS, 0, 1))
        committed_ms = now_ms()
        wait_until(
            lambda: done.is_set() or (has_caught_up(stored.server, stored.topics, committed_ms) and until()),
            PATIENCE_SECONDS,
            pause=1.0,
        )

    run_until(stored.server, checkpoint, stored.topics, commit_and_wait)


@pytest.fixture(scope="module", autouse=True)
def one_session() -> Iterator[None]:
    """All runs in one JVM, which is not ended by them."""
    with pytest.MonkeyPatch.context() as patch:
        keep_session(patch)
        yield


@pytest.fixture(scope="module")
def stored(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Two runs of the job, so that there are several batches; the groups' creation has been said."""
    folder = tmp_path_factory.mktemp("stored") / "checkpoint"
    make_topics(broker.bootstrap_servers, {ORDERS: 1})
    made = Stored(broker.bootstrap_servers, folder, topic_names("damaged"))
    goes_on(made, folder)
    # Spark makes one after ten batches, within a minute.
    goes_on(made, folder, until=lambda: any(folder.glob("state/0/0/*.zip")))
    assert len(made.creations()) == len(GROUPS)
    # A batch that was planned and not finished would be planned again: its files are not needed.
    for file in (folder / "offsets").glob("*"):
        if file.name.isdigit() and int(file.name) > last_batch(folder):
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
    return state / f"{last_batch(checkpoint) + 1}.changelog"


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
        assert last_batch(copy) > last_batch(stored.folder)
    else:
        with pytest.raises(GroupReplayError, match=words) as caught:
            goes_on(stored, copy)
        print(caught.value)  # noqa: T201
        assert caught.value.exit_code in (ExitCode.DATA, ExitCode.USAGE)
        assert str(copy) in str(caught.value)
        assert "checkpoint" in str(caught.value.fix)
    assert stored.creations() == before
