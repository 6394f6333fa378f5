"""Random scripts in which the coordinator's partition moves, loads and cannot be written."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

from groupreplay.coordinator.appends import APPEND_ERRORS
from groupreplay.coordinator.requests import Commit, EndTransaction, OffsetCommit, PartitionState
from support.model.kafka_coordinator import GROUP
from support.model.random_scripts import RandomScript, make_script
from support.service.bold_scripts import BoldSteps, add_crowd
from support.service.kafka_service import KafkaService
from support.service.service_pair import OrderUnknown, ServicePair


class TroubledScript(RandomScript):
    """One script. ``pair`` compares the model with Kafka's whole coordinator."""

    pair: ServicePair

    def run(self) -> None:
        """All steps, and then the end of all trouble."""
        with suppress(OrderUnknown):
            super().run()
            self._recover()
            self.pair.wait(400_000)
            self.pair.describe()

    def _recover(self) -> None:
        self.pair.fail(None)
        if self.pair.partition is PartitionState.CLOSED:
            self.pair.elect()
        if self.pair.partition is PartitionState.LOADING:
            self.pair.load()

    def step(self) -> None:
        """A step of the clients, or of what goes wrong."""
        odds = self.numbers.random()
        if odds < 0.14:
            self._trouble()
        elif odds < 0.2:
            self._in_transaction()
        else:
            super().step()
        if odds > 0.9:
            self.pair.describe()

    def _trouble(self) -> None:
        pair, numbers = self.pair, self.numbers
        if pair.partition is PartitionState.CLOSED:
            pair.elect()
        elif pair.partition is PartitionState.LOADING:
            (pair.load if numbers.random() < 0.7 else pair.resign)()
        elif pair.model.journal.failing is not None:
            pair.fail(None)
        elif numbers.random() < 0.5:
            pair.resign()
        else:
            pair.fail(numbers.choice(APPEND_ERRORS))

    def _change_topics(self) -> None:
        """A topic gets more partitions."""
        name = self.numbers.choice(("t", "u"))
        self.pair.grow(name, self.pair.topics[name].partitions + 1)

    def _in_transaction(self) -> None:
        """A producer commits without naming a member, or its transaction ends."""
        producer = self.numbers.randrange(2)
        if self.numbers.random() < 0.5:
            commits = (Commit(topic="t", partition=producer, offset=self.numbers.randrange(99)),)
            self.pair.send(OffsetCommit(commits=commits, producer_id=producer))
        else:
            self.pair.send(EndTransaction(producer_id=producer, committed=self.numbers.random() < 0.7))


def make_troubled_script(kafka: KafkaService, kind: str, seed: int) -> TroubledScript:
    """The script of a seed: ``kind`` is one of ``random_scripts.KINDS``."""
    drawn = make_script(kafka, kind, seed)  # type: ignore[arg-type]
    topics = {name: replace(topic, racks=()) for name, topic in drawn.pair.topics.items()}
    return TroubledScript(
        pair=ServicePair(kafka, seed, drawn.pair.settings, topics),
        numbers=drawn.numbers,
        mixes=drawn.mixes,
        # Expressions are resolved by another thread.
        regexes=False,
        topics=drawn.topics,
        classic=drawn.classic,
        consumer=drawn.consumer,
    )


class BoldTroubledScript(BoldSteps, TroubledScript):
    """One with rare steps besides."""


def make_bold_troubled_script(kafka: KafkaService, kind: str, seed: int) -> BoldTroubledScript:
    """The script of a seed, as ``make_troubled_script``; some are of the empty group id, some of a crowd."""
    drawn = make_troubled_script(kafka, kind, seed)
    numbers = random.Random(f"bold trouble {kind} {seed}")
    group = "" if numbers.random() < 0.08 else GROUP
    script = BoldTroubledScript(
        pair=replace(drawn.pair, group=group),
        numbers=numbers,
        mixes=drawn.mixes,
        regexes=False,
        topics=drawn.topics,
        classic=drawn.classic,
        consumer=drawn.consumer,
    )
    if kind == "classic" and numbers.random() < 0.35:
        add_crowd(script)
    return script
