"""A checkpoint that was damaged while nobody looked: it is refused in words, or the job goes on with its state.

One real checkpoint, made by a run of the job; each test damages a copy. A job that lost its state and went on in
silence would tell the groups' creation again as soon as they commit: that is what is looked for.

Flipped bits, of which there are many, are not tried with a job each: the files are read as the job and Spark read them.
"""

from __future__ import annotations

import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from groupreplay.state import SnapshotError
from groupreplay.state.job import bad_records, job_state
from groupreplay.state.snapshot import group_snapshot
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.engine.wire import BAD_RECORDS_TAG, GROUP_TAG
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.spark.checkpoint import Checkpoint
from support.job.jobs import has_caught_up, last_batch, read_events, topic_names
from support.job.own_process import run_until
from support.job.replays import named
from support.job.spark_sessions import small_session
from support.kafka.clients import commit_once, make_topics
from support.kafka.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.usefixtures("one_session")]

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
        wait_until(lambda: done.is_set() or last_batch(checkpoint) > before)
        if done.is_set():
            return
        for group in GROUPS:
            commit_once(stored.server, group, TopicPartition(ORDERS, 0, 1))
        committed_ms = now_ms()
        wait_until(
            lambda: done.is_set() or (has_caught_up(stored.server, stored.topics, committed_ms) and until()),
            pause=1.0,
        )

    run_until(stored.server, checkpoint, stored.topics, commit_and_wait)


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

#: Damages that Spark 4.2 repairs by itself: it takes an older snapshot, or none, and reads all changes since then.
SNAPSHOTS = ("half a snapshot of the state", "flipped byte in a snapshot", "no files of a snapshot")


def repairs_snapshots() -> bool:
    """Whether the installed Spark does."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return small_session().conf.get("spark.sql.streaming.stateStore.autoSnapshotRepair.enabled") == "true"
    except (Py4JJavaError, PySparkException):
        return False  # this line has no such setting


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_checkpoint(stored: Stored, tmp_path: Path, what: str) -> None:
    """Refused with what, where and a remedy, or gone on with: never begun again from nothing in silence."""
    damage, words = DAMAGES[what]
    copy = tmp_path / "checkpoint"
    shutil.copytree(stored.folder, copy)
    damage(copy)
    before = stored.creations()
    if words is None or (what in SNAPSHOTS and repairs_snapshots()):
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


#: Files of the state below ``state/0``, whose bits are flipped: the job finds out by itself, or Spark does.
STATE_FILES = ("0/*.changelog", "0/[0-9]*.zip", "0/SSTs/*", "0/_metadata/schema", "_metadata/metadata")
#: All others; besides our checks and Spark's they have Hadoop's checksums. A damaged
#: ``groupreplay-topics.json`` is written again, so it is none of them.
OTHER_FILES = ("metadata", "offsets/[0-9]*", "commits/[0-9]*", "groupreplay.json")
FLIPS_OF_A_FILE = 12


def flip_a_bit(file: Path, chance: random.Random) -> None:
    """Any of them."""
    content = bytearray(file.read_bytes())
    place = chance.randrange(8 * len(content))
    content[place // 8] ^= 1 << place % 8
    file.write_bytes(content)


def stored_state(checkpoint: Path) -> dict[bytes, tuple[bytes, int]]:
    """State and timer of each key, as Spark reads them for the next batch.

    Raises:
        SnapshotError: a state is refused, as the job would.
    """
    frame = small_session().read.format("statestore").option("path", str(checkpoint)).load()
    found = {}
    for row in frame.collect():
        key, blob = bytes(row.key.key), bytes(row.value.groupState.state)
        form = bad_records.FORM if key.startswith(BAD_RECORDS_TAG) else job_state.FORM
        (group_snapshot.FORM if key.startswith(GROUP_TAG) else form).read(blob)
        found[key] = blob, int(row.value.timeoutTimestamp)
    return found


def stored_progress(checkpoint: Path) -> tuple[object, ...]:
    """Everything else that a start reads, by our own code and by Spark's."""
    spark = small_session()
    place = Checkpoint(spark, str(checkpoint))
    known = place.known()
    assert known is not None
    place.claim(known)
    jvm, session = spark.sparkContext._jvm, spark._jsparkSession
    assert jvm is not None
    streaming = jvm.org.apache.spark.sql.execution.streaming
    # Spark 4.1 has moved them into another package, and 4.2 has made them read-only on request.
    logs = streaming if spark.version < "4.1" else streaming.checkpointing
    read_only = (True,) if spark.version >= "4.2" else ()
    offsets = logs.OffsetSeqLog(session, str(checkpoint / "offsets"), *read_only)
    latest = offsets.getLatest().get()._2().toString()
    done = logs.CommitLog(session, str(checkpoint / "commits"), *read_only).getLatest().get()._1()
    hadoop = session.sessionState().newHadoopConf()
    query = (streaming if spark.version < "4.1" else streaming.runtime).StreamMetadata.read(
        jvm.org.apache.hadoop.fs.Path(str(checkpoint / "metadata")), hadoop
    )
    return known, place.read_to(), latest, done, query.get().id()


def outcome(read: Callable[[Path], object], checkpoint: Path, expected: object) -> str:
    """What becomes of a damaged checkpoint; a misread one fails the test."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        found = read(checkpoint)
    except (GroupReplayError, Py4JError, PySparkException, SnapshotError):
        return "refused"
    assert found == expected
    return "read right"


@pytest.mark.parametrize("checksums", [True, False], ids=["with Hadoop's checksums", "without them"])
@pytest.mark.parametrize("pattern", STATE_FILES)
def test_flipped_bits_in_the_state(stored: Stored, tmp_path: Path, pattern: str, *, checksums: bool) -> None:
    """Any bit of any file of the state: it is refused or read right, also if Hadoop's checksums are gone."""
    flip_and_read(stored, tmp_path, f"state/0/{pattern}", stored_state, checksums=checksums)


@pytest.mark.parametrize("pattern", OTHER_FILES)
def test_flipped_bits_in_other_files(stored: Stored, tmp_path: Path, pattern: str) -> None:
    """Any bit of the files that say how far was read, and by whom; and of their checksums."""
    flip_and_read(stored, tmp_path, pattern, stored_progress, checksums=True)


@pytest.mark.parametrize("pattern", [*(f"state/0/{name}" for name in STATE_FILES), *OTHER_FILES])
def test_a_start_with_a_flipped_bit(stored: Stored, tmp_path: Path, pattern: str) -> None:
    """The job ends with 5 and names the checkpoint, or goes on with the right state; it does not try for ever."""
    seed, copy, before = random.randrange(1_000_000), tmp_path / "checkpoint", stored.creations()
    shutil.copytree(stored.folder, copy)
    files = [one for one in copy.glob(pattern) if not one.name.startswith(".")]
    file = changes(copy) if "changelog" in pattern else max(files)
    print(f"seed {seed}, {file.relative_to(copy)}")  # noqa: T201
    flip_a_bit(file, random.Random(seed))
    refusal: GroupReplayError | None = None
    try:
        goes_on(stored, copy)
    except GroupReplayError as error:
        refusal = error
    print(refusal or "read right")  # noqa: T201
    assert refusal is None or (refusal.exit_code, str(copy) in str(refusal)) == (ExitCode.DATA, True)
    assert stored.creations() == before


def flip_and_read(
    stored: Stored, folder: Path, pattern: str, read: Callable[[Path], object], *, checksums: bool
) -> None:
    """Flips one bit of one file at a time, and reads."""
    seed = random.randrange(1_000_000)
    chance, copy, outcomes = random.Random(seed), folder / "checkpoint", Counter[str]()
    expected = read(stored.folder)
    files = stored.folder.glob(pattern)
    names = [file.relative_to(stored.folder) for file in files if not file.name.startswith(".")]
    assert names
    for number in range(FLIPS_OF_A_FILE):
        shutil.copytree(stored.folder, copy)
        if pattern.startswith("state") and "changelog" in pattern:
            changes(copy)
        file = copy / chance.choice(names)
        if not checksums:
            without_checksum(file)
        elif number % 3 == 2:
            file = file.with_name(f".{file.name}.crc")
        print(f"seed {seed}, {file.relative_to(copy)}")  # noqa: T201
        flip_a_bit(file, chance)
        outcomes[outcome(read, copy, expected)] += 1
        shutil.rmtree(copy)
    print(f"{pattern}: {dict(outcomes)}")  # noqa: T201
