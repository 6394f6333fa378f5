"""Advice on the rebalance protocol: partitions that stood still although they kept their owner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from msgspec import structs

from groupreplay.state.phrases import counted
from groupreplay.state.snapshot.partitions import each as partitions_of
from groupreplay.timeline.advice.evidence import added, finding, likely_effect, ordering
from groupreplay.timeline.advice.finding import Effect, Finding, Kind
from groupreplay.timeline.advice.inputs import AdviceInput
from groupreplay.timeline.advice.rebalances import Rebalance
from groupreplay.timeline.event_reading import words
from groupreplay.timeline.likely import HEARTBEAT_MS, SLACK, Part, likely_sum, moves

#: Fewer rebalances are no habit.
_LEAST_REBALANCES: Final = 4
#: The reason of a member that said nothing when it went.
_KILLED: Final = "session_timeout"
_TIMES: Final = (
    "the lengths of these rebalances for each partition that kept its owner, less a second rebalance for each that did "
    "not, at least; the times since the last commit of each partition whose owner stayed in the group, at most, as an "
    "incremental assignor moves fewer"
)
_STOPS: Final = (
    "stops of partitions that kept their owner, at least; of those whose owner stayed in the group, at most"
)
_LIKELY_STOPS: Final = (
    "likely all of those but what an incremental assignor takes from members that have more than an even share, by who "
    "came and went"
)
_LIKELY_TIMES: Final = (
    "of {} of {} rebalances the times since the last commits, which members make before they join, less the wait of "
    "what an incremental assignor moves: a heartbeat interval"
)


def incremental_rebalances(history: AdviceInput) -> Iterator[Finding]:
    """Eager rebalances: all partitions stood still, also those that stayed where they were (KIP-429, KIP-848)."""
    eager = [
        rebalance
        for rebalance in history.rebalances
        if rebalance.is_eager and rebalance.held and rebalance.at_ms >= history.complete_ms
    ]
    if len(eager) < _LEAST_REBALANCES or not eager[-1].event.text("protocol"):
        return
    kept, held = sum(each.kept for each in eager), sum(each.held for each in eager)
    if not kept:
        return
    effects = _effects(history, eager, (kept, held))
    order_ms = ordering(effects, "partition_stopped_ms") // max(each.held for each in eager)
    if order_ms < 0:
        # Members that learn of a rebalance together stop so shortly that a second rebalance costs more.
        return
    yield finding(
        history,
        Kind.INCREMENTAL_REBALANCES,
        f"{counted(len(eager), 'rebalance')} with the eager assignor {eager[-1].event.text('protocol')} stopped "
        f"partitions of members that stayed {counted(held, 'time')}; {kept} times the partition kept its owner",
        (
            "partition.assignment.strategy",
            "cooperative-sticky, in two rolling restarts; or group.protocol=consumer",
        ),
        effects,
        (each.event for each in eager),
        order_ms=order_ms,
        assumed={"heartbeat_interval_ms": HEARTBEAT_MS},
    )


def _effects(history: AdviceInput, eager: Sequence[Rebalance], stops: tuple[int, int]) -> list[Effect]:
    """The standstill of partitions and their stops; likely less what an incremental assignor moves."""
    bounds = _saved_bounds(eager)
    effects = [
        Effect(measure="partition_stopped_ms", least=bounds[0], most=bounds[1], how=_TIMES),
        Effect(measure="partition_stops", least=stops[0], most=stops[1], how=_STOPS),
    ]
    moved = _moved(history)
    if moved is None:
        return effects
    least, most = (sum(moved[each.at_ms][end] for each in eager) for end in (0, 1))
    counts = max(stops[1] - most, stops[0]), max(stops[1] - least, stops[0])
    effects[1] = structs.replace(
        effects[1], likely_least=counts[0], likely_most=counts[1], how=f"{_STOPS}; {_LIKELY_STOPS}"
    )
    killed_ms = {event.time_ms for event in history.named("member.left") if event.text("reason") == _KILLED}
    following = dict(pairwise(each.at_ms for each in history.rebalances))
    parts, rest = list[Part](), list[tuple[int, int | None]]()
    for each in eager:
        # The second rebalance may have waited for the session of a member that was killed meanwhile.
        may_wait = not killed_ms.isdisjoint((each.at_ms, following.get(each.at_ms)))
        if each.began_ms is None or each.held_ms[1] is None or may_wait:
            rest.append(_saved_bounds([each]))
        else:
            least, most = moved[each.at_ms]
            wait_ms, slack_ms = _wait_ms(each)
            parts.append(Part.exactly(each.held_ms[1] - least * wait_ms))
            # How late requests are is the same in all of them, so that it does not even out.
            rest.append(((least - most) * wait_ms - most * slack_ms, 0))
    likely = likely_sum(parts, rest, bounds)
    if likely is not None:
        effects[0] = likely_effect(effects[0], likely, _LIKELY_TIMES.format(len(parts), len(eager)))
    return effects


def _moved(history: AdviceInput) -> dict[int, tuple[int, int]] | None:
    """By the times of rebalances how many partitions an incremental assignor would have moved in each.

    None: not all members may have all partitions, or these became more.
    """
    made = [each for each in history.rebalances if each.at_ms >= history.complete_ms]
    owned = {_partitions(each) for each in (made[0], made[-1])}
    topics = {tuple(sorted(each.get("topics") or ())) for each in history.members}
    if len(topics) > 1 or len(owned) > 1 or not all(owned):
        return None
    generations = [
        {words(picture.get("member_id")) for picture in each.event.mappings("members")} for each in made
    ]
    before = generations[0] - made[0].came | made[0].went
    moved = moves([before, *generations], *owned)
    return dict(zip((each.at_ms for each in made), moved, strict=True))


def _partitions(rebalance: Rebalance) -> int:
    """How many partitions were assigned in all."""
    pictures = rebalance.event.mappings("members")
    return sum(1 for picture in pictures for _ in partitions_of(picture.get("partitions") or {}))


def _saved_bounds(eager: Sequence[Rebalance]) -> tuple[int, int | None]:
    """The standstill that would have been saved, at least and at most.

    What moved with the eager assignor moves with another one at most, and then waits for a second rebalance: a
    heartbeat interval, and as long as the leader needed.
    """
    least_ms, most_ms = added(each.held_ms for each in eager)
    waits_ms = sum((each.held - each.kept) * sum(_wait_ms(each)) for each in eager)
    return least_ms - waits_ms, most_ms


def _wait_ms(rebalance: Rebalance) -> tuple[int, int]:
    """How long a partition that moves waits for the second rebalance, and how much longer at most.

    Its owner begins that one at once. The others learn of it with their next heartbeats, whose timers have begun with
    the assignment, and their leader needs as long as it did in this one.
    """
    return HEARTBEAT_MS + (rebalance.flag.sync_ms or 0), round(HEARTBEAT_MS * SLACK)
