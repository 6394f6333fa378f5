"""Real groups from their first join to their end: the job says exactly what happened, ``replay`` the same."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from groupreplay.app.demo.scenario import Actor, member_command
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.process_guard import GuardedProcess
from groupreplay.streaming.sinks.event_topic import SinkReader
from support.job.captures import printed_by
from support.job.jobs import comparable, topic_names
from support.job.own_process import OwnJob, keep_session, run_until
from support.job.replays import event_name
from support.kafka.clients import make_topics
from support.kafka.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.spark]

SECONDS = 90.0


class Stage:
    """Members of real groups, started, asked to leave and killed, each step awaited at the broker."""

    def __init__(self, servers: str, folder: Path, topic: str) -> None:
        self.servers, self.folder, self.topic = servers, folder, topic
        self.admin = make_topics(servers, {topic: 4})
        self.exit = ExitStack()

    def start(
        self, group: str, name: str, instance_id: str | None = None, session_ms: int = 6_000
    ) -> GuardedProcess:
        """A consumer as a process of its own."""
        actor = Actor(group=group, topic=self.topic, instance_id=instance_id, session_timeout_ms=session_ms)
        return self.exit.enter_context(
            GuardedProcess(member_command(self.servers, name, actor), self.folder / f"{name}.log")
        )

    def describe(self, group: str) -> Any:
        """What the broker says of a group now."""
        return self.admin.describe_consumer_groups([group])[group].result(10)

    def settled(self, group: str, *clients: str) -> Callable[[], bool]:
        """The group is Stable with these members (Empty without any), and each has partitions."""

        def look() -> bool:
            found = self.describe(group)
            state = "STABLE" if clients else "EMPTY"
            names = sorted(member.client_id for member in found.members)
            busy = all(member.assignment.topic_partitions for member in found.members)
            return bool(found.state.name == state and names == sorted(clients) and busy)

        return look


@pytest.fixture
def stage(broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Stage]:
    """A stage with a topic of its own."""
    made = Stage(broker.bootstrap_servers, tmp_path, unique("orders"))
    with made.exit:
        yield made


def play(stage: Stage, dynamic: str, static: str) -> None:
    """One member, two, one leaves, one is killed, a static one restarts, all groups end empty."""
    a = stage.start(dynamic, "a")
    wait_until(stage.settled(dynamic, "a"), SECONDS)
    b = stage.start(dynamic, "b")
    wait_until(stage.settled(dynamic, "a", "b"), SECONDS)
    b.end(20)
    wait_until(stage.settled(dynamic, "a"), SECONDS)
    c = stage.start(dynamic, "c")
    wait_until(stage.settled(dynamic, "a", "c"), SECONDS)
    c.end(0)
    wait_until(stage.settled(dynamic, "a"), SECONDS)

    s = stage.start(static, "s", instance_id="s-1", session_ms=30_000)
    wait_until(stage.settled(static, "s"), SECONDS)
    before = stage.describe(static).members[0].member_id
    s.end(20)
    s = stage.start(static, "s", instance_id="s-1", session_ms=6_000)
    wait_until(lambda: [one.member_id for one in stage.describe(static).members] != [before], SECONDS)
    s.end(20)

    a.end(20)
    wait_until(stage.settled(dynamic), SECONDS)
    wait_until(stage.settled(static), SECONDS)


def said(events: list[dict[str, Any]], group: str) -> list[tuple[Any, ...]]:
    """The facts of one group in the order of the log, each with what is certain about it."""
    fields = {
        "rebalance.completed": ("generation", "member_count", "trigger"),
        "member.joined": ("client_id",),
        "member.left": ("client_id", "reason"),
        "group.created": ("generation",),
        "group.emptied": ("generation",),
        "static.replaced": ("instance_id",),
        "member.updated": ("client_id", "changed"),
    }
    mine = sorted(
        (event for event in events if event["data"]["group_id"] == group), key=lambda event: event["sequence"]
    )
    return [
        (event_name(event), *(event["data"][field] for field in fields[event_name(event)])) for event in mine
    ]


EXPECTED = [
    ("group.created", 0),
    ("rebalance.completed", 1, 1, "first_join"),
    ("member.joined", "a"),
    ("rebalance.completed", 2, 2, "member_joined"),
    ("member.joined", "b"),
    ("rebalance.completed", 3, 1, "member_left"),
    ("member.left", "b", "left"),
    ("rebalance.completed", 4, 2, "member_joined"),
    ("member.joined", "c"),
    ("rebalance.completed", 5, 1, "member_left"),
    ("member.left", "c", "unknown"),
    ("group.emptied", 6),
    ("member.left", "a", "left"),
]
EXPECTED_STATIC = [
    ("group.created", 0),
    ("rebalance.completed", 1, 1, "first_join"),
    ("member.joined", "s"),
    ("static.replaced", "s-1"),
    # It came back with a shorter session timeout.
    ("member.updated", "s", ["session_timeout_ms"]),
    ("group.emptied", 2),
    ("member.left", "s", "unknown"),
]


def test_exactly_what_happened_from_run_and_from_replay(
    stage: Stage, unique: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every fact once, in order, with the right cause; the same events with the same ids from a capture."""
    keep_session(monkeypatch)
    dynamic, static = unique("dynamic"), unique("static")
    topics = topic_names(unique("group"))
    found: list[dict[str, Any]] = []

    def story(done: threading.Event) -> None:
        job = OwnJob(stage.servers, topics, done)
        job.wait_caught_up()
        with SinkReader(stage.servers, topics) as sink:
            wait_until(sink.find_topics)
            play(stage, dynamic, static)

            def complete() -> bool:
                found.extend(sink.events(0.2))
                is_long = len(said(found, dynamic)) >= len(EXPECTED)
                return is_long and len(said(found, static)) >= len(EXPECTED_STATIC)

            job.wait_until(complete)
            # Documents are in another topic: they may be read later than the events of the same batch.
            job.wait_until(
                lambda: (
                    {sink.documents[group]["state"] for group in (dynamic, static)} == {"Empty"}
                    or found.extend(sink.events(0.2))
                )
            )

    # What the prober would happen to see is no fact of the log, and the capture has only that.
    run_until(stage.servers, tmp_path / "checkpoint", topics, story, member_events=True)
    assert (said(found, dynamic), said(found, static)) == (EXPECTED, EXPECTED_STATIC)

    capture = tmp_path / "capture.parquet"
    printed_by("capture", "--bootstrap-server", stage.servers, "-o", capture)
    flags = ("-o", "jsonl", "--member-events", "--group", dynamic, "--group", static)
    theirs = map(json.loads, printed_by("replay", "--from-file", capture, *flags).splitlines())
    ours = [event for event in found if event["data"]["group_id"] in (dynamic, static)]
    assert {one["id"]: comparable(one) for one in theirs} == {one["id"]: comparable(one) for one in ours}
