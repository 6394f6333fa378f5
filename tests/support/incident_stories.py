"""Stories about populations of groups, and the incidents that they are; written before the code that finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from groupreplay.state.events.event import Event
from groupreplay.state.output.envelope import cloud_event
from groupreplay.timeline.incident_signals import LeaderSeen
from groupreplay.timeline.incidents import IncidentFinder
from support.populations import AT, BEGIN, CONTEXT, MINUTE, SECOND, Member, Population


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """An incident as a reader would name it: how many groups, what they share, what happened to most, and its proof."""

    groups: int
    shared: str
    kind: str
    severity: str
    certainty: str


@dataclass(frozen=True, slots=True)
class Story:
    """What happens, and the incidents that it is."""

    name: str
    tell: Callable[[], Population]
    expected: tuple[Expected, ...] = ()


def _story(*expected: Expected) -> Callable[[Callable[[], Population]], Story]:
    def make(tell: Callable[[], Population]) -> Story:
        return Story(tell.__name__.replace("_", " "), tell, expected)

    return make


def _spread(groups: Sequence[Member], over_ms: int, at_ms: int = AT) -> Iterable[tuple[Member, int]]:
    """Each group with a time, all within ``over_ms``."""
    return [(group, at_ms + i * over_ms // max(len(groups) - 1, 1)) for i, group in enumerate(groups)]


@_story(
    Expected(
        groups=30, shared="partition 12", kind="rebalance.completed", severity="INFO", certainty="proven"
    )
)
def a_coordinator_moves() -> Population:
    """A coordinator moves."""
    population = Population.of(600)
    chosen = population.change(30, partition=12)
    rest = [group for group in population.groups if group.partition == 12 and group not in chosen]
    population.groups = [group for group in population.groups if group not in rest]
    population.lives()
    for group in rest:  # they belong to other partitions, so that the count is exact
        population.knows(replace(group, partition=13), BEGIN + 2 * SECOND)
    for group, at_ms in _spread(chosen, 20 * SECOND):
        population.rebalances(group, at_ms)
    population.leads(12, 3, AT + 5 * SECOND)
    return population


@_story(
    Expected(
        groups=30, shared="partition 12", kind="rebalance.completed", severity="INFO", certainty="inferred"
    )
)
def a_coordinator_moves_and_nobody_asked_the_brokers() -> Population:
    """A coordinator moves and nobody asked the brokers."""
    population = a_coordinator_moves.tell()
    population.items = [item for item in population.items if not isinstance(item, LeaderSeen)]
    return population


@_story(Expected(groups=80, shared="broker 2", kind="commits.paused", severity="INFO", certainty="proven"))
def a_broker_is_gone() -> Population:
    """A broker is gone."""
    population = Population.of(240)
    population.lives()
    hit = [group for group in population.groups if group.partition % 3 == 1]
    for group, at_ms in _spread(hit[:80], 2 * SECOND):
        population.pauses(group, at_ms, until_ms=AT + 10 * MINUTE)
    for partition in range(1, 50, 3):
        population.leads(partition, 2, AT + 4 * SECOND, error="no answer")
    return population


@_story(
    Expected(groups=8, shared="topic orders", kind="offsets.deleted", severity="WARN", certainty="proven")
)
def a_topic_is_deleted() -> Population:
    """A topic is deleted."""
    population = Population.of(200)
    chosen = population.change(8, topic="orders")
    population.lives()
    for group, at_ms in _spread(chosen, 9 * SECOND):
        population.deletes(group, at_ms)
    return population


@_story(
    Expected(
        groups=6, shared="client billing", kind="rebalance.completed", severity="INFO", certainty="inferred"
    )
)
def one_client_is_deployed() -> Population:
    """One client is deployed."""
    population = Population.of(200)
    chosen = [
        replace(group, client=f"billing-{i}")
        for i, group in enumerate(population.change(6, client="billing"))
    ]
    population.lives()
    for group, at_ms in _spread(chosen, 4 * SECOND):
        population.rebalances(group, at_ms)
    return population


@_story(Expected(groups=9, shared="host 10.9.9.9", kind="member.left", severity="WARN", certainty="inferred"))
def a_host_dies() -> Population:
    """A host dies."""
    population = Population.of(200)
    chosen = population.change(9, host="/10.9.9.9")
    population.lives()
    for group, at_ms in _spread(chosen, 3 * SECOND):
        population.loses(group, at_ms)
        population.rebalances(group, at_ms)
    return population


@_story(
    Expected(groups=120, shared="topic orders", kind="commits.paused", severity="INFO", certainty="inferred")
)
def all_readers_of_a_topic_stop() -> Population:
    """All readers of a topic stop."""
    population = Population.of(400)
    chosen = population.change(120, topic="orders")
    population.lives()
    for group, at_ms in _spread(chosen, 2 * SECOND):
        population.pauses(group, at_ms, until_ms=AT + 20 * MINUTE)
    return population


@_story(
    Expected(groups=12, shared="topic orders", kind="offsets.deleted", severity="WARN", certainty="proven"),
    Expected(groups=15, shared="host 10.9.9.9", kind="member.left", severity="WARN", certainty="inferred"),
)
def two_at_once() -> Population:
    """Two at once."""
    population = Population.of(300)
    host = population.change(15, host="/10.9.9.9")
    topic = population.change(12, topic="orders")
    population.lives()
    for group, at_ms in _spread(host, 4 * SECOND):
        population.loses(group, at_ms)
    for group, at_ms in _spread(topic, 4 * SECOND):
        population.deletes(group, at_ms)
    return population


@_story(Expected(groups=40, shared="", kind="commits.paused", severity="INFO", certainty="inferred"))
def all_groups_stop_and_all_read_one_topic() -> Population:
    """All groups stop and all read one topic."""
    population = Population.of(40, topic="orders")
    population.lives()
    for group, at_ms in _spread(population.groups, 2 * SECOND):
        population.pauses(group, at_ms, until_ms=AT + 20 * MINUTE)
    return population


@_story(Expected(groups=40, shared="", kind="commits.paused", severity="INFO", certainty="inferred"))
def all_groups_stop_in_two_waves() -> Population:
    """All groups stop in two waves."""
    population = Population.of(40, topic="orders")
    population.lives()
    for groups, at_ms in ((population.groups[:15], AT), (population.groups[15:], AT + 25 * SECOND)):
        for group, began_ms in _spread(groups, 5 * SECOND, at_ms):
            population.pauses(group, began_ms, until_ms=AT + 20 * MINUTE)
    return population


@_story(
    Expected(groups=21, shared="topic orders", kind="commits.paused", severity="INFO", certainty="inferred")
)
def one_group_is_told_of_ten_minutes_later() -> Population:
    """One group is told of ten minutes later."""
    population = Population.of(200)
    chosen = population.change(21, topic="orders")
    population.lives()
    for group, at_ms in _spread(chosen, 2 * SECOND):
        population.pauses(
            group, at_ms, 10 * MINUTE if group is chosen[7] else 2 * MINUTE, until_ms=AT + 20 * MINUTE
        )
    return population


@_story(
    Expected(groups=10, shared="topic orders", kind="rebalance.stuck", severity="ERROR", certainty="inferred")
)
def readers_of_a_topic_are_stuck_and_then_rebalance() -> Population:
    """Readers of a topic are stuck and then rebalance."""
    population = Population.of(200)
    chosen = population.change(10, topic="orders")
    population.lives()
    for group, at_ms in _spread(chosen, 5 * SECOND):
        population.sticks(group, at_ms, AT + 4 * MINUTE)
        population.rebalances(group, AT + 4 * MINUTE)
    return population


@_story(
    Expected(groups=5, shared="topic orders", kind="commits.paused", severity="INFO", certainty="inferred")
)
def a_small_cluster_whose_topic_stands_still() -> Population:
    """A small cluster whose topic stands still."""
    population = Population.of(12)
    chosen = population.change(5, topic="orders")
    population.lives()
    for group, at_ms in _spread(chosen, SECOND):
        population.pauses(group, at_ms, until_ms=AT + 10 * MINUTE)
    return population


@_story()
def an_ordinary_day() -> Population:
    """An ordinary day."""
    population = Population.of(500)
    population.lives()
    return population


@_story()
def a_busy_day() -> Population:
    """A busy day."""
    population = Population.of(500)
    population.lives(every_ms=2 * MINUTE)
    return population


@_story()
def three_conditions_in_one_minute_by_chance() -> Population:
    """Three conditions in one minute by chance."""
    population = Population.of(200)
    population.lives()
    for group, at_ms in _spread(population.groups[:3], 50 * SECOND):
        population.pauses(group, at_ms, until_ms=at_ms + 5 * MINUTE)
    return population


@_story()
def a_rolling_restart_across_the_groups_of_a_client() -> Population:
    """A rolling restart across the groups of a client."""
    population = Population.of(200)
    chosen = population.change(20, client="billing")
    population.lives()
    for group, at_ms in _spread(chosen, 19 * 30 * SECOND):
        population.rebalances(group, at_ms)
    return population


@_story()
def one_slow_group() -> Population:
    """One slow group."""
    population = Population.of(200)
    population.lives()
    for i in range(10):
        population.sticks(population.groups[0], AT + i * SECOND, AT + MINUTE)
        population.rebalances(population.groups[0], AT + i * SECOND)
    return population


@_story()
def two_groups_lose_members_on_a_host_that_all_share() -> Population:
    """Two groups lose members on a host that all share."""
    population = Population.of(200, host="/10.0.0.1")
    population.lives()
    for group in population.groups[:2]:
        population.loses(group, AT)
    return population


@_story()
def offsets_of_many_groups_expire_in_one_check() -> Population:
    """Offsets of many groups expire in one check."""
    population = Population.of(200)
    chosen = population.change(20, topic="orders")
    population.lives()
    for group in chosen:
        population.expires(group, AT)
    return population


@_story()
def a_cluster_starts() -> Population:
    """A cluster starts."""
    population = Population.of(100, topic="orders")
    for group, at_ms in _spread(population.groups, 30 * SECOND):
        population.creates(group, at_ms)
        population.rebalances(group, at_ms, "first_join")
        population.rebalances(group, at_ms + 3 * SECOND, "member_joined")
    return population


INCIDENTS: tuple[Story, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Story))


@cache
def told_incident() -> tuple[Event, ...]:
    """The two events of the story in which a topic is deleted."""
    finder = IncidentFinder()
    finder.take(a_topic_is_deleted.tell().items)
    return tuple(finder.advance(AT + 60 * MINUTE))


def incident_events() -> tuple[bytes, bytes]:
    """The same as CloudEvents."""
    opened, resolved = (cloud_event(event, CONTEXT, event.time_ms).value for event in told_incident())
    return opened, resolved
