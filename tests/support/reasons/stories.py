"""Stories in which everything that is done to a group begins a rebalance, or several, of known triggers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from confluent_kafka.admin import ConfigResource

from groupreplay.app.demo.scenario import Actor, member_command
from support.kafka.clients import set_configs
from support.kafka.live_groups import CLASSIC, Condition, Story, World

Kind = Literal["classic", "consumer", "share", "streams"]
TOPIC, OTHER_TOPIC, PARTITIONS = "reasons", "reasons-other", 4
SESSION_MS: Final = 8_000
_REBALANCE_TIMEOUT_MS: Final = 6_000
_COOPERATIVE: Final = {**CLASSIC, "partition_assignment_strategy": "cooperative-sticky"}


@dataclass(frozen=True)
class Deed:
    """Something done to a group at a time: its rebalance has the first of these triggers, what follows any of them."""

    group: str
    at_ms: int
    what: str
    triggers: tuple[str, ...]


@dataclass
class Teller:
    """Tells stories of groups, with so many comings and goings in each; ``deeds`` is what was done so far."""

    world: World
    turns: int
    deeds: list[Deed] = field(default_factory=list)

    def did(self, group: str, what: str, *triggers: str) -> None:
        """To be called just before it is done."""
        self.deeds.append(Deed(group, int(time.time() * 1_000), what, triggers))

    def classic(self, group: str) -> Story:
        """Members of librdkafka that give up everything in each rebalance."""
        yield from self._members(group, CLASSIC)

    def cooperative(self, group: str) -> Story:
        """Such that give up only what another one gets, and rejoin then (KIP-429)."""
        yield from self._members(group, _COOPERATIVE, "cooperative_followup")

    def consumer(self, group: str) -> Story:
        """Members of librdkafka (KIP-848)."""
        yield from self._members(group, {"protocol": "consumer"})

    def _members(self, group: str, settings: dict[str, Any], *followup: str) -> Story:
        world, common = self.world, {"session_timeout_ms": SESSION_MS, **settings}
        if settings["protocol"] == "consumer":
            del common["session_timeout_ms"]
        self.did(group, "the first member joins", "first_join")
        a = world.join(group, "a", TOPIC, **common)
        yield world.holds(group, "a", PARTITIONS)
        yield from self._turns(
            group, lambda: world.join(group, "b", TOPIC, **common), world.leave, ("a", "b"), *followup
        )
        self.did(group, "a member subscribes to another topic", "subscription_changed")
        a.subscribe([TOPIC, OTHER_TOPIC])
        yield world.holds(group, "a", 2 * PARTITIONS)
        if not followup:
            yield from self._kill(group, settings["protocol"])

    def _kill(self, group: str, protocol: str) -> Story:
        """A member in a process is killed."""
        world, name = self.world, f"{group}-k"
        actor = Actor(group=group, topic=TOPIC, protocol=protocol, session_timeout_ms=SESSION_MS)
        self.did(group, "a member joins", "member_joined")
        member = world.guarded(name, member_command(world.servers, name, actor))
        yield world.shows(group, "Stable", "a", name)
        self.did(group, "a member is killed", "member_left")
        member.end(0)
        yield world.holds(group, "a", 2 * PARTITIONS)
        yield world.shows(group, "Stable", "a")

    def _turns(
        self,
        group: str,
        join: Callable[[], Any],
        leave: Callable[[Any], None],
        names: tuple[str, str],
        *followup: str,
    ) -> Iterator[Condition]:
        """A second member joins and leaves, again and again; each of both has half meanwhile."""
        stays, comes = names
        for _ in range(self.turns):
            self.did(group, "a member joins", "member_joined", *followup)
            member = join()
            yield self.world.holds(group, comes, PARTITIONS // 2)
            yield self.world.holds(group, stays, PARTITIONS // 2)
            yield self.world.shows(group, "Stable", *names)
            self.did(group, "a member leaves", "member_left", *followup)
            leave(member)
            yield self.world.holds(group, stays, PARTITIONS)
            yield self.world.shows(group, "Stable", stays)

    def pattern(self, group: str) -> Story:
        """A subscription by regular expression, which the broker resolves: then the epoch rises again (KIP-848)."""
        self.world.create(f"{group}-0", 1)
        self.did(group, "the first member joins", "first_join", "subscription_changed")
        self.world.join(group, "a", f"^{group}-.*")
        yield self.world.holds(group, "a", 1)
        yield self.world.shows(group, "Stable", "a")
        for number in range(1, 3):
            self.did(group, "another topic fits", "subscription_changed")
            self.world.create(f"{group}-{number}", 1)
            yield self.world.holds(group, "a", number + 1)
            yield self.world.shows(group, "Stable", "a")

    def fenced(self, group: str) -> Story:
        """A member does not give up its partitions until the broker fences it (KIP-848)."""
        self.did(group, "the first member joins", "first_join")
        a = self.world.stubborn(group, "a", TOPIC, _REBALANCE_TIMEOUT_MS)
        yield self.world.holds(group, "a", PARTITIONS)
        yield self.world.shows(group, "Stable", "a")
        self.did(group, "a member joins, and the other one does not give up", "member_joined")
        self.world.join(group, "b", TOPIC)
        yield self.world.holds(group, "b", PARTITIONS)
        yield self.world.shows(group, "Stable", "b")
        a.end(0)

    def share(self, group: str) -> Story:
        """Members of Java's share consumer."""
        members = self.world.members
        # The share coordinator initialises the topic behind the join, which raises the epoch once more.
        self.did(group, "the first member joins", "first_join", "unknown", "metadata_changed")
        members.startShare(self.world.servers, group, f"{group}-a", TOPIC)
        yield self.world.holds(group, f"{group}-a", PARTITIONS)
        yield from self._turns(
            group,
            lambda: members.startShare(self.world.servers, group, f"{group}-b", TOPIC),
            lambda _: members.closeShare(f"{group}-b"),
            (f"{group}-a", f"{group}-b"),
        )
        members.closeShare(f"{group}-a")

    def streams(self, group: str) -> Story:
        """Instances of Kafka Streams with its own protocol (KIP-1071)."""
        world, source, target = self.world, f"{group}-in", f"{group}-out"
        world.create(source, PARTITIONS)
        world.create(target, 1)
        quick = {"streams.heartbeat.interval.ms": 1_000}
        set_configs(world.servers, ConfigResource.Type.GROUP, [group], quick)

        def start(name: str) -> None:
            world.members.startStreams(
                world.servers, group, name, source, target, str(world.folder), "streams"
            )

        def thread(name: str) -> str:
            return f"{name}-StreamThread-1-consumer"

        self.did(group, "the first member joins", "first_join")
        start(f"{group}-a")
        yield world.holds(group, thread(f"{group}-a"), PARTITIONS)
        yield world.shows(group, "Stable", thread(f"{group}-a"))
        yield from self._turns(
            group,
            lambda: start(f"{group}-b"),
            lambda _: world.members.closeStreams(f"{group}-b"),
            (thread(f"{group}-a"), thread(f"{group}-b")),
        )
        world.members.closeStreams(f"{group}-a")


#: Stories that are told at the same time, with their kinds: no more than six clients.
ROUNDS: Final[tuple[dict[str, Kind], ...]] = (
    {"classic": "classic", "cooperative": "classic"},
    {"consumer": "consumer", "fenced": "consumer"},
    {"pattern": "consumer", "share": "share", "streams": "streams"},
)
#: Those of releases whose newer kinds are a preview that no broker of theirs has turned on.
OLD_ROUNDS: Final = ROUNDS[:1]
