"""When the broker may remove committed offsets: its rules for every kind of group and release, in one list.

They are those of ``Group.offsetExpirationCondition``, ``isSubscribedToTopic`` and ``OffsetExpirationConditionImpl``,
and of ``GroupMetadata.removeExpiredOffsets`` of the older coordinator in Scala, for the whole table of offsets at once.
The broker applies them every ``offsets.retention.check.interval.ms``.

The log does not decide everything. ``deadlines`` are sure: by then the broker may remove an offset, whatever the log
does not show. ``possible_deadlines`` are the earliest ones that what the log does not show allows:

- Which subscriptions a coordinator protects it computes when a generation begins and when it loads the group, not when
  a static member comes back under the same generation with another subscription. A load is in no record: those of each
  subscription since the generation began may be the protected ones (``EarlierTopics``).
- In a rebalance of a broker that lets offsets expire meanwhile, they are those of members that no record has.

An open transaction, and a rebalance that no prober has seen, can only make an offset live longer than its deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from groupreplay.codecs.kafka_terms import CONSUMER_PROTOCOL_TYPE, GroupType, Phase
from groupreplay.state.events.event import Evidence
from groupreplay.state.events.offset_events import ExpiryBase
from groupreplay.state.plausible_times import LATEST_MS
from groupreplay.state.policy.context import NEWEST_RULES
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.members import group_topics

if TYPE_CHECKING:
    from groupreplay.state.policy.context import BrokerRelease, Context
    from groupreplay.state.snapshot.group_state import GroupState
    from groupreplay.state.snapshot.offsets import Offsets

#: A time that no clock reaches: in its present state the group's offset does not expire.
NEVER: Final = int(np.iinfo(np.int64).max)
#: The least ``offsets.retention.minutes``.
_SHORTEST_MS: Final = 60_000
#: A release that lets more offsets expire than any other since 2.1.
_LOOSEST: Final = (2, 4)
#: Later times are errors, and sums with them must not overflow.
_LATEST: Final = 1 << 60

Times = npt.NDArray[np.int64]


class Base(Enum):
    """The beginning of the retention of an offset."""

    COMMITTED = "its commit"
    EMPTIED = "the group becoming Empty, or its commit where the record has no such time"


class Standing(NamedTuple):
    """What decides about the rule of a group. ``readable``: its members' subscriptions are known, if it has a type."""

    group_type: GroupType
    phase: Phase
    has_type: bool
    is_consumers: bool
    readable: bool

    @classmethod
    def of(cls, group: GroupState) -> Standing:
        """That of a group now."""
        protocol_type = group.classic.protocol_type
        is_consumers = protocol_type == CONSUMER_PROTOCOL_TYPE
        readable = None not in [member.topics for member in group.classic.members]
        return cls(group.group_type, group.phase, bool(protocol_type), is_consumers, readable)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for groups for which ``holds`` is true; ``base`` None: their offsets do not expire.

    Brokers have it from the release ``since`` to ``until``, both inclusive; None: from the first, to the newest.
    ``protects``: offsets of subscribed topics stay. ``sure`` False: offsets of each topic may expire and may be
    protected, and the log does not show which.
    """

    name: str
    holds: Callable[[Standing], bool]
    base: Base | None
    since: BrokerRelease | None = None
    until: BrokerRelease | None = None
    protects: bool = True
    sure: bool = True


_IN_REBALANCE: Final = Rule(
    "classic consumers, in a rebalance",
    lambda group: group.phase is not Phase.STABLE,
    Base.COMMITTED,
    since=(2, 4),
    until=(3, 1),
    sure=False,
)
#: The first that holds is applied. An offset with its own expiry (a v1 record) expires then; never, if that is after
#: the year 2100.
#:
#: 2.1: KIP-211. 2.4: KIP-496. KAFKA-13636 ended expiry in a rebalance with 3.2, and with 2.8.2, 3.0.1 and 3.1.1: a
#: broker that calls itself 2.8, 3.0 or 3.1 may have either rule.
RULES: Final = (
    Rule("share group", lambda group: group.group_type is GroupType.SHARE, None),
    Rule("consumer group", lambda group: group.group_type is GroupType.CONSUMER, Base.COMMITTED),
    Rule("streams group", lambda group: group.group_type is GroupType.STREAMS, Base.COMMITTED),
    # With offsets that are left. Since 4.0 the coordinator does not know the group until its next commit, or a load
    # after the tombstone's compaction; the older one loads the offsets as a group without a protocol type.
    Rule("deleted", lambda group: group.phase is Phase.DEAD, Base.COMMITTED, sure=False),
    Rule("classic, any state", lambda _: True, Base.COMMITTED, until=(2, 0), protects=False),
    Rule("classic, no protocol type", lambda group: not group.has_type, Base.COMMITTED),
    Rule("classic, Empty", lambda group: group.phase is Phase.EMPTY, Base.EMPTIED),
    Rule("classic, members of another type", lambda group: not group.is_consumers, None),
    Rule("classic consumers, members", lambda _: True, None, until=(2, 3)),
    Rule(
        "classic consumers, Stable",
        lambda group: group.phase is Phase.STABLE and group.readable,
        Base.COMMITTED,
        since=(2, 4),
    ),
    _IN_REBALANCE,
    Rule("classic consumers, in a rebalance or unreadable", lambda _: True, None, since=(2, 4)),
)


@lru_cache(maxsize=100)
def rules_of(release: BrokerRelease | None) -> tuple[Rule, ...]:
    """The rules of brokers of a release; None: the newest."""
    if release is None:
        return tuple(rule for rule in RULES if rule.until is None)
    return tuple(
        rule
        for rule in RULES
        if (rule.since is None or rule.since <= release) and (rule.until is None or release <= rule.until)
    )


def rule_of(group: GroupState, release: BrokerRelease | None) -> Rule:
    """The rule for the present state of a group."""
    return _rule(Standing.of(group), release)


@lru_cache(maxsize=1_000)
def _rule(standing: Standing, release: BrokerRelease | None) -> Rule:
    # The last rule of each release holds for every group.
    return next(rule for rule in rules_of(release) if rule.holds(standing))


def _present_topics(group: GroupState) -> frozenset[str] | None:
    return group_topics(group.classic.members, group.classic.protocol_type)


@dataclass(frozen=True, slots=True)
class _Protected:
    """Topics whose offsets stay: ``surely``, whatever is not in the log, or ``perhaps``. None: those of all topics."""

    surely: frozenset[str]
    perhaps: frozenset[str] | None


def _protected(group: GroupState) -> _Protected:
    if group.modern is not None:
        topics = modern.subscribed_topics(group.group_type, group.modern)
        return _Protected(topics, topics)
    present, earlier = _present_topics(group), group.classic.earlier
    topics = present or frozenset()
    if earlier is None:
        return _Protected(topics, topics)
    surely = frozenset[str]() if earlier.unknown else topics & {*earlier.always}
    return _Protected(surely, None if earlier.unreadable else topics | {*earlier.ever})


def surely_protected(group: GroupState) -> frozenset[str]:
    """Topics whose offsets a broker neither expires nor deletes on request: those of the group's members."""
    return _protected(group).surely


def perhaps_protected(group: GroupState) -> frozenset[str] | None:
    """Those, and the topics of which only a coordinator knows whether it protects them; None: all."""
    return _protected(group).perhaps


def is_unclear(group: GroupState, release: BrokerRelease | None) -> bool:
    """Whether ``possible_deadlines`` may differ from ``deadlines``; every call asks."""
    if group.classic.earlier is not None:
        return True
    return group.phase not in (Phase.STABLE, Phase.EMPTY) and not rule_of(group, release).sure


def _emptied_ms(group: GroupState, base: Base) -> int | None:
    """The beginning of the retention of all offsets; None: for each offset its commit."""
    return group.classic.emptied_ms if base is Base.EMPTIED else None


def _never(offsets: Offsets) -> Times:
    return np.full(len(offsets), NEVER, np.int64)


def _due(group: GroupState, offsets: Offsets, retention_ms: int, base: Base) -> Times:
    """The deadlines of offsets that nothing protects."""
    since = offsets.rows["commit_timestamp_ms"]
    if (emptied_ms := _emptied_ms(group, base)) is not None:
        since = np.full(len(offsets), emptied_ms, np.int64)
    due: Times = np.minimum(np.maximum(since, -_LATEST), _LATEST) + min(retention_ms, _LATEST)
    places, expiries = offsets.own_expiries()
    if places:
        # An expiry in a later century is an old client's way to ask for none.
        due[places] = [NEVER if expiry > LATEST_MS else max(expiry, -_LATEST) for expiry in expiries]
    return due


def _without(due: Times, offsets: Offsets, topics: Collection[str]) -> Times:
    """The same for offsets of these topics that do not expire."""
    if topics:
        kept = np.array([topic in topics for topic in offsets.topics], np.bool_)
        due[kept[offsets.rows["topic"]]] = NEVER
    return due


def deadlines(group: GroupState, offsets: Offsets, context: Context) -> Times:
    """For each row of the table the first moment at which the broker may surely remove it, ``NEVER`` for none.

    It may do so at that moment already: the broker compares with ``>=``.
    """
    rule, protected = rule_of(group, context.broker_release), perhaps_protected(group)
    if rule.base is None or not rule.sure or protected is None or not len(offsets):
        return _never(offsets)
    due = _due(group, offsets, context.assumed_retention_ms, rule.base)
    return _without(due, offsets, protected if rule.protects else ())


def possible_deadlines(
    group: GroupState, offsets: Offsets, context: Context, *, unseen: bool = False
) -> Times:
    """The same for the first moment at which it may perhaps remove it.

    ``unseen``: also if the group was in a rebalance that nobody has seen.
    """
    release = context.broker_release
    rule = rule_of(group, release)
    if rule.base is None or not len(offsets):
        return _never(offsets)
    due = _due(group, offsets, context.assumed_retention_ms, rule.base)
    hidden = unseen and group.phase is Phase.STABLE and _IN_REBALANCE in rules_of(release)
    is_open = not rule.sure or (hidden and group.classic.protocol_type == CONSUMER_PROTOCOL_TYPE)
    return due if is_open or not rule.protects else _without(due, offsets, surely_protected(group))


def conceivable_deadlines(group: GroupState, offsets: Offsets, context: Context) -> Times:
    """The earliest ones with any retention and release where nobody has given them: later than 2.0, as all may be."""
    return possible_deadlines(
        group,
        offsets,
        replace(
            context,
            retention_ms=_SHORTEST_MS if context.retention_ms is None else context.retention_ms,
            broker_release=context.broker_release or _LOOSEST,
        ),
        unseen=True,
    )


def first(due: Times) -> int | None:
    """The earliest of some deadlines; None when there is none."""
    earliest = int(due.min()) if len(due) else NEVER
    return None if earliest == NEVER else earliest


def first_deadline(group: GroupState, offsets: Offsets, context: Context) -> int | None:
    """The earliest of ``deadlines``; every call needs it, mostly without the whole table."""
    if not len(offsets):
        return None
    rule = rule_of(group, context.broker_release)
    if rule.base is None or not rule.sure:
        return None
    protected = perhaps_protected(group)
    if protected is None or (rule.protects and protected.issuperset(offsets.topics)):
        return None
    if offsets.expire_timestamps_ms or protected:
        return first(deadlines(group, offsets, context))
    since_ms = _emptied_ms(group, rule.base)
    if since_ms is None:
        since_ms = offsets.oldest_commit_ms()
    return min(max(since_ms, -_LATEST), _LATEST) + min(context.assumed_retention_ms, _LATEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What the deadlines of some offsets rest on.

    ``rule`` is the name of the rule and ``base`` from when on the offset with the first deadline is kept. ``assumed``
    are numbers that nobody has given, ``assumed_release`` the releases whose rule was applied although that of the
    brokers is not known (None: the rule is that of all, or the release is known).
    """

    rule: str
    base: ExpiryBase | None
    assumed: dict[str, int]
    assumed_release: str | None

    @property
    def evidence(self) -> Evidence:
        """The log and the brokers' settings, or an assumption."""
        return Evidence.INFERRED if self.assumed or self.assumed_release else Evidence.LOG


def grounds(
    group: GroupState, offsets: Offsets, places: npt.NDArray[np.intp], due: Times, context: Context
) -> Grounds:
    """Those of the offsets in these places of the table, which are at least one, with these deadlines."""
    own = {*offsets.own_expiries()[0]}
    found = grounds_of_one(group, context, is_own=int(places[due.argmin()]) in own)
    if found.assumed or {*places.tolist()} <= own:
        return found
    # The first deadline may be the only one that needs no retention.
    return replace(found, assumed=grounds_of_one(group, context, is_own=False).assumed)


def grounds_of_one(group: GroupState, context: Context, *, is_own: bool) -> Grounds:
    """Those of one offset; ``is_own``: it has its own expiry."""
    rule = rule_of(group, context.broker_release)
    needs_retention = rule.base is not None and not is_own
    needs_release = context.broker_release is None and rule.since is not None
    return Grounds(
        rule=rule.name,
        base=_base(group, rule, is_own=is_own),
        assumed=context.assumed_retention if needs_retention else {},
        assumed_release=NEWEST_RULES if needs_release else None,
    )


def _base(group: GroupState, rule: Rule, *, is_own: bool) -> ExpiryBase | None:
    if rule.base is None:
        return None
    if is_own:
        return "own"
    is_emptied = rule.base is Base.EMPTIED and group.classic.emptied_ms is not None
    return "emptied" if is_emptied else "commit"
