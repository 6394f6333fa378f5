"""The states of a classic group and the table of its transitions.

The coordinator has five states, but writes only two of them. A record without members means Empty; a record with
members means that the leader has synced and the group is Stable. A rebalance in progress writes nothing, so that only
the prober's answers lead to PreparingRebalance and CompletingRebalance. An unknown group is Dead, as in DescribeGroups.
The log is compacted and may begin in the middle of a group's life: no transition may be refused. So the table is total;
each cell has the next state and the event of the transition.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeAlias

from groupreplay.codecs.kafka_terms import Phase


class Observed(str, Enum):
    """What an observation proves about a classic group."""

    NO_MEMBERS = "a record without members"
    NEW_GENERATION = "a record with members and another generation"
    SAME_GENERATION = "a record with members and the known generation"
    TOMBSTONE = "the group's tombstone"
    NOTHING_LEFT = "no offset of a simple group is left, and two clean-ups have written no tombstone"
    COMMIT = "an offset commit"
    PROBED_PREPARING = "the broker answers PreparingRebalance"
    PROBED_COMPLETING = "the broker answers CompletingRebalance"
    PROBED_STABLE = "the broker answers Stable"
    PROBED_EMPTY = "the broker answers Empty"
    PROBED_DEAD = "the broker does not know the group"


class TransitionEvent(str, Enum):
    """The event of a transition; it is not emitted where its proof is missing."""

    NOTHING = "nothing"
    CREATED = "group.created"
    EMPTIED = "group.emptied"
    COMPLETED = "rebalance.completed"
    REPLACED = "static.replaced"
    DELETED = "group.deleted"


#: A state as the broker spells it -> what is observed. Other answers (an unknown state, a state of another kind of
#: group) prove nothing about a classic group.
PROBED: Final[Mapping[str, Observed]] = {
    Phase.PREPARING_REBALANCE.value: Observed.PROBED_PREPARING,
    Phase.COMPLETING_REBALANCE.value: Observed.PROBED_COMPLETING,
    Phase.STABLE.value: Observed.PROBED_STABLE,
    Phase.EMPTY.value: Observed.PROBED_EMPTY,
    Phase.DEAD.value: Observed.PROBED_DEAD,
}

#: What is observed in one state -> next state and event.
_Row: TypeAlias = Mapping[Observed, tuple[Phase, TransitionEvent]]

_PROBED: Final[_Row] = {seen: (Phase(state), TransitionEvent.NOTHING) for state, seen in PROBED.items()}


def _stays(phase: Phase, *observed: Observed) -> _Row:
    """What changes nothing in this state."""
    return dict.fromkeys(observed, (phase, TransitionEvent.NOTHING))


def _not_rebalancing(phase: Phase) -> _Row:
    """A probe of a group without a rebalance shows only that one began; the log has the other states."""
    others = Observed.PROBED_STABLE, Observed.PROBED_EMPTY, Observed.PROBED_DEAD
    return {**_PROBED, **_stays(phase, *others)}


def _with_members(phase: Phase) -> _Row:
    """Of a group with members in this state; every probe shows what the state is now."""
    return {
        # Only an Empty group exists by its offsets alone.
        **_stays(phase, Observed.COMMIT, Observed.NOTHING_LEFT),
        Observed.NO_MEMBERS: (Phase.EMPTY, TransitionEvent.EMPTIED),
        Observed.NEW_GENERATION: (Phase.STABLE, TransitionEvent.COMPLETED),
        # A static member was replaced, or the leader's sync was written twice: no rebalance.
        Observed.SAME_GENERATION: (Phase.STABLE, TransitionEvent.REPLACED),
        Observed.TOMBSTONE: (Phase.DEAD, TransitionEvent.DELETED),
        **_PROBED,
    }


#: State and observation -> next state and event. Total: every state has every observation.
NEXT: Final[Mapping[Phase, _Row]] = {
    Phase.DEAD: {
        Observed.NO_MEMBERS: (Phase.EMPTY, TransitionEvent.CREATED),
        Observed.NEW_GENERATION: (Phase.STABLE, TransitionEvent.COMPLETED),
        Observed.SAME_GENERATION: (Phase.STABLE, TransitionEvent.COMPLETED),
        # The coordinator creates a simple group for offsets of an unknown group.
        Observed.COMMIT: (Phase.EMPTY, TransitionEvent.CREATED),
        **_stays(Phase.DEAD, Observed.TOMBSTONE, Observed.NOTHING_LEFT),
        **_not_rebalancing(Phase.DEAD),
    },
    Phase.EMPTY: {
        # Members joined and left without an assignment: another generation, and the group is still empty.
        Observed.NO_MEMBERS: (Phase.EMPTY, TransitionEvent.NOTHING),
        Observed.NEW_GENERATION: (Phase.STABLE, TransitionEvent.COMPLETED),
        Observed.SAME_GENERATION: (Phase.STABLE, TransitionEvent.COMPLETED),
        Observed.TOMBSTONE: (Phase.DEAD, TransitionEvent.DELETED),
        # The coordinator in Scala writes no tombstone of a group that never had a generation.
        Observed.NOTHING_LEFT: (Phase.DEAD, TransitionEvent.DELETED),
        Observed.COMMIT: (Phase.EMPTY, TransitionEvent.NOTHING),
        **_not_rebalancing(Phase.EMPTY),
    },
    Phase.STABLE: {**_with_members(Phase.STABLE), **_not_rebalancing(Phase.STABLE)},
    Phase.PREPARING_REBALANCE: _with_members(Phase.PREPARING_REBALANCE),
    Phase.COMPLETING_REBALANCE: _with_members(Phase.COMPLETING_REBALANCE),
}
