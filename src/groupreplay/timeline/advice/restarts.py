"""Advice from restarts: static membership, instance ids that nobody takes again, deployments in two waves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Final

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.phrases import counted, first_of, from_to, milliseconds, safe_text
from groupreplay.timeline.advice.aways import Away, aways, least_ms_of, longest_ms_of, savings, within
from groupreplay.timeline.advice.evidence import (
    begin_assumed,
    finding,
    ordering,
    saved_effects,
    sure_savings,
)
from groupreplay.timeline.advice.finding import Finding, Kind
from groupreplay.timeline.advice.inputs import AdviceInput
from groupreplay.timeline.advice.rebalances import Rebalance
from groupreplay.timeline.advice.waits import BACK, waiting_longer, waits_for_absent
from groupreplay.timeline.document import SlotLane
from groupreplay.timeline.rolling_restarts import Restart, restarts, rolling

#: Fewer rebalances are no habit.
_LEAST_REBALANCES: Final = 4
#: The brokers' default of ``group.max.session.timeout.ms``: no session can be longer.
_LONGEST_SESSION_MS: Final = 1_800_000
#: A static member that is back so shortly after its session comes in the rebalance that its end has begun.
_MERGED_MS: Final = 10_000
#: The second wave of a deployment begins within this time.
_WAVES_MS: Final = 1_800_000
_FOLLOW_UP: Final = "cooperative_followup"
_MANY_IDS: Final = 3
_IN_PLACE: Final = (
    "rebalances in which nobody came or went but dynamic members that were back, in their place (client id and host), "
    "before their session could end"
)
_OF_NEW_IDS: Final = (
    "rebalances in which nobody came or went but members with such an instance id, at most; at least those of a member "
    "that came after another one had ended, and before the session of that one did"
)
_OF_SECOND_WAVES: Final = "rebalances in which nobody came or went but the members of the second waves"
_LASTING_NAME: Final = "one name per process that stays when it restarts, such as that of a StatefulSet's pod"


def explained(
    rebalances: Sequence[Rebalance],
    spared: Collection[Restart],
    *,
    after_ms: int = 0,
    away: Collection[str] = (),
) -> list[Rebalance]:
    """The rebalances in which nobody came or went but in these restarts, and the second halves of such ones.

    ``away``: ids of members that went and may come back.
    """
    going = {*away, *(restart.before.member_id for restart in spared)}
    coming = {restart.after.member_id for restart in spared}
    alike, is_before = list[Rebalance](), False
    for rebalance in rebalances:
        moves = rebalance.came | rebalance.went
        is_spared = bool(moves) and rebalance.came <= coming and rebalance.went <= going
        is_before = is_spared or (is_before and not moves and rebalance.flag.trigger == _FOLLOW_UP)
        if is_before and rebalance.at_ms >= after_ms:
            alike.append(rebalance)
    return alike


def static_membership(history: AdviceInput) -> Iterator[Finding]:
    """Members that came back within their session: with an instance id nothing would have rebalanced (KIP-345)."""
    if history.group_type not in (GroupType.CLASSIC.value, GroupType.CONSUMER.value):
        return
    dynamic = [lane for lane in history.slots if lane.instance_id is None]
    absences = aways(history, within(history, restarts(dynamic, _LONGEST_SESSION_MS)))
    ids = {away.restart.before.member_id for away in absences}
    known = {member_id: session_ms for member_id in ids if (session_ms := history.session_ms(member_id))}
    limits = {member_id: known.get(member_id, history.session.timeout_ms) for member_id in ids}
    beat_ms = history.session.heartbeat_ms
    surely = [each for each in absences if each.most_ms + beat_ms < limits[each.restart.before.member_id]]
    perhaps = [
        each for each in absences if each.least_ms < limits[each.restart.before.member_id] + _MERGED_MS
    ]
    least = explained(history.rebalances, [away.restart for away in surely], after_ms=history.complete_ms)
    most = explained(
        history.rebalances,
        [away.restart for away in perhaps],
        after_ms=history.complete_ms,
        away=_still_away(history),
    )
    if len(most) < _LEAST_REBALANCES or not least:
        return
    saved = savings(most, least, perhaps, limits)
    waits = waits_for_absent(history, absences, most, limits)
    effects = waiting_longer(saved_effects(least, most, _IN_PLACE, saved), waits, BACK)
    yield finding(
        history,
        Kind.STATIC_MEMBERSHIP,
        _static_text(history, perhaps, (len(least), len(most)), max(limits.values())),
        ("group.instance.id", _LASTING_NAME),
        effects,
        (rebalance.event for rebalance in most),
        order_ms=max(ordering(effects), 0),
        assumed=history.heartbeat_assumed if len(known) == len(ids) else history.session.assumed,
    )


def _still_away(history: AdviceInput) -> set[str]:
    """Dynamic members that left so shortly before the end that their session would still have held."""
    tenures = [lane.tenures[-1] for lane in history.slots if lane.instance_id is None]
    return {
        tenure.member_id
        for tenure in tenures
        if tenure.until_ms is not None and tenure.until_ms > history.until_ms - history.session.timeout_ms
    }


def _static_text(
    history: AdviceInput, perhaps: Sequence[Away], saved: tuple[int, int], session_ms: int
) -> str:
    names = sorted({away.restart.place[1] or "(no client id)" for away in perhaps})
    count = sum(rebalance.at_ms >= history.complete_ms for rebalance in history.rebalances)
    return (
        f"{from_to(*map(str, saved))} of {counted(count, 'rebalance')} follow from "
        f"{counted(len(perhaps), 'restart')} of {first_of(names, safe_text)}, each back within the session of "
        f"{milliseconds(session_ms)}"
    )


def random_instance_ids(history: AdviceInput) -> Iterator[Finding]:
    """Static members that never come back under their instance id: each start has another one."""
    static = [lane for lane in history.slots if lane.instance_id is not None]
    once = [lane for lane in static if len(lane.tenures) == 1]
    gone = [lane for lane in once if lane.tenures[0].until_ms is not None]
    lasting = [lane for lane in static if lane not in gone and lane.tenures[-1].until_ms is None]
    if len(gone) < _MANY_IDS or len(once) < len(static) or len(gone) < len(lasting):
        return
    names = {tenure.member_id for lane in once for tenure in lane.tenures}
    moves = [
        rebalance
        for rebalance in history.rebalances
        if rebalance.at_ms >= history.complete_ms
        and rebalance.flag.trigger != "first_join"
        and rebalance.came | rebalance.went
        and rebalance.came | rebalance.went <= names
    ]
    if not moves:
        return
    replaced = _replaced(history, once)
    surely = [each for each in moves if each.came <= replaced.keys() and each.went <= {*replaced.values()}]
    saved = sure_savings(moves, surely)
    effects = saved_effects(surely, moves, _OF_NEW_IDS, saved)
    yield finding(
        history,
        Kind.RANDOM_INSTANCE_IDS,
        f"{counted(len(gone), 'instance id')} went and none came back, such as "
        f"{first_of([lane.instance_id or '' for lane in gone], safe_text)}: each start has a new one, so that the "
        "coordinator waits for the session of the old one, and the group rebalances all the same",
        ("group.instance.id", "a name that stays when the process restarts, or none"),
        effects,
        (rebalance.event for rebalance in moves),
        order_ms=ordering(effects),
        assumed=begin_assumed(saved),
    )


def _replaced(history: AdviceInput, once: Sequence[SlotLane]) -> dict[str, str]:
    """Members that came after the end of another process and before its session ended, each with that other member.

    They would have had its instance id, if these were a row of names of which a new process takes the one that is free.
    """
    by_time = {rebalance.at_ms: rebalance for rebalance in history.rebalances}
    tenures = sorted((lane.tenures[0] for lane in once), key=lambda tenure: tenure.since_ms)
    expired = sorted(
        (tenure for tenure in tenures if tenure.until_ms in by_time and tenure.reason == "session_timeout"),
        key=lambda tenure: tenure.until_ms or 0,
    )
    replaced = dict[str, str]()
    for tenure in tenures:
        came = by_time.get(tenure.since_ms)
        if came is None:
            continue
        for old in expired:
            if _came_for(history, came, by_time[old.until_ms or 0], old.member_id):
                replaced[tenure.member_id] = old.member_id
                expired.remove(old)
                break
    return replaced


def _came_for(history: AdviceInput, came: Rebalance, went: Rebalance, old: str) -> bool:
    """Whether a member came after a process had ended whose session was over in ``went``, and before that."""
    least_ms, most_ms = least_ms_of(came), longest_ms_of(came)
    # The last sign of the old process was a whole session before the broker removed it.
    session_ms, beat_ms = history.session_ms(old) or history.session.timeout_ms, history.session.heartbeat_ms
    ended_ms = went.at_ms - session_ms + beat_ms
    is_before_removal = came.at_ms - least_ms < went.at_ms - longest_ms_of(went)
    # The rebalance that the join began waited for the end of the old session.
    is_before_removal |= came is went and came.flag.least_ms > 2 * beat_ms
    return came.at_ms - most_ms >= ended_ms and is_before_removal


def two_waves(history: AdviceInput) -> Iterator[Finding]:
    """Rolling restarts that follow each other at once, again and again: each deployment restarts everybody twice."""
    rolled = [each for each in rolling(history.slots) if each.since_ms >= history.complete_ms]
    pairs = [
        (first, second) for first, second in pairwise(rolled) if second.since_ms - first.until_ms <= _WAVES_MS
    ]
    # Of three in a row the second one is in two pairs.
    seconds = list(dict.fromkeys(second.restarts for _, second in pairs))
    if len(seconds) < 2 or 3 * len(seconds) < len(rolled):
        return
    spared = [restart for second in seconds for restart in second]
    spared_rebalances = explained(history.rebalances, spared, after_ms=history.complete_ms)
    if not spared_rebalances:
        return
    saved = sure_savings(spared_rebalances, spared_rebalances)
    effects = saved_effects(spared_rebalances, spared_rebalances, _OF_SECOND_WAVES, saved)
    yield finding(
        history,
        Kind.TWO_WAVES,
        f"{len(seconds)} of {counted(len(rolled), 'rolling restart')} began within {milliseconds(_WAVES_MS)} after the "
        "one before: the deployment restarts every member twice",
        ("deployment", "one wave: change the image and the configuration together"),
        effects,
        (rebalance.event for rebalance in spared_rebalances),
        order_ms=ordering(effects),
        assumed=begin_assumed(saved),
    )
