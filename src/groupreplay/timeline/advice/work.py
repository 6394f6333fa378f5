"""Advice on who does what: members without work, uneven shares, members that differ, slow leaders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from groupreplay.codecs.kafka_terms import CONSUMER_PROTOCOL_TYPE, GroupType
from groupreplay.state.phrases import counted, first_of, member, milliseconds, safe_text
from groupreplay.timeline.advice.evidence import exactly, finding, middle
from groupreplay.timeline.advice.finding import NEEDED_MS, Effect, Finding, Kind
from groupreplay.timeline.advice.inputs import AdviceInput

_IDLE: Final = "member.idle"
#: A member with this many times its share has too much.
_UNEVEN: Final = 2
_SLOW_TIMES: Final = 3
#: What a leader needs at most that is not slow.
_QUICK_MS: Final = 1_000
_WAITED: Final = (
    "the times from the begin of a generation to its record, which the group waits for its leader, at most; at least "
    "what is beyond one second"
)
#: The settings in which members may differ by mistake, and their fields.
_TIMEOUTS: Final = (
    ("session.timeout.ms", "session_timeout_ms"),
    ("max.poll.interval.ms", "rebalance_timeout_ms"),
)


def members_without_work(history: AdviceInput) -> Iterator[Finding]:
    """Members that own nothing, as the condition ``member.idle`` has found, and are still there."""
    idle = [(bar, event) for bar, event in history.conditions if bar.name == _IDLE and bar.until_ms is None]
    partitions = sum(_count(each) for each in history.members)
    if not idle or not partitions:
        return
    without = [each for each in history.members if not _count(each)]
    if not without:
        return
    yield finding(
        history,
        Kind.MEMBERS_WITHOUT_WORK,
        f"{len(without)} of {counted(len(history.members), 'member')} "
        f"{'owns' if len(without) == 1 else 'own'} none of "
        f"{counted(partitions, 'partition')}: {first_of(without, member)}",
        ("members", f"{len(history.members) - len(without)}, or more partitions"),
        [exactly("members", len(without), "members at the end of the history that own no partition")],
        (event for _, event in idle),
    )


def uneven_assignment(history: AdviceInput) -> Iterator[Finding]:
    """Members with the same subscription, one of which owns at least twice its share."""
    owners = [each for each in history.members if _count(each)]
    subscriptions = {tuple(each.get("topics") or ()) for each in history.members}
    if (
        history.use.described.get("type") != GroupType.CLASSIC.value
        or len(subscriptions) != 1
        or len(history.members) < 2
    ):
        return
    if history.use.described.get("protocol_type") != CONSUMER_PROTOCOL_TYPE or not owners:
        return
    total = sum(_count(each) for each in owners)
    most = max(owners, key=_count)
    share = -(-total // len(history.members))
    since_ms = history.use.described.get("since_ms") or history.until_ms
    is_lasting = history.until_ms - since_ms >= NEEDED_MS[Kind.DIFFERING_MEMBERS]
    if _count(most) < max(_UNEVEN * share, share + 2) or not is_lasting:
        return
    yield finding(
        history,
        Kind.UNEVEN_ASSIGNMENT,
        f"{member(most)} owns {_count(most)} of {counted(total, 'partition')}, an even share is {share}: the assignor "
        f"{safe_text(str(history.use.described.get('protocol')))} divides each topic by itself",
        (
            "partition.assignment.strategy",
            "cooperative-sticky, or group.protocol=consumer with the assignor uniform",
        ),
        [
            exactly(
                "partitions",
                _count(most) - share,
                "partitions of the largest owner above an even share, at the end of the history",
            )
        ],
        [rebalance.event for rebalance in history.rebalances[-1:]],
    )


def differing_members(history: AdviceInput) -> Iterator[Finding]:
    """Members with other topics or timeouts than the rest, for longer than a deployment takes."""
    since_ms = history.use.described.get("since_ms") or history.until_ms
    if len(history.members) < 2 or history.until_ms - since_ms < NEEDED_MS[Kind.DIFFERING_MEMBERS]:
        return
    differences = {
        field: text
        for name, field in (("topics", "topics"), *_TIMEOUTS)
        if (text := _difference(history, name, field))
    }
    odd = _odd(history, differences)
    if not odd:
        return
    yield finding(
        history,
        Kind.DIFFERING_MEMBERS,
        f"{first_of(odd, member)} {'differs' if len(odd) == 1 else 'differ'} from the other members: "
        f"{'; '.join(differences.values())}",
        ("members", "one configuration for all members of a group"),
        [exactly("members", len(odd), "members whose topics or timeouts are not those of most members")],
        [rebalance.event for rebalance in history.rebalances[-1:]],
    )


def _values(history: AdviceInput, field: str) -> Counter[Any]:
    return Counter(_value(each, field) for each in history.members)


def _value(each: Mapping[str, Any], field: str) -> Any:
    value = each.get(field)
    return tuple(sorted(value)) if isinstance(value, list | tuple) else value


def _difference(history: AdviceInput, name: str, field: str) -> str | None:
    values = _values(history, field)
    if len(values) < 2 or None in values:
        return None
    if field == "topics":
        return f"{len(values)} sets of topics"
    return f"{name} {', '.join(milliseconds(value) for value in sorted(values))}"


def _odd(history: AdviceInput, fields: Collection[str]) -> list[Mapping[str, Any]]:
    """The members that are in these fields not as most are."""
    usual = {field: _values(history, field).most_common(1)[0][0] for field in fields}
    return [each for each in history.members if any(_value(each, field) != usual[field] for field in fields)]


def _count(each: Mapping[str, Any]) -> int:
    partitions = each.get("partitions") or {}
    return sum(map(len, partitions.values())) if isinstance(partitions, Mapping) else 0


def slow_leader(history: AdviceInput) -> Iterator[Finding]:
    """Rebalances that waited for the assignment of their leader."""
    slow = [
        rebalance
        for rebalance in history.rebalances
        if rebalance.flag.slow_leader is not None and rebalance.at_ms >= history.complete_ms
    ]
    if len(slow) < _SLOW_TIMES:
        return
    waited_ms = [rebalance.flag.sync_ms or 0 for rebalance in slow]
    # Members of other groups go on with what they keep, and nobody waits for the first assignment.
    stops = (rebalance for rebalance in slow if rebalance.is_eager and rebalance.most_ms != 0)
    stopped_ms = [rebalance.flag.sync_ms or 0 for rebalance in stops]
    leaders = sorted({rebalance.flag.slow_leader or "" for rebalance in slow})
    bounds = sum(wait_ms - _QUICK_MS for wait_ms in stopped_ms), sum(stopped_ms)
    yield finding(
        history,
        Kind.SLOW_LEADER,
        f"{counted(len(slow), 'rebalance')} waited {milliseconds(sum(waited_ms))} in all for the assignment of "
        f"{first_of(leaders, str)}",
        ("group.protocol", "consumer, with which the broker assigns; or look at the assignor of the leader"),
        [Effect(measure="stopped_ms", least=bounds[0], most=bounds[1], how=_WAITED)] if stopped_ms else [],
        (rebalance.event for rebalance in slow),
        order_ms=middle(bounds),
    )
