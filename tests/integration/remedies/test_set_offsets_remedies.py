"""The runbook's commands for offsets that somebody set, and for a record at which every consumer fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from groupreplay.state.replay.offset_sets import OCCASION_MS
from support.job.captures import printed_by
from support.job.replays import Json, event_name, named
from support.kafka.blank_brokers import blank_broker
from support.kafka.clients import commit_once, make_topics, new_consumer, produce
from support.kafka.runbook_commands import remedies, run_remedy
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker

TOPIC = "remedied"
READ, RECORDS = 4, 10
BOTH = [TopicPartition(TOPIC, number, READ) for number in (0, 1)]
POISON, BAD_OFFSET = b"poison", 3
#: Minutes are too long for a test; a life of the consumer on a busy machine must fit in.
RULES = "[partition.poison]\nleast_ms = 5000\n"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A broker of its own: the runbook's commands read the job's topics by their default names."""
    with blank_broker() as broker:
        make_topics(broker.bootstrap_servers, {TOPIC: 2, "group-events": 1})
        yield broker.bootstrap_servers


def committed(server: str, group: str, topic: str) -> list[int]:
    """The offsets that the broker has."""
    with closing(new_consumer(server, group)) as client:
        asked = [TopicPartition(topic, number) for number in (0, 1)]
        return [one.offset for one in client.committed(asked, timeout=30)]


def replayed(server: str, *flags: object) -> list[Json]:
    """The events of the log, with those before the first record."""
    words = ("replay", "--bootstrap-server", server, "-o", "jsonl", "--complete-since", "0")
    return [json.loads(line) for line in printed_by(*words, *flags).splitlines()]


def test_set_offsets_are_set_back(server: str, tmp_path: Path) -> None:
    """From the event in the job's topic to the file and to the broker: the group is where it was."""
    group = "was-set"
    for number in (0, 1):
        produce(server, TOPIC, [(None, b"x")] * RECORDS, number)
    with closing(new_consumer(server, group, TOPIC)) as member:
        wait_until(lambda: (member.poll(0.1), len(member.assignment()) == 2)[1])
        member.commit(offsets=BOTH, asynchronous=False)
    mistake = f"kafka-consumer-groups.sh B --group {group} --topic {TOPIC} --reset-offsets --to-latest"
    run_remedy([*mistake.split(), "--execute"], {}, server)
    assert committed(server, group, TOPIC) == [RECORDS, RECORDS]

    def set_events() -> list[Json]:
        # A later record shows that the occasion is over.
        commit_once(server, "clock", TopicPartition(TOPIC, 0, 1))
        return named(replayed(server), "offsets.set", group)

    (event,) = wait_until(set_events, 30 + OCCASION_MS / 1_000, pause=1)
    produce(server, "group-events", [(group.encode(), json.dumps(event).encode())])
    (making, setting) = remedies("Offsets set")
    names = {"EVENT_ID": event["id"], "G": group, "FILE": str(tmp_path / "before.csv")}
    run_remedy(making, names, server)
    run_remedy(setting, names, server)
    assert committed(server, group, TOPIC) == [READ, READ]


def live_once(server: str, group: str, topic: str, end: int) -> None:
    """A consumer that commits what it has processed, and fails at one record of partition 0, or reads it to the end.

    Partition 1 gets a record for each life.
    """
    produce(server, topic, [(None, b"x")], 1)
    has_failed, open_partitions = False, {0, 1}
    with closing(new_consumer(server, group, topic, auto_offset_reset="earliest")) as member:

        def turn() -> bool:
            nonlocal has_failed
            message = member.poll(0.1)
            if message is None or message.error() or (message.partition() == 0 and has_failed):
                return not open_partitions
            if message.value() == POISON:
                has_failed = True
            else:
                member.commit(message=message, asynchronous=False)
            if has_failed or message.partition() == 1 or message.offset() + 1 == end:
                open_partitions.discard(message.partition())
            return not open_partitions

        wait_until(turn, pause=0)


def test_a_poisonous_record_is_skipped(server: str, tmp_path: Path) -> None:
    """Each life of the consumer ends at the same offset; behind the record, as on the page, the group goes on."""
    group, topic = "poisoned", "with-poison"
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)
    make_topics(server, {topic: 2})
    values = [POISON if number == BAD_OFFSET else b"x" for number in range(RECORDS)]
    produce(server, topic, [(None, value) for value in values], 0)

    def after_a_life() -> list[Json]:
        live_once(server, group, topic, RECORDS)
        found = replayed(server, "--group", group, "--rules", rules)
        poison = [one["data"] for one in found if event_name(one) == "partition.poison"]
        return [one for one in poison if one["status"] == "firing"]

    # It ends with the last member, and begins again in the next life.
    wait_until(lambda: len(after_a_life()) > 1)
    *_, fired = before = after_a_life()
    assert (fired["topic"], fired["partition"], fired["offset"]) == (topic, 0, BAD_OFFSET)
    (skipping,) = remedies("Partition poison")
    names = {"G": group, "T": topic, "P": str(fired["partition"]), "O": str(fired["offset"] + 1)}
    run_remedy(skipping, names, server)
    assert after_a_life() == before
    assert committed(server, group, topic)[0] == RECORDS
