"""The coordinator model and Kafka's own coordinator do the same in virtual time, in random scripts.

Every step is compared: answers, records, and timers with their deadlines.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from groupreplay.streaming.local.jars import jar_paths
from support.model.kafka_coordinator import KafkaCoordinator, kafka_coordinator
from support.model.random_scripts import KINDS, make_script

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

#: Scripts in which the model is known to differ. In this one a group is downgraded and upgraded again: Kafka keeps
#: the timers of the first consumer group's members, which then fence them; the model cancels them.
OPEN = {("mixed", 11)}


@pytest.fixture(scope="module")
def coordinator() -> Iterator[KafkaCoordinator]:
    """One JVM for all scripts."""
    with kafka_coordinator(jar_paths("broker-4.3.1")) as running:
        yield running


def check(kafka: KafkaCoordinator, kind: str, seeds: range) -> None:
    """Run the scripts of these seeds; the message names the first one that differs."""
    for seed in seeds:
        if (kind, seed) not in OPEN:
            try:
                make_script(kafka, kind, seed).run()
            except AssertionError as error:
                raise AssertionError(f"{kind} script {seed}: {error}") from error


@pytest.mark.parametrize("kind", KINDS)
def test_random_scripts(kind: str, coordinator: KafkaCoordinator) -> None:
    """Classic, KIP-848 and mixed groups."""
    check(coordinator, kind, range(17))


@pytest.mark.parametrize(("kind", "seed"), sorted(OPEN))
def test_a_difference_that_is_still_open(kind: str, seed: int, coordinator: KafkaCoordinator) -> None:
    """It fails as soon as the model does the same, so that the list above stays true."""
    with pytest.raises(AssertionError, match="timers differ"):
        make_script(coordinator, kind, seed).run()
