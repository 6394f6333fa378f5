"""``describe`` of a live cluster prints the rows and columns of Kafka's own tool, in the same order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.captures import invoke
from support.kafka.clients import commit_once, make_topics, new_consumer, produce
from support.kafka.kafka_classes import Jvm, broker_jars
from support.kafka.kafka_tool import TOOL
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker

TOPIC = "beside-kafka"
CLASSIC, STATIC, NEW, EMPTY = "beside-classic", "beside-static", "beside-kip848", "beside-without-members"
#: Rows as a group, and for each a dict from Kafka's heading to the cell.
Rows = list[dict[str, str]]


def members(address: str, group: str, protocol: str, *, static: bool = False) -> list[Consumer]:
    """Two members of a group; three partitions, so that one has two of them."""
    named = [f"{group}-{number}" for number in (1, 2)]
    return [
        new_consumer(
            address,
            group,
            TOPIC,
            group_protocol=protocol,
            client_id=name,
            auto_offset_reset="earliest",
            **({"group_instance_id": f"pod-{name}"} if static else {}),
        )
        for name in named
    ]


@pytest.fixture(scope="module")
def server(broker: EmbeddedBroker) -> Iterator[str]:
    """A broker with a classic, a static and a KIP-848 group, each behind on one partition, and one without members."""
    address = broker.bootstrap_servers
    make_topics(address, {TOPIC: 3})
    for partition in range(3):
        produce(address, TOPIC, [(None, b"x")] * (10 + partition), partition)
    with ExitStack() as stack:
        groups = {
            CLASSIC: members(address, CLASSIC, "classic"),
            STATIC: members(address, STATIC, "classic", static=True),
            NEW: members(address, NEW, "consumer"),
        }
        consumers = [one for pair in groups.values() for one in pair]
        for member in consumers:
            stack.callback(member.close)

        def shared() -> bool:
            for one in consumers:
                one.poll(0.05)
            return all(sorted(len(one.assignment()) for one in pair) == [1, 2] for pair in groups.values())

        wait_until(shared)
        # Partition 2 has an owner and no committed offset.
        for pair in groups.values():
            for one in pair:
                own = [
                    TopicPartition(TOPIC, place.partition, 4)
                    for place in one.assignment()
                    if place.partition < 2
                ]
                if own:
                    one.commit(offsets=own, asynchronous=False)
        commit_once(address, EMPTY, TopicPartition(TOPIC, 1, 7), TopicPartition(TOPIC, 0, 10))
        yield address


@pytest.fixture(scope="module")
def tool() -> Iterator[Any]:
    """Kafka's tool."""
    with Jvm(broker_jars()) as jvm:
        yield jvm.make(TOOL, "Tool")


def kafkas(tool: Any, address: str, *view: str) -> dict[str, Rows]:
    """The rows of Kafka's tool by group."""
    named = [word for group in (CLASSIC, STATIC, NEW, EMPTY) for word in ("--group", group)]
    printed = tool.run(" ".join(["--bootstrap-server", address, "--describe", *named, *view]))
    found: dict[str, Rows] = {}
    names: list[str] = []
    for line in printed.splitlines():
        # "host:9092  (1)" and its heading are the only cells with blanks.
        cells = re.sub(r"\s+\((\w+)\)", r"_(\1)", line).split()
        if cells[:1] == ["GROUP"]:
            names = cells
        elif cells and cells[0] in (CLASSIC, STATIC, NEW, EMPTY):
            found.setdefault(cells[0], []).append(dict(zip(names, cells, strict=True)))
    return found


def ours(address: str, *view: str) -> dict[str, Rows]:
    """The rows that groupreplay prints into a pipe, by group; cells as in ``kafkas``."""
    named = [word for group in (CLASSIC, STATIC, NEW, EMPTY) for word in ("--group", group)]
    printed = invoke("describe", "--bootstrap-server", address, *named, *view)
    assert (printed.exit_code, printed.stderr) == (0, "")
    names, *rows = [line.replace(" (", "_(").split("\t") for line in printed.stdout.splitlines()]
    found: dict[str, Rows] = {}
    for cells in rows:
        found.setdefault(cells[0], []).append(dict(zip(names, cells, strict=True)))
    return found


@pytest.mark.parametrize(
    "view",
    [
        ["--offsets"],
        ["--offsets", "--verbose"],
        ["--members"],
        ["--members", "--verbose"],
        ["--state"],
        ["--state", "--verbose"],
    ],
    ids=" ".join,
)
def test_the_same_rows_and_columns(server: str, tool: Any, view: list[str]) -> None:
    """Every column and row of Kafka's tool is there in its order, ours come between or behind; every cell is equal."""
    expected, found = kafkas(tool, server, *view), ours(server, *view)
    # The tool prints a line of text in place of the members of a group without any.
    assert list(expected) == [one for one in sorted(found) if one != EMPTY or "--members" not in view]
    for group, unordered in expected.items():
        # A broker lists the members of a KIP-848 group in the order of a hash table; it is in no record.
        is_hashed = group == NEW and "--members" in view
        rows, own = (
            sorted(each, key=lambda row: row["CONSUMER-ID"]) if is_hashed else each
            for each in (unordered, found[group])
        )
        columns = list(rows[0])
        assert [name for name in own[0] if name in columns] == columns
        shown = [{name: row[name] for name in columns} for row in own]
        for row, kafkas_row in zip(shown, rows, strict=True):
            # The strategy of the broker's configuration is in no record.
            if row.get("ASSIGNMENT-STRATEGY") == "(broker default)":
                assert (group, kafkas_row["ASSIGNMENT-STRATEGY"]) == (NEW, "uniform")
                row["ASSIGNMENT-STRATEGY"] = "uniform"
        assert shown == rows
