"""The runbook's remedies for a storm and for a shared instance id, with real clients that make the situation.

What is on the page there is no command: a member is restarted with an instance id, and one of two processes is stopped.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.replays import Json
from support.job.watched import Heard, Watch, watching
from support.kafka.live_groups import CLASSIC, Story, World
from support.kafka.waiting import seldom

pytestmark = [pytest.mark.broker, pytest.mark.long]

TOPIC = "orders"
WINDOW_MS = 20_000
#: The windows of ten minutes are too long for a test.
RULES = f"""
[rebalance.storm]
window_ms = {WINDOW_MS}
least = 3
per_slot = 0
beyond = 0

[static.conflict]
window_ms = {WINDOW_MS}
"""

#: What is known of a condition at this moment: its events.
Told = Callable[[str, str], list[Json]]


def storm(world: World, group: str, told: Told) -> Story:
    """A member restarts until the storm is reported; then it restarts with an instance id, until the storm is over."""

    def join(**more: object) -> Consumer:
        return world.join(group, "restarts", TOPIC, **CLASSIC, **more)

    both = world.shows(group, "Stable", "restarts", "stays")
    world.join(group, "stays", TOPIC, **CLASSIC)
    restarting = join()
    yield both
    while not told(group, "rebalance.storm"):
        world.leave(restarting)
        yield world.shows(group, "Stable", "stays")
        restarting = join()
        yield both
    world.leave(restarting)
    yield world.shows(group, "Stable", "stays")
    restarting = join(group_instance_id="restarts")
    yield both
    while len(told(group, "rebalance.storm")) < 2:
        replaced = world.replaced(group, "restarts")
        world.leave(restarting)
        restarting = join(group_instance_id="restarts")
        yield replaced


def conflict(world: World, group: str, told: Told) -> Story:
    """Two places start with one instance id in turn until that is reported; then only one of them does."""

    def start(name: str) -> Consumer:
        return world.join(group, name, TOPIC, group_instance_id="i")

    world.join(group, "stays", TOPIC)
    holder = start("one")
    yield world.shows(group, "Stable", "one", "stays")
    while not told(group, "static.conflict"):
        for name in ("two", "one"):
            # In a KIP-848 group the broker takes the second process only while the first is away.
            world.leave(holder)
            holder = start(name)
            yield world.shows(group, "Stable", name, "stays")
    world.leave(holder)
    holder = start("one")
    yield world.shows(group, "Stable", "one", "stays")
    yield seldom(lambda: len(told(group, "static.conflict")) > 1, 2)


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> Heard:
    """Both stories at once, each until its condition is over."""
    folder = tmp_path_factory.mktemp("remedies")
    rules = folder / "rules.toml"
    rules.write_text(RULES)

    def replayed(watch: Watch) -> Heard:
        return watch.replay("--rules", str(rules))

    with EmbeddedBroker(offsets_partitions=2) as broker:
        servers = broker.bootstrap_servers
        with World(servers, folder) as world, watching(servers, folder) as watch:
            world.create(TOPIC, 4)

            def told(group: str, name: str) -> list[Json]:
                return replayed(watch).of(group, name)

            world.play(
                {
                    "storm": ("consumer", storm(world, "storm", told)),
                    "conflict": ("consumer", conflict(world, "conflict", told)),
                }
            )
            return replayed(watch)


def test_static_membership_ends_a_storm(heard: Heard) -> None:
    """The member goes on to restart, and the group has no further generation: the condition ends and stays so."""
    fired, resolved = heard.of("storm", "rebalance.storm")
    assert [fired["status"], resolved["status"]] == ["firing", "resolved"]
    assert fired["condition_id"] == resolved["condition_id"]
    assert fired["generations"] > 3
    assert heard.of("storm", "static.replaced")


def test_one_of_two_processes_is_stopped(heard: Heard) -> None:
    """The event names both places; with one of them alone, which even restarts, the condition ends."""
    fired, resolved = heard.of("conflict", "static.conflict")
    assert [fired["status"], resolved["status"]] == ["firing", "resolved"]
    assert set(fired["places"]) == {"one@/127.0.0.1", "two@/127.0.0.1"}
