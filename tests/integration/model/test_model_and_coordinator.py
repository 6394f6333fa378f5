"""The coordinator model and Kafka's own coordinators do the same in virtual time, in random scripts.

Every step is compared: answers, records in their order, and timers with their deadlines. Of Kafka 3.9's coordinator,
which is written in Scala and has no such timers, answers and records with their times.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import pytest

from groupreplay.state.model.consumer.xxh3 import xxh3
from groupreplay.streaming.local.jars import jar_paths
from support.kafka.kafka_classes import compiled
from support.model.kafka_coordinator import KafkaCoordinator, kafka_coordinator, scala_coordinator
from support.model.random_scripts import KINDS, make_script

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

#: Scripts of each kind that are always run, and those that the long form runs.
FEW, MANY = range(17), range(17, 400)
_HASH = """
public class Hash {
    public long of(byte[] data) { return com.dynatrace.hash4j.hashing.Hashing.xxh3_64().hashBytesToLong(data); }
}
"""


@pytest.fixture(scope="module")
def coordinator() -> Iterator[KafkaCoordinator]:
    """One JVM for all scripts."""
    with kafka_coordinator(jar_paths("broker-4.3.1")) as running:
        yield running


@pytest.fixture(scope="module")
def older_coordinator() -> Iterator[KafkaCoordinator]:
    """That of Kafka 3.9 for classic groups."""
    with scala_coordinator(jar_paths("broker-3.9.1")) as running:
        yield running


def check(kafka: KafkaCoordinator, kind: str, seeds: range, *, scala: bool = False) -> None:
    """Run the scripts of these seeds; the message names the first one that differs."""
    for seed in seeds:
        try:
            make_script(kafka, kind, seed, scala=scala).run()
        except AssertionError as error:
            raise AssertionError(f"{kind} script {seed}: {error}") from error


@pytest.mark.parametrize("kind", KINDS)
def test_random_scripts(kind: str, coordinator: KafkaCoordinator) -> None:
    """Classic, KIP-848 and mixed groups."""
    check(coordinator, kind, FEW)


def test_random_scripts_of_the_older_coordinator(older_coordinator: KafkaCoordinator) -> None:
    """Classic groups with ``--scala``."""
    check(older_coordinator, "classic", FEW, scala=True)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_many_random_scripts_of_the_older_coordinator(older_coordinator: KafkaCoordinator) -> None:
    """The same seeds as of the newer one."""
    check(older_coordinator, "classic", MANY, scala=True)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", KINDS)
def test_many_random_scripts(
    kind: str, coordinator: KafkaCoordinator, capsys: pytest.CaptureFixture[str]
) -> None:
    """More than a thousand of other seeds."""
    with capsys.disabled():
        sys.stdout.write(f"\n{kind} scripts {MANY.start} to {MANY.stop - 1}\n")
    check(coordinator, kind, MANY)


def test_the_hash_of_topics() -> None:
    """XXH3 of bytes of any length, as the library in Kafka has it."""
    numbers = random.Random(0)
    with compiled(jar_paths("broker-4.3.1"), _HASH, "Hash") as theirs:
        for size in (*range(300), 1_024, 1_025, 1_088, 1_089, 2_049, 3_000):
            data = numbers.randbytes(size)
            assert xxh3(data) == theirs.of(bytearray(data)) & 2**64 - 1, f"of {size} bytes"
