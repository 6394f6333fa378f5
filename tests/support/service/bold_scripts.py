"""Random scripts with what clients and administrators do rarely, for the model and Kafka's coordinators.

Large groups that shrink, several members in one LeaveGroup, commits of unknown generations and with a retention of
their own, member ids that were given to a dynamic member and come back with an instance id, the empty group id.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from msgspec import structs

from groupreplay.codecs import PROTOCOL_VERSIONS
from groupreplay.coordinator.requests import (
    Commit,
    EndTransaction,
    Error,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
)
from support.model.coordinator_pair import CoordinatorPair
from support.model.kafka_coordinator import KafkaCoordinator
from support.model.random_scripts import HOST, RandomScript, make_script
from support.model.script_actors import Actor, ClassicActor

#: More than the least number of members at which a table of Scala and one of Java grow.
_CROWD: Final = range(13, 18)


class BoldSteps(RandomScript):
    """The steps; mixed into a kind of script."""

    def step(self) -> None:
        """A rare step, or one of the others."""
        odds = self.numbers.random()
        if odds < 0.05:
            self._leave_together(self.numbers.randrange(1, 5))
        elif odds < 0.13:
            self._commit_oddly()
        elif odds < 0.17:
            self._end_transactions()
        elif self.classic and odds < 0.2:
            self._come_back_static()
        elif self.classic and odds < 0.22:
            self._gather()
        elif self.classic and odds < 0.24:
            self._leave_together(self.numbers.randrange(len(self.classic)))
        else:
            super().step()

    def _leave_together(self, count: int) -> None:
        """An administrator removes several members; some are named wrongly, or twice."""
        everybody: list[Actor] = [*self.classic, *self.consumer]
        actors = [self.numbers.choice(everybody) for _ in range(count)]
        members = []
        for actor in actors:
            odds = self.numbers.random()
            instance_id = actor.instance_id if odds < 0.9 else "i9"
            named = "" if odds < 0.3 and actor.instance_id else "nobody" if odds > 0.97 else actor.member_id
            members.append(LeavingMember(member_id=named, instance_id=instance_id))
        if not members:
            return
        answer = self.pair.answers[self.pair.send(LeaveGroup(members=tuple(members)))]
        for actor, error in zip(actors, answer.left, strict=False):
            if error is not Error.NONE:
                continue
            if isinstance(actor, ClassicActor):
                actor.member_id, actor.generation, actor.assignment = "", -1, b""
            else:
                actor.epoch, actor.lives = 0, actor.lives + 1

    def _commit_oddly(self) -> None:
        numbers = self.numbers
        actors: list[Actor] = [*self.classic, *self.consumer]
        actor = numbers.choice(actors)
        generation = actor.generation if isinstance(actor, ClassicActor) else actor.epoch
        request = OffsetCommit(
            member_id=numbers.choice((actor.member_id, "", "nobody")),
            instance_id=numbers.choice((None, actor.instance_id, "i9")),
            generation=numbers.choice((generation, -1, 0, 5)),
            commits=(Commit(topic=numbers.choice("tuw"), partition=0, offset=numbers.randrange(99)),),
        )
        if numbers.random() < 0.4:
            request = structs.replace(request, producer_id=numbers.randrange(1, 3))
        elif numbers.random() < 0.5:
            # A request of these versions has no instance id.
            retention_ms = numbers.choice((-5_000_000, 0, 1_000, 30_000))
            request = structs.replace(request, instance_id=None, retention_ms=retention_ms)
        self.pair.send(request)
        if numbers.random() < 0.3:
            self.pair.clean_up()

    def _end_transactions(self) -> None:
        for producer in (1, 2):
            if self.numbers.random() < 0.5:
                committed = self.numbers.random() < 0.7
                self.pair.send(EndTransaction(producer_id=producer, committed=committed))

    def _come_back_static(self) -> None:
        """A dynamic member is given an id and joins with it as a static one."""
        request = JoinGroup(
            client_id="bold",
            client_host=HOST,
            session_timeout_ms=1 if self.pair.checks_requests and self.numbers.random() < 0.2 else 10_000,
            rebalance_timeout_ms=20_000,
            protocols=self._protocols(self.classic[0]),
        )
        given = self.pair.answers.get(self.pair.send(request))
        if given is not None and given.error is Error.MEMBER_ID_REQUIRED:
            self.pair.send(
                structs.replace(
                    request, member_id=given.member_id, instance_id=f"i{self.numbers.randrange(9)}"
                )
            )

    def _gather(self) -> None:
        """All classic members join and sync."""
        for actor in self.classic:
            for _ in range(2):
                if actor.joining is None and (actor.generation < 0 or not actor.member_id):
                    self._join(actor)
                    self._listen()
        self.pair.wait(self.numbers.choice((1_000, 4_000, 20_000)))
        self._listen()
        for actor in self.classic:
            if actor.syncing is None and actor.generation >= 0:
                self._sync(actor)
                self._listen()


class BoldScript(BoldSteps):
    """One such script."""


def make_bold_script(kafka: KafkaCoordinator, kind: str, seed: int, *, scala: bool = False) -> BoldScript:
    """The script of a seed, as ``make_script``; every third classic group is a crowd."""
    numbers = random.Random(f"bold {kind} {seed}")
    empty = scala and numbers.random() < 0.05
    drawn = make_script(kafka, kind, seed, scala=scala, group="" if empty else None)
    pair = drawn.pair
    if scala and numbers.random() < 0.5:
        written_by = numbers.choice(PROTOCOL_VERSIONS)
        settings = replace(pair.settings, inter_broker_protocol_version=written_by)
        pair = CoordinatorPair(kafka, seed, settings, pair.topics, pair.group)
    script = BoldScript(
        pair=pair,
        numbers=numbers,
        mixes=drawn.mixes,
        regexes=drawn.regexes,
        topics=drawn.topics,
        classic=drawn.classic,
        consumer=drawn.consumer,
    )
    if kind == "classic" and numbers.random() < 0.35:
        add_crowd(script)
    return script


def add_crowd(script: RandomScript) -> None:
    """More classic members."""
    for number in range(len(script.classic), script.numbers.choice(_CROWD)):
        instance_id = f"i{number}" if script.numbers.random() < 0.3 else None
        actor = ClassicActor(f"c{number}", instance_id)
        actor.session_ms = script._session_ms(actor)
        script.classic.append(actor)
