"""The states of a classic group and the one table of what moves it from one to another.

The theory. The coordinator has five states; only two of them are ever written. A record without members
means Empty, a record with members means that the leader has synced and the group is Stable; a rebalance in
progress writes nothing, so PreparingRebalance and CompletingRebalance are reached by live answers of the
prober alone. A group nobody knows is Dead, as DescribeGroups says of an unknown group. We read a log that
is compacted and may begin in the middle: no transition may be refused, so the table is total, and each cell
says the next state and what to report. The table knows nothing of bytes, Spark or clocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from groupreplay.state.kafka_terms import Phase


class Observed(str, Enum):
    """What an observation proves about a classic group."""

    NO_MEMBERS = "a record without members"
    NEW_GENERATION = "a record with members and another generation"
    SAME_GENERATION = "a record with members and the known generation"
    TOMBSTONE = "the group's tombstone"
    COMMIT = "an offset commit"
    PROBED_PREPARING = "the broker answers PreparingRebalance"
    PROBED_COMPLETING = "the broker answers CompletingRebalance"
    PROBED_STABLE = "the broker answers Stable"
    PROBED_EMPTY = "the broker answers Empty"
    PROBED_DEAD = "the broker does not know the group"


class TransitionEvent(str, Enum):
    """What to report of a transition; the reporter still says nothing where the proof is missing."""

    NOTHING = "nothing"
    CREATED = "group.created"
    EMPTIED = "group.emptied"
    COMPLETED = "rebalance.completed"
    REPLACED = "static.replaced"
    DELETED = "group.deleted"


_PROBED: Final[Mapping[Observed, tuple[Phase, TransitionEvent]]] = {
    Observed.PROBED_PREPARING: (Phase.PREPARING_REBALANCE, TransitionEvent.NOTHING),
    Observed.PROBED_COMPLETING: (Phase.COMPLETING_REBALANCE, TransitionEvent.NOTHING),
    Observed.PROBED_STABLE: (Phase.STABLE, TransitionEvent.NOTHING),
    Observed.PROBED_EMPTY: (Phase.EMPTY, TransitionEvent.NOTHING),
    Observed.PROBED_DEAD: (Phase.DEAD, TransitionEvent.NOTHING),
}


def _at_rest(phase: Phase) -> Mapping[Observed, tuple[Phase, TransitionEvent]]:
    """What a probe says of a group at rest: only that a rebalance began. How it rests, the log knows best."""
    rest = (Observed.PROBED_STABLE, Observed.PROBED_EMPTY, Observed.PROBED_DEAD)
    return {**_PROBED, **dict.fromkeys(rest, (phase, TransitionEvent.NOTHING))}


_WITH_MEMBERS: Final[Mapping[Observed, tuple[Phase, TransitionEvent]]] = {
    Observed.NO_MEMBERS: (Phase.EMPTY, TransitionEvent.EMPTIED),
    Observed.NEW_GENERATION: (Phase.STABLE, TransitionEvent.COMPLETED),
    # A member replaced under its instance id, or the leader's sync written twice: no rebalance.
    Observed.SAME_GENERATION: (Phase.STABLE, TransitionEvent.REPLACED),
    Observed.TOMBSTONE: (Phase.DEAD, TransitionEvent.DELETED),
}

#: State and proof -> next state and what to report. Total: every state has every proof.
NEXT: Final[Mapping[Phase, Mapping[Observed, tuple[Phase, TransitionEvent]]]] = {
    Phase.DEAD: {
        Observed.NO_MEMBERS: (Phase.EMPTY, TransitionEvent.CREATED),
        Observed.NEW_GENERATION: (Phase.STABLE, TransitionEvent.COMPLETED),
        Observed.SAME_GENERATION: (Phase.STABLE, TransitionEvent.COMPLETED),
        Observed.TOMBSTONE: (Phase.DEAD, TransitionEvent.NOTHING),
        # The coordinator makes a simple group of offsets whose group it does not know.
        Observed.COMMIT: (Phase.EMPTY, TransitionEvent.CREATED),
        **_at_rest(Phase.DEAD),
    },
    Phase.EMPTY: {
        # Members came and went without an assignment: a generation passed, the group is as empty as before.
        Observed.NO_MEMBERS: (Phase.EMPTY, TransitionEvent.NOTHING),
        Observed.NEW_GENERATION: (Phase.STABLE, TransitionEvent.COMPLETED),
        Observed.SAME_GENERATION: (Phase.STABLE, TransitionEvent.COMPLETED),
        Observed.TOMBSTONE: (Phase.DEAD, TransitionEvent.DELETED),
        Observed.COMMIT: (Phase.EMPTY, TransitionEvent.NOTHING),
        **_at_rest(Phase.EMPTY),
    },
    Phase.STABLE: {
        Observed.COMMIT: (Phase.STABLE, TransitionEvent.NOTHING),
        **_WITH_MEMBERS,
        **_at_rest(Phase.STABLE),
    },
    Phase.PREPARING_REBALANCE: {
        Observed.COMMIT: (Phase.PREPARING_REBALANCE, TransitionEvent.NOTHING),
        **_WITH_MEMBERS,
        **_PROBED,
    },
    Phase.COMPLETING_REBALANCE: {
        Observed.COMMIT: (Phase.COMPLETING_REBALANCE, TransitionEvent.NOTHING),
        **_WITH_MEMBERS,
        **_PROBED,
    },
}

#: A state as the broker spells it -> what an answer with it proves. Other answers (an unknown state, one of
#: another kind of group) prove nothing about a classic group.
PROBED: Final[Mapping[str, Observed]] = {
    Phase.PREPARING_REBALANCE.value: Observed.PROBED_PREPARING,
    Phase.COMPLETING_REBALANCE.value: Observed.PROBED_COMPLETING,
    Phase.STABLE.value: Observed.PROBED_STABLE,
    Phase.EMPTY.value: Observed.PROBED_EMPTY,
    Phase.DEAD.value: Observed.PROBED_DEAD,
}
