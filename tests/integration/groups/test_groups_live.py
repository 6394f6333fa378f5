"""Real members of KIP-848, streams and share groups join, leave, hang and are killed: the events are exactly that.

All groups run at the same time on one broker, and their log is replayed after the last story has ended. The longest
stories wait for the session timeout of a killed member.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import TopicPartition

from groupreplay.state.replay.departure_reasons import STAMP_LAG_MS
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.kafka.kafka_admin import by_broker, by_log
from support.kafka.live_groups import CLASSIC, REASONS, Json, ReplayedGroups, Story, World

pytestmark = pytest.mark.broker

TOPIC = "live-groups"
PARTITIONS = 4
REBALANCE_TIMEOUT_MS = 6_000
#: Kafka's default is 45 s.
SESSION_TIMEOUT_MS = 15_000


def two_and_none(world: World, group: str) -> Story:
    """One member, two, one, none."""
    a = world.join(group, "a", TOPIC)
    yield world.shows(group, "Stable", "a")
    b = world.join(group, "b", TOPIC)
    yield world.shows(group, "Stable", "a", "b")
    world.leave(b)
    yield world.shows(group, "Stable", "a")
    world.leave(a)
    yield world.shows(group, "Empty")


def static(world: World, group: str) -> Story:
    """A static member leaves and returns."""
    s = world.join(group, "s", TOPIC, group_instance_id="s-1")
    yield world.shows(group, "Stable", "s")
    yield world.holds(group, "s", PARTITIONS)
    world.leave(s)
    yield world.shows(group, "Reconciling", "s")
    world.join(group, "s", TOPIC, group_instance_id="s-1")
    yield world.shows(group, "Stable", "s")


def fenced(world: World, group: str) -> Story:
    """A member does not revoke its partitions, until the broker fences it."""
    a = world.stubborn(group, "a", TOPIC, REBALANCE_TIMEOUT_MS)
    yield world.shows(group, "Stable", "a")
    yield world.holds(group, "a", PARTITIONS)
    world.join(group, "b", TOPIC)
    yield world.shows(group, "Stable", "b")
    a.end(0)


def killed(world: World, group: str) -> Story:
    """SIGKILL for one of two members."""
    world.join(group, "a", TOPIC)
    yield world.shows(group, "Stable", "a")
    k = world.process(group, "k", TOPIC)
    yield world.shows(group, "Stable", "a", "k")
    k.end(0)
    yield world.shows(group, "Stable", "a")


def pattern(world: World, group: str) -> Story:
    """A subscription by regular expression; then another matching topic is created."""
    world.create(f"{group}-1", 2)
    world.join(group, "a", f"^{group}-.*")
    yield world.holds(group, "a", 2)
    yield world.shows(group, "Stable", "a")
    world.create(f"{group}-2", 1)
    yield world.holds(group, "a", 3)
    yield world.shows(group, "Stable", "a")


def converted(world: World, group: str) -> Story:
    """A rolling upgrade to the consumer protocol, and a downgrade."""
    a = world.join(group, "a", TOPIC, **CLASSIC)
    yield world.shows(group, "Stable", "a")
    a.commit(offsets=[TopicPartition(TOPIC, 0, 5)], asynchronous=False)
    b = world.join(group, "b", TOPIC)
    yield world.holds(group, "b", 2)
    yield world.shows(group, "Stable", "a", "b")
    world.leave(a)
    yield world.shows(group, "Stable", "b")
    world.join(group, "c", TOPIC, **CLASSIC)
    yield world.holds(group, "c", 2)
    yield world.shows(group, "Stable", "b", "c")
    world.leave(b)
    yield world.is_now(group, "classic")
    yield world.shows(group, "Stable", "c")


def streams(world: World, group: str) -> Story:
    """A topology whose topic is created later; a second instance joins and leaves."""
    world.create(f"{group}-out", 1)
    start(world, world.members, group, "a")
    yield world.shows(group, "NotReady", thread("a"))
    world.create(f"{group}-in", PARTITIONS)
    yield world.shows(group, "Stable", thread("a"))
    start(world, world.members, group, "b")
    yield world.holds(group, thread("b"), 2)
    yield world.shows(group, "Stable", thread("a"), thread("b"))
    world.members.closeStreams("b")
    yield world.shows(group, "Stable", thread("a"))


def streams_killed(world: World, group: str) -> Story:
    """One of two instances is killed with its JVM."""
    jvm, mortal = world.jvm()
    world.create(f"{group}-out", 1)
    world.create(f"{group}-in", PARTITIONS)
    start(world, world.members, group, "stays")
    yield world.shows(group, "Stable", thread("stays"))
    start(world, mortal, group, "k")
    yield world.holds(group, thread("k"), 2)
    yield world.shows(group, "Stable", thread("stays"), thread("k"))
    jvm.kill()
    yield world.shows(group, "Stable", thread("stays"))


def start(world: World, members: Any, group: str, client: str) -> None:
    """Starts an instance of a program that copies every message from one topic to another."""
    folder = str(world.folder)
    members.startStreams(world.servers, group, client, f"{group}-in", f"{group}-out", folder, "streams")


def thread(client: str) -> str:
    """The client id of the member that an instance's only thread is."""
    return f"{client}-StreamThread-1-consumer"


def share(world: World, group: str) -> Story:
    """One member, two, one, none; each has every partition."""
    world.members.startShare(world.servers, group, "a", TOPIC)
    yield world.holds(group, "a", PARTITIONS)
    world.members.startShare(world.servers, group, "b", TOPIC)
    yield world.holds(group, "b", 2)
    yield world.holds(group, "a", 2)
    world.members.closeShare("b")
    yield world.holds(group, "a", PARTITIONS)
    world.members.closeShare("a")
    yield world.shows(group, "Empty")


KINDS = {streams: "streams", streams_killed: "streams", share: "share"}
# The slowest stories first.
STORIES = (streams_killed, killed, two_and_none, static, fenced, pattern, converted, streams, share)


class Ending(NamedTuple):
    """The groups as replayed from the log and as described by the broker, after all stories.

    ``logged`` is the same replay beside the log of the coordinator.
    """

    log: ReplayedGroups
    logged: ReplayedGroups
    broker: dict[str, Json]


def name(story: Callable[[World, str], Story]) -> str:
    """The group of a story."""
    return f"live-{story.__name__}"


@pytest.fixture(scope="module")
def ending(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ending]:
    """Runs all stories at once, on a broker whose sessions are short."""
    kinds = {name(story): KINDS.get(story, "consumer") for story in STORIES}
    brief = {f"group.{kind}.session.timeout.ms": SESSION_TIMEOUT_MS for kind in ("consumer", "streams")}
    with (
        EmbeddedBroker(overrides=brief) as broker,
        World(broker.bootstrap_servers, tmp_path_factory.mktemp("live")) as world,
    ):
        world.create(TOPIC, PARTITIONS)
        world.play({name(story): (kinds[name(story)], story(world, name(story))) for story in STORIES})
        yield Ending(
            ReplayedGroups(broker.bootstrap_servers, list(kinds)),
            ReplayedGroups(broker.bootstrap_servers, list(kinds), [broker.log_path]),
            world.admin.describe(kinds, offsets=True),
        )


FIELDS = {
    "group.created": ("group_type", "generation"),
    "group.emptied": ("generation",),
    "group.converted": ("from_type", "to_type", "generation"),
    "rebalance.started": ("generation", "trigger"),
    "rebalance.completed": ("generation", "member_count", "trigger", "partitions_moved"),
    "member.joined": ("client_id",),
    "member.left": ("client_id", "reason"),
    "member.updated": ("client_id", "changed"),
    "static.replaced": ("instance_id",),
}


def first_join(group_type: str, client: str) -> list[tuple[Any, ...]]:
    """The first events of every group except a streams group; the first epoch is 2."""
    return [
        ("group.created", group_type, 2),
        ("rebalance.started", 2, "first_join"),
        ("member.joined", client),
        ("rebalance.completed", 2, 1, "first_join", 0),
    ]


def one_more(epoch: int, client: str) -> list[tuple[Any, ...]]:
    """A second member joins, and two partitions are assigned to it."""
    return [
        ("rebalance.started", epoch, "member_joined"),
        ("member.joined", client),
        ("rebalance.completed", epoch, 2, "member_joined", 2),
    ]


def one_less(epoch: int, client: str, reason: str = "left") -> list[tuple[Any, ...]]:
    """A member leaves, and its two partitions are assigned to the remaining member."""
    return [
        ("rebalance.started", epoch, "member_left"),
        ("member.left", client, reason),
        ("rebalance.completed", epoch, 1, "member_left", 2),
    ]


EXPECTED = {
    two_and_none: [
        *first_join("consumer", "a"),
        *one_more(3, "b"),
        *one_less(4, "b"),
        ("group.emptied", 5),
        ("member.left", "a", "left"),
    ],
    static: [*first_join("consumer", "s"), ("static.replaced", "s-1")],
    fenced: [
        *first_join("consumer", "a"),
        ("rebalance.started", 3, "member_joined"),
        ("member.joined", "b"),
        ("member.left", "a", "rebalance_timeout"),
        ("rebalance.completed", 4, 1, "member_joined", 4),
    ],
    killed: [
        *first_join("consumer", "a"),
        *one_more(3, "k"),
        # No record shows whether the member left after its session timeout or was fenced.
        *one_less(4, "k", "unknown"),
    ],
    pattern: [
        # The topics are not resolved yet, so the group stays at its initial epoch.
        ("group.created", "consumer", 1),
        ("rebalance.started", 1, "first_join"),
        ("member.joined", "a"),
        ("rebalance.completed", 1, 1, "first_join", 0),
        ("rebalance.started", 2, "subscription_changed"),
        ("member.updated", "a", ["topics"]),
        ("rebalance.completed", 2, 1, "subscription_changed", 0),
        ("rebalance.started", 3, "subscription_changed"),
        ("member.updated", "a", ["topics"]),
        ("rebalance.completed", 3, 1, "subscription_changed", 0),
    ],
    converted: [
        ("group.created", "classic", 0),
        ("rebalance.completed", 1, 1, "first_join", 0),
        ("member.joined", "a"),
        ("group.converted", "classic", "consumer", 2),
        *one_more(2, "b"),
        *one_less(3, "a"),
        *one_more(4, "c"),
        ("group.converted", "consumer", "classic", 4),
        ("member.left", "b", "left"),
        ("rebalance.completed", 5, 1, "unknown", 2),
    ],
    streams: [
        ("group.created", "streams", 2),
        ("rebalance.started", 2, "first_join"),
        ("member.joined", thread("a")),
        # The topic was created in between.
        ("rebalance.completed", 3, 1, "first_join", 0),
        *one_more(4, thread("b")),
        *one_less(5, thread("b")),
    ],
    streams_killed: [
        ("group.created", "streams", 2),
        ("rebalance.started", 2, "first_join"),
        ("member.joined", thread("stays")),
        ("rebalance.completed", 2, 1, "first_join", 0),
        *one_more(3, thread("k")),
        *one_less(4, thread("k"), "unknown"),
    ],
    share: [
        *first_join("share", "a"),
        # The share coordinator has initialised the topic.
        ("rebalance.started", 3, "unknown"),
        ("rebalance.completed", 3, 1, "unknown", 0),
        *one_more(4, "b"),
        *one_less(5, "b"),
        ("group.emptied", 6),
        ("member.left", "a", "left"),
    ],
}
every_story = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)


@every_story
def test_the_events_are_exactly_what_happened(ending: Ending, story: Callable[[World, str], Story]) -> None:
    """Every event occurs once, in order, with its fields; the history of each group is full."""
    assert ending.log.facts(name(story), FIELDS) == EXPECTED[story]
    assert {one["history"] for one in ending.log.data(name(story))} == {"full"}


@every_story
def test_each_rebalance_has_the_reason_that_its_coordinator_logged(
    ending: Ending, story: Callable[[World, str], Story]
) -> None:
    """It is what was done to the members; nothing else of the events changes."""
    found = {
        data["generation"]: (data["evidence"], data["trigger"], data["logged"])
        for data in ending.logged.data(name(story), "rebalance.completed")
    }
    shown = {fact[1]: fact[3] for fact in EXPECTED[story] if fact[0] == "rebalance.completed"}
    # Of what the records show as unknown at the downgrade, the log has the reason.
    told = {5: "member_left"} if story is converted else {}
    assert {epoch: trigger for epoch, (_, trigger, _) in found.items()} == shown | told
    for evidence, trigger, logged in found.values():
        assert (evidence, re.match(REASONS[trigger], logged[0]) is not None) == ("broker_log", True), logged
    same = {**FIELDS, "rebalance.completed": FIELDS["rebalance.completed"][:2], "member.left": ("client_id",)}
    assert ending.logged.facts(name(story), same) == ending.log.facts(name(story), same)


def test_the_final_state_equals_the_broker_description(ending: Ending) -> None:
    """State, epochs, members, assignments and offsets of every group equal those of the Admin client."""
    groups = {name(story): by_log(ending.log.groups[name(story)]) for story in STORIES}
    assert groups == {group: by_broker(one) for group, one in ending.broker.items()}


def test_a_fenced_member_had_its_rebalance_timeout(ending: Ending) -> None:
    """From the record that asks for the revocation to the one that fences the member, within a second.

    The broker starts its timer just before it stamps the first one.
    """
    (left,) = ending.log.data(name(fenced), "member.left")
    assert -STAMP_LAG_MS <= left["elapsed_ms"] - REBALANCE_TIMEOUT_MS < 1_000


@pytest.mark.parametrize("story", [killed, streams_killed])
def test_a_killed_member_had_its_session_timeout(
    ending: Ending, story: Callable[[World, str], Story]
) -> None:
    """It is removed so long after its last heartbeat, which is not earlier than the last record about it."""
    elapsed_ms = ending.log.data(name(story), "member.left")[-1]["elapsed_ms"]
    assert 0 <= elapsed_ms - SESSION_TIMEOUT_MS < 15_000


def test_a_static_member_that_returns_causes_no_rebalance(ending: Ending) -> None:
    """The group is Reconciling meanwhile, as on the broker, and the member keeps its slot."""
    assert ending.log.states(name(static)) == ["Stable", "Reconciling", "Stable"]
    (replaced,) = ending.log.data(name(static), "static.replaced")
    (member,) = ending.log.groups[name(static)]["members"]
    assert replaced["new_member_id"] == member["member_id"] != replaced["old_member_id"]


def test_a_conversion_keeps_members_and_offsets(ending: Ending) -> None:
    """Existing members keep their ids in both directions, and the classic member's commit stays."""
    upgraded, _, _, downgraded = ending.log.data(name(converted), "rebalance.completed")[1:]
    (a,) = ending.log.data(name(converted), "rebalance.completed")[0]["joined"]
    (c,) = [one["member_id"] for one in ending.log.data(name(converted), "member.joined")][2:]
    assert (upgraded["kept"], downgraded["kept"]) == ([a], [c])
    offsets = ending.log.groups[name(converted)]["offsets"]
    assert [(one["topic"], one["partition"], one["offset"]) for one in offsets] == [(TOPIC, 0, 5)]


def test_states_of_a_streams_group_at_the_edges_of_operations(ending: Ending) -> None:
    """NotReady until the topic exists, then the states that the broker derives, and no others."""
    states = ending.log.states(name(streams))
    assert (states[0], states[-1], {*states}) == (
        "NotReady",
        "Stable",
        {"NotReady", "Assigning", "Reconciling", "Stable"},
    )
    assert states.count("NotReady") == 1


def test_states_of_a_share_group(ending: Ending) -> None:
    """A share group is only ever Stable or Empty, whatever its epochs are."""
    assert ending.log.states(name(share)) == ["Stable", "Empty"]
