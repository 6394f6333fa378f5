"""The job under a steady load for a long time: its memory, batches, checkpoint and lag.

    python benchmarks/soak.py [--minutes 30] [--rate 5000] [--groups 2000] [--trigger 10] [--bounce-minutes 10]
    small: --minutes 0.3 --rate 50 --groups 20 --trigger 1

Starts a broker, writes commits and generations of that many groups into the log at that rate, and prints a line a
minute and the slope of each figure. Memory is the resident memory of all processes of the job; the slopes leave out
the first third, in which caches and heaps fill. With ``--bounce-minutes`` the broker is restarted that often. After the
load the events are compared with a replay of the log; the exit code is 1 if any is lost or wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields
from pathlib import Path

import psutil
from confluent_kafka import KafkaException, Producer
from page import flag_parser
from processes import FULL_SPEED

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from groupreplay.codecs import GroupMetadataKey, encode_key, encode_value
from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.local.broker import BrokerError, EmbeddedBroker
from support.histories.builders import generation, member
from support.histories.raw_records import commit
from support.job.jobs import RunningJob, last_batch, read_json, running_job, topic_names
from support.kafka.waiting import in_background, wait_until
from support.ordeals.comparison import settled

PARTITIONS = 8
TOPIC_PARTITIONS = 3
#: After this many records one group gets a new generation.
GENERATION_EVERY = 500
STEP_SECONDS = 0.1
#: A restart of the broker under load.
JOIN_SECONDS = 1_000.0
#: Between two tries to start the broker.
PORT_SECONDS = 5.0
MIB = 1 << 20


@dataclass(frozen=True)
class Sample:
    """The job at one moment; ``minutes`` since the start of the load."""

    minutes: float
    driver_mib: float
    jvm_mib: float
    workers_mib: float
    prober_mib: float
    batch_seconds: float
    lag: int
    state_rows: int
    events: int
    checkpoint_mib: float
    checkpoint_files: int


class Load:
    """Writes commits and generations at a steady rate, in a thread, until it is stopped."""

    def __init__(self, server: str, rate: int, groups: int) -> None:
        self._rate, self._random = rate, random.Random(1)
        self._names = [f"soak-{number:05}" for number in range(groups)]
        self._places = [partition_for(name, PARTITIONS) for name in self._names]
        # The broker accepts records for this topic only from Kafka's own administration client.
        settings = {
            "bootstrap.servers": server,
            "client.id": "__admin_client",
            "linger.ms": 20,
            "log_level": 0,
        }
        self._producer = Producer({**settings, "queue.buffering.max.messages": 1_000_000})
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.written = 0

    def __enter__(self) -> Load:
        for number in range(len(self._names)):
            self._generation(number)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._producer.flush(30)

    def _run(self) -> None:
        begin, first = time.monotonic(), self.written
        while not self._stopped.wait(STEP_SECONDS):
            due = first + round((time.monotonic() - begin) * self._rate)
            while self.written < due:
                self._commit()
            self._producer.poll(0)

    def _commit(self) -> None:
        number = self._random.randrange(len(self._names))
        if self.written % GENERATION_EVERY == 0:
            self._generation(number)
            return
        now_ms = time.time_ns() // 1_000_000
        part, offset = self._random.randrange(TOPIC_PARTITIONS), self.written
        self._write(
            number,
            *commit(self._names[number], "orders", part, offset=offset, commit_timestamp_ms=now_ms),
            now_ms,
        )

    def _generation(self, number: int) -> None:
        """A generation that follows the one before; two members, one of them new."""
        now_ms, name = time.time_ns() // 1_000_000, self._names[number]
        members = member("kept", [0]), member(f"new-{self.written}", [1, 2])
        value = generation(self.written + 1, *members, at=now_ms).value
        self._write(number, encode_key(GroupMetadataKey(group=name)), encode_value(value), now_ms)

    def _write(self, number: int, key: bytes, value: bytes, now_ms: int) -> None:
        while True:
            with suppress(BufferError):  # full: the broker has been away for minutes
                self._producer.produce(
                    OFFSETS_TOPIC, key=key, value=value, partition=self._places[number], timestamp=now_ms
                )
                break
            self._producer.poll(1)
        self.written += 1


def _started(broker: EmbeddedBroker) -> bool:
    """Starts it again, unless another program has taken its port meanwhile: then the outage is longer."""
    try:
        broker.start()
    except BrokerError as error:
        print(error, flush=True)
        return False
    return True


@contextmanager
def bounced(broker: EmbeddedBroker, minutes: float) -> Iterator[None]:
    """The broker restarts this often, until the block ends; a restart that has begun is finished."""
    bounces = [0]

    def run(done: threading.Event) -> None:
        while not done.wait(60 * minutes):
            broker.stop()
            wait_until(lambda: _started(broker), JOIN_SECONDS / 2, pause=PORT_SECONDS)
            bounces[0] += 1

    with in_background(run):
        yield
    print(f"{bounces[0]} restarts of the broker")


def compare(job: RunningJob) -> int:
    """Prints how many events of a replay the job has not written, and how many it wrote otherwise; their sum."""
    said, expected = settled(job)
    lost = [event["type"] for name, event in expected.items() if name not in said]
    wrong = [event["type"] for name, event in said.items() if event != expected.get(name)]
    print(f"{len(expected):,} events in a replay: {len(lost)} lost, {len(wrong)} wrong")
    for what, types in (("lost", lost), ("wrong", wrong)):
        for kind, count in Counter(types).most_common():
            print(f"{what}: {count:,} {kind}")
    examples = {event["type"]: name for name, event in said.items() if event != expected.get(name)}
    for name in examples.values():
        print(f"said {said[name]}, expected {expected.get(name)}")
    return len(lost) + len(wrong)


def sample(job: RunningJob, begin: float) -> Sample | None:
    """The job now; None before its first batch, and while no broker answers."""
    try:
        documents = read_json(job.server, job.topics.job)
    except (KafkaException, AssertionError, GroupReplayError):
        return None
    known = [one for one in documents[-50:] if one.get("batch")]
    if not known:
        return None
    memory = {"driver": 0, "java": 0, "python": 0}
    prober = psutil.Process(job.prober()).memory_info().rss  # in a session of its own
    for process in psutil.process_iter(["name", "memory_info"]):
        with suppress(ProcessLookupError):
            if os.getsid(process.pid) == job.process.pid:
                name = "driver" if process.pid == job.process.pid else process.info["name"]
                kind = next((one for one in memory if name.startswith(one)), "python")
                memory[kind] += process.info["memory_info"].rss
    sizes = []
    for file in job.checkpoint.rglob("*"):
        with suppress(OSError):  # Spark deletes old files
            sizes.append(file.stat().st_size)
    last = known[-1]
    return Sample(
        minutes=(time.monotonic() - begin) / 60,
        driver_mib=memory["driver"] / MIB,
        jvm_mib=memory["java"] / MIB,
        workers_mib=memory["python"] / MIB,
        prober_mib=prober / MIB,
        batch_seconds=last["batch"]["seconds"],
        lag=last["lag"]["offsets"],
        state_rows=last["state_rows"],
        events=last["counters"]["events"],
        checkpoint_mib=sum(sizes) / MIB,
        checkpoint_files=len(sizes),
    )


def slope(samples: Sequence[Sample], name: str) -> float:
    """Percent an hour, by a straight line through the figures."""
    values = [float(getattr(one, name)) for one in samples]
    line = statistics.linear_regression([one.minutes for one in samples], values)
    return 100 * 60 * line.slope / (statistics.fmean(values) or 1)


def show(one: Sample) -> None:
    """One line of the table."""
    print(" ".join(f"{getattr(one, column.name):>16,.1f}" for column in fields(Sample)), flush=True)


@contextmanager
def kept_if_it_fails() -> Iterator[Path]:
    """A folder for the checkpoint and the job's log, which tell why a job has ended after an hour."""
    folder = Path(tempfile.mkdtemp(prefix="groupreplay-soak-"))
    try:
        yield folder
    except BaseException:
        print(f"the job's log and checkpoint are in {folder}", file=sys.stderr)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def soak(asked: argparse.Namespace) -> tuple[list[Sample], int]:
    """Runs the job under load, and prints a line a minute; also the number of lost and wrong events."""
    samples: list[Sample] = []
    print(" ".join(f"{column.name:>16}" for column in fields(Sample)))
    with (
        kept_if_it_fails() as folder,
        # The replay at the end needs every record that the job has read.
        EmbeddedBroker(
            offsets_partitions=PARTITIONS,
            overrides={"log.cleaner.enable": "false"},
            jvm_options=[FULL_SPEED],
        ) as broker,
    ):
        flags = ("--trigger", str(asked.trigger), "--member-events")
        job_at = (broker.bootstrap_servers, folder / "job", topic_names("soak"))
        with running_job(*job_at, *flags) as job:
            # What happened before the first start would not be said.
            job.wait_until(lambda: last_batch(job.checkpoint) >= 0)
            with (
                Load(broker.bootstrap_servers, asked.rate, asked.groups) as load,
                bounced(broker, asked.bounce_minutes) if asked.bounce_minutes else nullcontext(),
            ):
                begin = time.monotonic()
                samples += watch(job, begin, asked.minutes)
                print(f"{load.written:,} records, {load.written / (time.monotonic() - begin):,.0f} a second")
            return samples, compare(job)


def watch(job: RunningJob, begin: float, minutes: float) -> list[Sample]:
    """A sample every five seconds, a line a minute."""
    samples, shown = [], 0.0
    while (passed := time.monotonic() - begin) < 60 * minutes:
        time.sleep(5)
        assert job.process.exit_code is None, job.process.tail(40)
        if (one := sample(job, begin)) is not None:
            samples.append(one)
            if passed - shown >= 60:
                show(one)
                shown = passed
    return samples


def main() -> None:
    """Prints the table and the slopes."""
    parser = flag_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=int, default=5_000, help="records a second")
    parser.add_argument("--groups", type=int, default=2_000)
    parser.add_argument("--trigger", type=float, default=10.0)
    parser.add_argument("--bounce-minutes", type=float, default=0.0, help="between restarts of the broker")
    asked = parser.parse_args()
    samples, faults = soak(asked)
    settled = [one for one in samples if one.minutes >= asked.minutes / 3]
    if len(settled) < 2:
        sys.exit("too few batches have ended for a slope: use more --minutes, or an idle machine")
    for column in fields(Sample)[1:]:
        if column.name != "events":
            middle = statistics.median(float(getattr(one, column.name)) for one in settled)
            print(f"{column.name}: median {middle:,.1f}, {slope(settled, column.name):+.1f} % an hour")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
