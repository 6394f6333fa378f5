"""The job on a log that was written beforehand: the same events whatever happens to the job."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from groupreplay.codecs.consumer import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from support.histories.builders import Raw, asked_for, commit, emptied, generation, gone, member, no_offset
from support.histories.raw_records import commit as commit_bytes
from support.job.jobs import (
    JobTopics,
    Json,
    comparable,
    interleaved,
    read_json,
    read_topic,
    running_job,
    topic_names,
    write_log,
)
from support.job.own_process import OwnJob, keep_session, run_until
from support.job.replays import event_name, replayed_log
from support.kafka.blank_brokers import blank_broker
from support.kafka.clients import make_topics, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PARTITIONS = 4
LIVES = 12
ANCIENT_MS = 3_600_000
ANYTHING_BUT_A_COMMIT = b"\x00\x04" + b"\xff" * 1_000_000


@dataclass(frozen=True)
class World:
    """A broker with a written log; what ``replay`` says about it, and a job that nothing happened to."""

    server: str
    replayed: dict[str, Json]
    events: dict[str, Json]
    documents: dict[str, Json]
    dead_letters: list[Json]
    tallies: list[Json]


def busy(begin: int) -> list[Raw]:
    """Two members, then three, one leaves; commits all the time, one of them back."""
    one, two, three = member("one", [0, 1]), member("two", [2]), member("three", [3])
    history = [asked_for(at=begin), generation(1, one, at=begin + 10)]
    for number, members in enumerate([(one, two), (one, two, three), (one, three)], 2):
        history += [generation(number, *members, at=begin + 1_000 * number)]
        history += [
            commit("t", part, 10 * number, at=begin + 1_000 * number + 10 + part) for part in range(4)
        ]
    return [*history, commit("t", 0, 3, at=begin + 9_000)]


def deleted(begin: int) -> list[Raw]:
    """A group that is deleted with its offsets: one operation of seven records."""
    history = [asked_for(at=begin), generation(1, member("one", [0]), at=begin + 10)]
    history += [commit("t", part, 5, at=begin + 20 + part) for part in range(6)]
    history += [emptied(2, at=begin + 5_000)]
    return history + [no_offset("t", part, at=begin + 8_000) for part in range(6)] + [gone(at=begin + 8_000)]


def converted(begin: int) -> list[Raw]:
    """A classic group that becomes another kind, in one operation of a dozen records; inside it is no group."""
    epoch = ConsumerGroupMetadataValue(version=0, epoch=2)
    modern = Raw(ConsumerGroupMetadataKey(group="?"), epoch, at=begin + 8_000)
    return [
        asked_for(at=begin),
        generation(1, member("one", [0]), at=begin + 10),
        emptied(2, at=begin + 5_000),
        gone(at=begin + 8_000),
        *[modern] * 11,
    ]


def bad_records(at_ms: int) -> list[tuple[int, bytes, bytes | None, int]]:
    """A malformed key, a malformed value of a megabyte, an unknown type, an unknown version."""
    key, value = commit_bytes("bad")
    return [
        (0, b"\x00\x01\xff", value, at_ms),
        (0, key, ANYTHING_BUT_A_COMMIT, at_ms),
        (0, b"\x03\xe8new", b"\x00\x00", at_ms),
        (0, key, b"\x00\x63" + value[2:], at_ms),
    ]


def standing(documents: dict[str, Json]) -> dict[str, Json]:
    """The documents without what commits change in them, for which alone no document is written."""
    return {
        group: {name: value for name, value in document.items() if name not in ("offsets", "log_position")}
        for group, document in documents.items()
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The log is written, then one job reads it from the beginning to its end, in peace."""
    lives = {"busy": busy, "deleted": deleted, "converted": converted}
    histories = {
        f"{name}-{number}": life(37 * number) for name, life in lives.items() for number in range(LIVES)
    }
    with blank_broker(PARTITIONS) as broker:
        server = broker.bootstrap_servers
        start_ms = time.time_ns() // 1_000_000 - ANCIENT_MS
        log = interleaved(histories, PARTITIONS, start_ms)
        middle = len(log) // 2
        write_log(server, [*log[:middle], *bad_records(start_ms + 5_000), *log[middle:]], PARTITIONS)
        topics = topic_names("undisturbed")
        checkpoint = tmp_path_factory.mktemp("undisturbed") / "checkpoint"
        replayed = {event["id"]: comparable(event) for event in replayed_log(server, member_events=True)[0]}

        def read_all(done: threading.Event) -> None:
            job = OwnJob(server, topics, done)
            job.wait_until(lambda: job.events().keys() >= replayed.keys())
            # One batch reaches its topics task by task.
            job.wait_until(lambda: len(read_topic(server, topics.dead_letters)) == len(bad_records(0)))
            job.wait_until(lambda: len(job.documents()) == 2 * LIVES)

        with pytest.MonkeyPatch.context() as patch:
            keep_session(patch)
            run_until(server, checkpoint, topics, read_all, backfill_events=True, member_events=True)
        said = JobTopics(server, topics)
        letters = read_json(server, topics.dead_letters)
        tallies = [
            json.loads(one.value or b"")
            for one in read_topic(server, topics.job)
            if one.key == b"\0__consumer_offsets-0"
        ]
        yield World(server, replayed, said.events(), said.documents(), letters, tallies)


def test_the_job_reads_the_internal_topic_and_says_what_happened(world: World) -> None:
    """Every group's life comes out; nothing that only existed inside an operation does."""
    counts = Counter(
        (event["data"]["group_id"] or "-").split("-")[0] + " " + event_name(event)
        for event in world.events.values()
    )
    for name, expected in {
        "busy group.created": LIVES,
        "busy rebalance.completed": 4 * LIVES,
        "deleted group.created": LIVES,
        "deleted group.emptied": LIVES,
        "deleted group.deleted": LIVES,
        "converted group.deleted": 0,
        "converted group.emptied": LIVES,
    }.items():
        assert (name, counts[name]) == (name, expected)
    assert {group for group in world.documents if group.startswith("busy")} == {
        f"busy-{number}" for number in range(LIVES)
    }
    assert not any(group.startswith("deleted") for group in world.documents)
    assert world.documents["busy-0"]["state"] == "Stable"


def test_run_and_replay_say_the_same(world: World) -> None:
    """The same log gives the same events, ids and all, with Spark and without."""
    assert world.events == world.replayed


def test_bad_records_become_dead_letters_and_the_job_goes_on(world: World) -> None:
    """Each bad record is a dead letter with its place and reason; of a megabyte only 64 KiB are kept."""
    letters = sorted(world.dead_letters, key=lambda letter: letter["offset"])
    assert [
        (one["partition"], one["kind"], one["key_type"], one["version"], one["value_length"])
        for one in letters
    ] == [
        (0, "malformed", 1, None, len(commit_bytes("bad")[1])),
        (0, "malformed", 1, 4, len(ANYTHING_BUT_A_COMMIT)),
        (0, "skipped", 1000, None, 2),
        (0, "skipped", 1, 99, len(commit_bytes("bad")[1])),
    ]
    large = letters[1]
    assert large["value_sha256"] == hashlib.sha256(ANYTHING_BUT_A_COMMIT).hexdigest()
    assert base64.b64decode(large["value_base64"]) == ANYTHING_BUT_A_COMMIT[: 64 << 10]
    assert all(len(json.dumps(one)) < 256 << 10 for one in letters)
    names = Counter(event["type"] for event in world.events.values() if ".record." in event["type"])
    assert names == {"groupreplay.record.malformed.v1": 1, "groupreplay.record.skipped.v1": 2}
    assert world.tallies[-1]["bad_records"] == [
        {"kind": "malformed", "key_type": 1, "records": 2},
        {"kind": "skipped", "key_type": 1000, "records": 1},
        {"kind": "skipped", "key_type": 1, "records": 1},
    ]


@pytest.mark.long  # one kill of each kind is in test_run_kills.py
def test_a_killed_job_loses_nothing_and_invents_nothing(world: World, tmp_path: Path) -> None:
    """Started slowly on a cold log, killed in the middle, started again: the events of the undisturbed run.

    Its batches cut operations anywhere, its partitions are read at unequal speed, and a heartbeat of another
    run claims that all has been read: no deadline may be served early, or groups inside a conversion would
    be reported as deleted.
    """
    topics = topic_names("killed")
    make_topics(world.server, {topics.probes: 1})
    foreign = {"run_id": "another", "caught_up_ms": time.time_ns() // 1_000_000}
    produce(world.server, topics.probes, [(b"\0", json.dumps(foreign).encode())])

    flags = ("--backfill-events", "--member-events", "--max-offsets-per-trigger", "140")
    with running_job(world.server, tmp_path / "checkpoint", topics, *flags) as job:
        job.wait_until(job.events)
        job.kill()
        before = job.events()
        assert 0 < len(before) < len(world.events), "it was not killed in the middle"
        job.restart()
        job.wait_until(lambda: job.events().keys() >= world.events.keys())
        assert job.events() == world.events
        job.wait_until(lambda: job.documents().keys() == world.documents.keys())
        assert standing(job.documents()) == standing(world.documents)
