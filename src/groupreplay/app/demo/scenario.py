"""Real consumer groups for the demo, and a table of the times at which members start, leave and are killed.

Each member is a process (``python -m groupreplay.demo.scenario member …``), so that it can really be killed.
``python -m groupreplay.demo.scenario play`` runs the steps against any broker that allows short session
timeouts.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from groupreplay.streaming.local.process_guard import GuardedProcess

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_REQUEST_SECONDS: Final = 15.0
_LEAVE_SECONDS: Final = 5.0
_MESSAGES_PER_SECOND: Final = 20

#: Topic -> number of partitions.
TOPICS: Final[Mapping[str, int]] = {"orders": 4, "payments": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """The settings of a consumer; with an instance id it is a static member.

    ``protocol`` is the client's ``group.protocol``. With ``consumer`` (KIP-848) the broker assigns partitions and
    sets the session timeout.
    """

    group: str
    topic: str
    protocol: str = "classic"
    instance_id: str | None = None
    session_timeout_ms: int = 6_000


class Action(Enum):
    """What an actor does; the value is the text that the demo prints."""

    START = "starts"
    LEAVE = "leaves the group and ends"
    DIE = "is killed (SIGKILL)"
    HANG = "stops polling and only sends heartbeats"
    COMMIT = "commits offsets without joining"
    DELETE_GROUP = "deletes the group (Admin API)"


@dataclass(frozen=True, slots=True)
class Step:
    """One action of one actor, with its time."""

    at_s: float
    actor: str
    action: Action


ACTORS: Final[Mapping[str, Actor]] = {
    "shipping-a": Actor(group="shipping", topic="orders"),
    "shipping-b": Actor(group="shipping", topic="orders"),
    "shipping-c": Actor(group="shipping", topic="orders"),
    # The long session timeout lets static members come back before they lose their partitions.
    "billing-a": Actor(group="billing", topic="payments", instance_id="billing-a", session_timeout_ms=30_000),
    "billing-b": Actor(group="billing", topic="payments", instance_id="billing-b", session_timeout_ms=30_000),
    "search-a": Actor(group="search", topic="orders", protocol="consumer"),
    "search-b": Actor(group="search", topic="orders", protocol="consumer"),
    "report": Actor(group="nightly-report", topic="orders"),
    "backfill": Actor(group="backfill", topic="payments"),
}

STORY: Final[Sequence[Step]] = (
    Step(0, "shipping-a", Action.START),
    Step(1, "billing-a", Action.START),
    Step(2, "search-a", Action.START),
    Step(4, "billing-b", Action.START),
    Step(5, "shipping-b", Action.START),
    Step(6, "report", Action.START),
    Step(8, "backfill", Action.COMMIT),
    Step(9, "search-b", Action.START),
    Step(11, "shipping-c", Action.START),
    Step(12, "report", Action.LEAVE),
    Step(13, "billing-b", Action.DIE),
    Step(15, "billing-b", Action.START),
    Step(17, "shipping-b", Action.LEAVE),
    Step(18, "report", Action.DELETE_GROUP),
    Step(21, "shipping-c", Action.DIE),
    Step(32, "shipping-c", Action.START),
)


class Stage:
    """Runs the steps of a story, and produces messages so that members have offsets to commit.

    A context manager: on exit it kills every member that is still running.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        folder: Path,
        story: Sequence[Step] = STORY,
        actors: Mapping[str, Actor] = ACTORS,
    ) -> None:
        """Starts nothing yet; the members' logs go to ``folder``."""
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        settings = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._servers = bootstrap_servers
        self._folder = folder
        self._waiting = list(story)
        self._actors = actors
        self._members: dict[str, GuardedProcess] = {}
        self._admin = AdminClient(settings)
        # The first idempotent producer of a broker waits a second for its id. The job would wait for it.
        self._producer = Producer({**settings, "enable.idempotence": True})
        self._produced = 0

    def __enter__(self) -> Stage:
        create_topics(self._admin, TOPICS)
        return self

    def __exit__(self, *error: object) -> None:
        self.close(0)

    def advance(self, elapsed_s: float) -> list[Step]:
        """Run the steps that are due at this time; returns them."""
        self._produce(elapsed_s)
        due = [step for step in self._waiting if step.at_s <= elapsed_s]
        self._waiting = self._waiting[len(due) :]
        for step in due:
            self._do(step)
        return due

    def close(self, seconds: float = _LEAVE_SECONDS) -> None:
        """End all members at the same time; each may leave its group within ``seconds``; 0 kills them."""
        deadline = time.monotonic() + seconds
        if seconds:
            for member in self._members.values():
                member.ask_to_end()
        for member in self._members.values():
            member.end(max(0.0, deadline - time.monotonic()))
        self._members.clear()
        self._producer.purge()

    def groups(self) -> dict[str, tuple[str, int]]:
        """State and number of members of every group, as the broker describes them."""
        names = [
            group.group_id for group in self._admin.list_consumer_groups().result(_REQUEST_SECONDS).valid
        ]
        answers = self._admin.describe_consumer_groups(names) if names else {}
        groups = [answer.result(_REQUEST_SECONDS) for answer in answers.values()]
        return {group.group_id: (group.state.name.capitalize(), len(group.members)) for group in groups}

    def _do(self, step: Step) -> None:
        actor = self._actors[step.actor]
        if step.action is Action.START:
            self._members[step.actor] = GuardedProcess(
                member_command(self._servers, step.actor, actor), self._folder / f"{step.actor}.log"
            )
        elif step.action is Action.LEAVE:
            self._members.pop(step.actor).end(_LEAVE_SECONDS)
        elif step.action is Action.DIE:
            self._members.pop(step.actor).end(0)
        elif step.action is Action.HANG:
            self._members[step.actor].send(signal.SIGUSR1)
        elif step.action is Action.COMMIT:
            _commit_without_joining(self._servers, step.actor, actor)
        else:
            self._admin.delete_consumer_groups([actor.group])[actor.group].result(_REQUEST_SECONDS)

    def _produce(self, elapsed_s: float) -> None:
        """Produce at a constant rate; after a pause, catch up by at most one second."""
        wanted = int(elapsed_s * _MESSAGES_PER_SECOND)
        self._produced = max(self._produced, wanted - _MESSAGES_PER_SECOND)
        while self._produced < wanted:
            self._produced += 1
            for topic, partitions in TOPICS.items():
                self._producer.produce(topic, b"demo", partition=self._produced % partitions)
        self._producer.poll(0)


def create_topics(admin: AdminClient, topics: Mapping[str, int]) -> None:
    """Create missing topics, given by name and number of partitions."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    wanted = [NewTopic(name, partitions, replication_factor=1) for name, partitions in topics.items()]
    for answer in admin.create_topics(wanted).values():
        try:
            answer.result(_REQUEST_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def member_command(servers: str, name: str, actor: Actor) -> list[str]:
    """The command line of a member's process."""
    command = [sys.executable, "-m", "groupreplay.app.demo.scenario", "member"]
    return [*command, servers, name, json.dumps(asdict(actor))]


def _commit_without_joining(servers: str, name: str, actor: Actor) -> None:
    """Commit offsets as a program that assigns partitions itself; Kafka calls its group simple."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": actor.group, "client.id": name, "log_level": 0}
    )
    try:
        offsets = [TopicPartition(actor.topic, number, 1) for number in range(TOPICS[actor.topic])]
        consumer.commit(offsets=offsets, asynchronous=False)
    finally:
        consumer.close()


def consume(arguments: argparse.Namespace) -> None:
    """Run a member: poll and commit until SIGTERM, then leave (a static member stays in its group).

    After SIGUSR1 it stops polling; its client still sends heartbeats.
    """
    from confluent_kafka import Consumer

    actor = Actor(**json.loads(arguments.actor))
    settings = {
        "bootstrap.servers": arguments.servers,
        "group.id": actor.group,
        "client.id": arguments.name,
        "group.protocol": actor.protocol,
        "auto.commit.interval.ms": 1_000,
        "auto.offset.reset": "earliest",
        "log_level": 3,
    }
    if actor.protocol == "classic":
        settings["session.timeout.ms"] = actor.session_timeout_ms
        settings["heartbeat.interval.ms"] = 1_000
        settings["partition.assignment.strategy"] = "range"
    if actor.instance_id:
        settings["group.instance.id"] = actor.instance_id
    consumer = Consumer(settings)
    consumer.subscribe([actor.topic])
    stop, hangs = _came(signal.SIGTERM, signal.SIGINT), _came(signal.SIGUSR1)
    try:
        while not stop():
            if hangs():
                time.sleep(0.2)
            else:
                consumer.poll(0.2)
    finally:
        consumer.close()


def play(arguments: argparse.Namespace) -> None:
    """Run the story once, or with ``--repeat`` again and again, until SIGTERM."""
    stop = _came(signal.SIGTERM, signal.SIGINT)
    length_s = max(step.at_s for step in STORY) + 20.0
    while not stop():
        with (
            tempfile.TemporaryDirectory() as folder,
            Stage(arguments.bootstrap_server, Path(folder)) as stage,
        ):
            start = time.monotonic()
            while not stop() and (elapsed_s := time.monotonic() - start) < length_s:
                for step in stage.advance(elapsed_s):
                    print(f"{step.actor} {step.action.value}", flush=True)  # noqa: T201
                time.sleep(0.1)
            stage.close()
        if not arguments.repeat:
            return


def _came(*signs: signal.Signals) -> Callable[[], bool]:
    """A function that returns whether one of the signals has arrived."""
    came: list[int] = []
    for sign in signs:
        signal.signal(sign, lambda number, _frame: came.append(number))
    return lambda: bool(came)


def main() -> None:
    """``member`` and ``play``, for the demo and for docker-compose.yml."""
    parser = argparse.ArgumentParser(prog="python -m groupreplay.demo.scenario", description=main.__doc__)
    commands = parser.add_subparsers(required=True)
    member = commands.add_parser("member", help=consume.__doc__)
    member.set_defaults(run=consume)
    for name in ("servers", "name", "actor"):
        member.add_argument(name)
    whole = commands.add_parser("play", help=play.__doc__)
    whole.set_defaults(run=play)
    whole.add_argument("--bootstrap-server", required=True)
    whole.add_argument("--repeat", action="store_true")
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
