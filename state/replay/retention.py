"""When the broker may remove committed offsets: its rules for every kind of group, in one list.

They are those of ``Group.offsetExpirationCondition``, ``isSubscribedToTopic`` and ``OffsetExpirationConditionImpl``,
for the whole table of offsets at once. The broker applies them every ``offsets.retention.check.interval.ms``. The
older coordinator in Scala (``GroupMetadata.removeExpiredOffsets``) decides the same. The log does not show open
transactions, which keep an offset, and rebalances that no prober has seen, in which nothing expires.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from groupreplay.state.kafka_terms import GroupType, Phase
from groupreplay.state.plausible_times import LATEST_MS
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.members import group_topics

if TYPE_CHECKING:
    from groupreplay.state.snapshot.group_state import GroupState
    from groupreplay.state.snapshot.offsets import Offsets

#: A time that no clock reaches: in its present state the group's offset does not expire.
NEVER: Final = int(np.iinfo(np.int64).max)
#: Later times are errors, and sums with them must not overflow.
_LATEST: Final = 1 << 60

Times = npt.NDArray[np.int64]


class Base(Enum):
    """The beginning of the retention of an offset."""

    COMMITTED = "its commit"
    EMPTIED = "the group becoming Empty, or its commit where the record has no such time"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for groups for which ``holds`` is true; ``base`` None: their offsets do not expire."""

    name: str
    holds: Callable[[GroupState], bool]
    base: Base | None


#: The first that holds is applied. With every rule, the offsets of a subscribed topic stay, and an offset with its
#: own expiry (a v1 record) expires then; never, if that is after the year 2100.
RULES: Final = (
    Rule("share group", lambda group: group.group_type is GroupType.SHARE, None),
    Rule("consumer group", lambda group: group.group_type is GroupType.CONSUMER, Base.COMMITTED),
    Rule("streams group", lambda group: group.group_type is GroupType.STREAMS, Base.COMMITTED),
    Rule("classic, no protocol type", lambda group: not group.classic.protocol_type, Base.COMMITTED),
    Rule("classic, Empty", lambda group: group.phase is Phase.EMPTY, Base.EMPTIED),
    Rule(
        "classic consumers, Stable",
        lambda group: group.phase is Phase.STABLE and _classic_topics(group) is not None,
        Base.COMMITTED,
    ),
    Rule("classic, members of another type or in a rebalance", lambda _: True, None),
)


def _classic_topics(group: GroupState) -> frozenset[str] | None:
    return group_topics(group.classic.members, group.classic.protocol_type)


def rule_of(group: GroupState) -> Rule:
    """The rule for the present state of a group."""
    return next(rule for rule in RULES if rule.holds(group))


def subscribed_topics(group: GroupState) -> frozenset[str]:
    """Topics whose offsets stay: those of the group's members."""
    if group.modern is not None:
        return modern.subscribed_topics(group.group_type, group.modern)
    return _classic_topics(group) or frozenset()


def _emptied_ms(group: GroupState, base: Base) -> int | None:
    """The beginning of the retention of all offsets; None: for each offset its commit."""
    return group.classic.emptied_ms if base is Base.EMPTIED else None


def deadlines(group: GroupState, offsets: Offsets, retention_ms: int) -> Times:
    """For each row of the table the first moment at which the broker may remove it, ``NEVER`` for none.

    It may do so at that moment already: the broker compares with ``>=``.
    """
    base = rule_of(group).base
    if base is None or not len(offsets):
        return np.full(len(offsets), NEVER, np.int64)
    since = offsets.rows["commit_timestamp_ms"]
    if (emptied_ms := _emptied_ms(group, base)) is not None:
        since = np.full(len(offsets), emptied_ms, np.int64)
    due: Times = np.minimum(np.maximum(since, -_LATEST), _LATEST) + min(retention_ms, _LATEST)
    places, expiries = offsets.own_expiries()
    if places:
        # An expiry in a later century is an old client's way to ask for none.
        due[places] = [NEVER if expiry > LATEST_MS else expiry for expiry in expiries]
    subscribed = subscribed_topics(group)
    kept = [place for place, topic in enumerate(offsets.topics) if topic in subscribed] if subscribed else []
    if kept:
        due[np.isin(offsets.rows["topic"], kept)] = NEVER
    return due


def first(due: Times) -> int | None:
    """The earliest of some deadlines; None when there is none."""
    earliest = int(due.min()) if len(due) else NEVER
    return None if earliest == NEVER else earliest


def first_deadline(group: GroupState, offsets: Offsets, retention_ms: int) -> int | None:
    """The earliest of ``deadlines``; every call needs it, mostly without the whole table."""
    if not len(offsets):
        return None
    base = rule_of(group).base
    if base is None:
        return None
    if offsets.expire_timestamps_ms or subscribed_topics(group):
        return first(deadlines(group, offsets, retention_ms))
    since_ms = _emptied_ms(group, base)
    if since_ms is None:
        since_ms = offsets.oldest_commit_ms()
    return min(max(since_ms, -_LATEST), _LATEST) + min(retention_ms, _LATEST)
