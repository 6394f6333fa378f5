"""Random scripts for the model and Kafka's coordinator: each seed is a group's whole life.

The clients are not clean: they repeat, forget, come back with other protocols and send old generations and epochs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec import structs

from groupreplay.codecs import Assignment, Subscription, decode_assignment, encode_blob
from groupreplay.coordinator.consumer.consumer_group import Topic
from groupreplay.coordinator.requests import (
    MIGRATION_POLICIES,
    ClassicHeartbeat,
    Commit,
    ConsumerGroupHeartbeat,
    DeleteGroup,
    EndTransaction,
    Error,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetDelete,
    Protocol,
    SyncGroup,
)
from groupreplay.coordinator.requests import Settings as GroupSettings
from support.model.classic_clients import owning
from support.model.coordinator_pair import CoordinatorPair
from support.model.kafka_coordinator import GROUP, KafkaCoordinator
from support.model.script_actors import Actor, ClassicActor, ConsumerActor

HOST: Final = "/10.0.0.1"
KINDS: Final = ("classic", "consumer", "mixed")
_STEPS: Final = 60
_MANY: Final = 2**31 - 1
#: Ids of different buckets in a table of 16: the order in a bucket depends on how a member came by its topics.
_TOPICS: Final = {
    name: Topic(random.Random(f"topic {name} {salt}").randbytes(16), partitions)
    for name, salt, partitions in (("t", 0, 5), ("u", 0, 3), ("v", 0, 1), ("w", 0, 2))
}
#: Not there from the beginning.
_LATE: Final = "w"
_RACKS: Final = ("a", "b", "c")
_REGEXES: Final = ("t", "[tuw]", "[uv].*", "w|v", "none", "")
_WRONG_REGEX: Final = "(t"
_PROTOCOLS: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")


@dataclass
class RandomScript:
    """One script; ``mixes``: topics differ between members; ``regexes``: some subscribe by regular expression."""

    pair: CoordinatorPair
    numbers: random.Random
    mixes: bool
    regexes: bool
    topics: tuple[str, ...]
    classic: list[ClassicActor] = field(default_factory=list)
    consumer: list[ConsumerActor] = field(default_factory=list)

    def run(self) -> None:
        """All steps; raises AssertionError at the first difference."""
        for _ in range(_STEPS):
            self.pair.wait(self._wait_ms())
            self._listen()
            self.step()
            self._listen()
            self.pair.compare_offsets()
        self.pair.wait(400_000)

    def _wait_ms(self) -> int:
        odds = self.numbers.random()
        if odds < 0.75:
            return self.numbers.randrange(1, 400)
        return self.numbers.randrange(400, 5_000 if odds < 0.95 else 25_000)

    def step(self) -> None:
        """One request, or an administrator's action."""
        odds = self.numbers.random()
        if odds < 0.06:
            self._administer()
            return
        actors: list[Actor] = [*self.classic, *self.consumer]
        actor = self.numbers.choice(actors)
        if odds < 0.13:
            self._commit(actor)
        elif isinstance(actor, ClassicActor):
            self._act_classic(actor)
        else:
            self._act_consumer(actor)

    def _administer(self) -> None:
        odds = self.numbers.random()
        if odds < 0.2:
            self.pair.send(DeleteGroup())
        elif odds < 0.35:
            self.pair.clean_up()
        elif odds < 0.5:
            places = (("t", 0), ("u", 1), ("u", 2), ("w", 0))
            self.pair.send(OffsetDelete(tuple(self.numbers.sample(places, self.numbers.randrange(1, 4)))))
        elif odds < 0.6:
            self.pair.move()
        elif odds < 0.8 and (self.consumer or self.pair.settings.scala):
            self._change_topics()
        elif self.classic:
            self.pair.send(LeaveGroup.of(instance_id=self.numbers.choice(("i0", "i1", "i9"))))

    def _change_topics(self) -> None:
        if self.numbers.random() < 0.4:
            name = self.numbers.choice(("t", "u"))
            self.pair.grow(name, self.pair.topics[name].partitions + 1)
        elif _LATE in self.pair.topics:
            self.pair.delete_topic(_LATE)
        else:
            self.pair.create(_LATE, replace(_TOPICS[_LATE], racks=(("a", "c"), ("b",))))

    def _offset(self, partition: int) -> Commit:
        topic = self.numbers.choice(("t", "u", "w"))
        return Commit(topic=topic, partition=partition, offset=self.numbers.randrange(99))

    def _commit(self, actor: Actor) -> None:
        generation = actor.generation if isinstance(actor, ClassicActor) else actor.epoch
        request = OffsetCommit(
            member_id=actor.member_id,
            instance_id=actor.instance_id,
            generation=generation - (self.numbers.random() < 0.2),
            commits=tuple(self._offset(number) for number in range(self.numbers.randrange(1, 3))),
        )
        if self.numbers.random() < 0.2:
            request = structs.replace(request, member_id="", instance_id=None, generation=-1)
        if self.numbers.random() < 0.3:
            request = structs.replace(request, producer_id=self.numbers.randrange(1, 3))
        self.pair.send(request)
        if self.numbers.random() < 0.2:
            committed = self.numbers.random() < 0.7
            self.pair.send(EndTransaction(producer_id=self.numbers.randrange(1, 3), committed=committed))

    # -- answers

    def _listen(self) -> None:
        for actor in self.classic:
            self._heard_join(actor)
            self._heard_sync(actor)

    def _heard_join(self, actor: ClassicActor) -> None:
        answer = None if actor.joining is None else self.pair.answers.get(actor.joining)
        if answer is None:
            return
        actor.joining = None
        if answer.error is Error.NONE:
            actor.member_id, actor.generation = answer.member_id, answer.generation
            actor.members = tuple(one[0] for one in answer.members)
        elif answer.error is Error.MEMBER_ID_REQUIRED:
            actor.member_id = answer.member_id
        elif answer.error in (Error.UNKNOWN_MEMBER_ID, Error.FENCED_INSTANCE_ID):
            actor.member_id = ""

    def _heard_sync(self, actor: ClassicActor) -> None:
        answer = None if actor.syncing is None else self.pair.answers.get(actor.syncing)
        if answer is not None:
            actor.syncing = None
            actor.assignment = answer.assignment if answer.error is Error.NONE else actor.assignment

    # -- the classic protocol

    def _act_classic(self, actor: ClassicActor) -> None:
        odds = self.numbers.random()
        if actor.joining is None and (actor.generation < 0 or not actor.member_id or odds < 0.2):
            self._join(actor)
        elif odds < 0.55:
            self._sync(actor)
        elif odds < 0.85:
            self._beat(actor)
        elif odds < 0.92:
            self._leave(actor)
        else:
            self._join(actor)

    def _session_ms(self, actor: ClassicActor) -> int:
        """Different ones in a mixed group: an upgrade starts all sessions at once, in an order of no meaning."""
        apart = int(actor.name[1:]) if self.consumer else 0
        return self.numbers.choice((6_000, 10_000, 30_000)) + apart

    def _join(self, actor: ClassicActor) -> None:
        odds = self.numbers.random()
        if odds < 0.15 or not actor.protocols:
            actor.protocols = self._protocols(actor)
        elif odds < 0.25:
            actor.member_id = ""
        elif odds < 0.3:
            actor.session_ms = self._session_ms(actor)
            actor.rebalance_ms = self.numbers.choice((5_000, 20_000, 60_000))
        request = JoinGroup(
            member_id="nobody" if odds > 0.97 else actor.member_id,
            instance_id=actor.instance_id,
            client_id=actor.name,
            client_host=HOST,
            session_timeout_ms=actor.session_ms,
            rebalance_timeout_ms=actor.rebalance_ms,
            protocol_type="connect" if 0.95 < odds <= 0.97 else "consumer",
            protocols=actor.protocols,
            require_known_member_id=not 0.85 < odds <= 0.95,
            skips_assignment=not 0.75 < odds <= 0.95,
        )
        actor.joining = self.pair.send(request)

    def _protocols(self, actor: ClassicActor) -> tuple[Protocol, ...]:
        names = self.numbers.sample(_PROTOCOLS, self.numbers.randrange(1, len(_PROTOCOLS) + 1))
        metadata = self._subscription(actor)
        return tuple(Protocol(name, metadata) for name in names)

    def _subscription(self, actor: ClassicActor) -> bytes:
        topics = self._topics() if self.mixes else self.topics
        decoded = decode_assignment(actor.assignment) if actor.assignment else None
        owned = decoded.assigned_partitions if isinstance(decoded, Assignment) else ()
        return encode_blob(Subscription(version=1, topics=topics, owned_partitions=owned))

    def _topics(self) -> tuple[str, ...]:
        return tuple(self.numbers.sample(("t", "u", "v", "w"), self.numbers.randrange(1, 4)))

    def _sync(self, actor: ClassicActor) -> None:
        odds = self.numbers.random()
        shares = tuple((name, owning("t", number)) for number, name in enumerate(actor.members))
        request = SyncGroup(
            member_id=actor.member_id,
            instance_id=actor.instance_id,
            generation=actor.generation - (odds < 0.1),
            protocol_type="connect" if odds > 0.97 else "consumer" if odds > 0.8 else None,
            protocol="range" if odds > 0.94 else None,
            assignments=shares[1:] if odds < 0.2 else shares,
        )
        actor.syncing = self.pair.send(request)

    def _beat(self, actor: ClassicActor) -> None:
        number = self.pair.send(
            ClassicHeartbeat(
                member_id=actor.member_id,
                instance_id=actor.instance_id,
                generation=actor.generation - (self.numbers.random() < 0.1),
            )
        )
        if self.pair.answers[number].error is Error.REBALANCE_IN_PROGRESS and actor.joining is None:
            if self.numbers.random() < 0.7:
                actor.protocols = tuple(
                    Protocol(one.name, self._subscription(actor)) for one in actor.protocols
                )
            self._join(actor)

    def _leave(self, actor: ClassicActor) -> None:
        instance_id = actor.instance_id if self.numbers.random() < 0.8 else "i9"
        answer = self.pair.answers[
            self.pair.send(LeaveGroup.of(member_id=actor.member_id, instance_id=instance_id))
        ]
        if answer.error is Error.NONE:
            actor.member_id, actor.generation, actor.assignment = "", -1, b""

    # -- the consumer protocol

    def _act_consumer(self, actor: ConsumerActor) -> None:
        odds = self.numbers.random()
        if actor.epoch <= 0 or odds < 0.04:
            self._enter(actor)
        elif odds < 0.1:
            self._go(actor)
        elif odds < 0.2:
            self._err(actor)
        elif odds < 0.3:
            self._change(actor)
        else:
            owned = None if self.numbers.random() < 0.3 else actor.owned
            self._live(actor, owned=owned)

    def _request(self, actor: ConsumerActor, **changes: object) -> ConsumerGroupHeartbeat:
        request = ConsumerGroupHeartbeat(
            member_id=actor.member_id,
            member_epoch=actor.epoch,
            instance_id=actor.instance_id,
            client_id=actor.name,
            client_host=HOST,
        )
        return structs.replace(request, **changes)

    def _live(self, actor: ConsumerActor, **changes: object) -> None:
        answer = self.pair.answers[self.pair.send(self._request(actor, **changes))]
        if answer.error is Error.NONE:
            actor.before, actor.epoch = actor.epoch, answer.generation
            actor.owned = actor.owned if answer.assigned is None else answer.assigned
        elif answer.error in (Error.FENCED_MEMBER_EPOCH, Error.UNKNOWN_MEMBER_ID, Error.GROUP_ID_NOT_FOUND):
            actor.epoch, actor.owned = 0, frozenset()

    def _enter(self, actor: ConsumerActor) -> None:
        if self.numbers.random() < 0.3:
            actor.lives += 1
        actor.owned = frozenset()
        if self.mixes:
            actor.topics = self._topics()
        if self.regexes:
            actor.topics = () if self.numbers.random() < 0.7 else self._topics()
            actor.regex = self._regex()
        self._live(
            actor,
            member_epoch=0,
            topics=actor.topics,
            topic_regex=actor.regex,
            rack_id=self.numbers.choice((None, *_RACKS)),
            rebalance_timeout_ms=actor.rebalance_ms,
            assignor=actor.assignor,
            owned=frozenset(),
        )

    def _regex(self) -> str | None:
        odds = self.numbers.random()
        return _WRONG_REGEX if odds < 0.05 else None if odds < 0.15 else self.numbers.choice(_REGEXES)

    def _go(self, actor: ConsumerActor) -> None:
        epoch = -2 if actor.instance_id is not None and self.numbers.random() < 0.6 else -1
        answer = self.pair.answers[self.pair.send(self._request(actor, member_epoch=epoch))]
        if answer.error is Error.NONE:
            actor.epoch, actor.lives = 0, actor.lives + 1

    def _err(self, actor: ConsumerActor) -> None:
        epoch = self.numbers.choice((actor.epoch - 1, actor.epoch + 1, actor.before))
        owned = self.numbers.choice((None, actor.owned, frozenset(list(actor.owned)[:1])))
        if epoch > 0:
            self._live(actor, member_epoch=epoch, owned=owned)

    def _change(self, actor: ConsumerActor) -> None:
        if self.regexes and self.numbers.random() < 0.6:
            actor.regex = self._regex()
            self._live(actor, topic_regex=actor.regex)
        elif self.mixes:
            actor.topics = self._topics()
            self._live(actor, topics=actor.topics)
        else:
            self._live(actor, rebalance_timeout_ms=self.numbers.choice((5_000, 20_000)))


def make_script(
    kafka: KafkaCoordinator, kind: str, seed: int, *, scala: bool = False, group: str | None = None
) -> RandomScript:
    """The script of a seed: ``kind`` is one of ``KINDS``; classic only for the older coordinator."""
    numbers = random.Random(f"{kind} {seed}")
    mixes = numbers.random() < 0.5
    settings = GroupSettings(
        initial_rebalance_delay_ms=numbers.choice((0, 500, 3_000)),
        max_size=numbers.choice((2, 3, _MANY, _MANY)),
        consumer_max_size=numbers.choice((2, 3, _MANY, _MANY)),
        consumer_assignment_interval_ms=numbers.choice((0, 0, 1_000)),
        consumer_regex_refresh_interval_ms=numbers.choice((10_000, 60_000)),
        retention_ms=numbers.choice((60_000, 7 * 24 * 3_600_000)),
        consumer_assignors=numbers.choice((("uniform", "range"), ("range", "uniform"))),
        migration_policy=numbers.choice(("bidirectional", *MIGRATION_POLICIES))
        if kind == "mixed"
        else "disabled",
        scala=scala,
        since_4_4=kafka.release >= "4.4",
    )
    topics = numbers.choice((("t",), ("u", "t"), ("v", "u", "t")))
    there = {name: _with_racks(numbers, topic) for name, topic in _TOPICS.items() if name != _LATE}
    pair = CoordinatorPair(kafka, seed, settings, there, GROUP if group is None else group)
    script = RandomScript(pair, numbers, mixes, numbers.random() < 0.4, topics)
    if kind != "consumer":
        script.classic = [
            ClassicActor(f"c{number}", f"i{number}" if numbers.random() < 0.3 else None)
            for number in range(4)
        ]
    if kind != "classic":
        chosen = (None, *settings.consumer_assignors)
        script.consumer = [_consumer(numbers, number, chosen, topics) for number in range(4)]
    for actor in script.classic:
        actor.session_ms = script._session_ms(actor)
    return script


def _with_racks(numbers: random.Random, topic: Topic) -> Topic:
    return replace(
        topic,
        racks=tuple(
            tuple(numbers.sample(_RACKS, numbers.randrange(4)))
            for _ in range(numbers.randrange(topic.partitions))
        ),
    )


def _consumer(
    numbers: random.Random, number: int, assignors: Sequence[str | None], topics: tuple[str, ...]
) -> ConsumerActor:
    return ConsumerActor(
        f"n{number}",
        f"i{number}" if numbers.random() < 0.3 else None,
        rebalance_ms=numbers.choice((5_000, 20_000)),
        topics=topics,
        assignor=numbers.choice(assignors),
    )
