"""What a group's records and the prober's answers show of the group at one moment.

Deleting the group replaces the whole ``GroupState``, so that no field outlives its group.
"""

from __future__ import annotations

import msgspec

from groupreplay.codecs.kafka_terms import GroupType, Phase
from groupreplay.state.events.event import History, LeaveReason, Trigger
from groupreplay.state.snapshot.members import EarlierTopics, Member
from groupreplay.state.snapshot.modern import Modern, group_epoch


class ClassicGeneration(msgspec.Struct, frozen=True, array_like=True):
    """The last record of a classic group; each record replaces it. Blank for the newer kinds.

    ``emptied_ms`` is when the group became Empty according to the record, None where the record has no such time.
    ``earlier`` are other subscriptions that the generation has had; None: it has had none. ``joined_ms`` is when the
    join phase of its members ended, from which their sessions count.
    """

    generation: int | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: tuple[Member, ...] = ()
    emptied_ms: int | None = None
    earlier: EarlierTopics | None = None
    joined_ms: int | None = None


class BeginBounds(msgspec.Struct, frozen=True, array_like=True):
    """When something began that only a prober's answers show.

    At ``earliest_ms`` at the earliest (None: nothing is known of the time before), and at ``latest_ms`` at the latest
    (None: no answer has shown it yet).
    """

    earliest_ms: int | None = None
    latest_ms: int | None = None

    def not_yet(self, asked_ms: int) -> BeginBounds:
        """It had not begun, or was over again, when this question was asked."""
        return BeginBounds(max(asked_ms, self.earliest_ms or asked_ms))

    def seen(self, asked_ms: int, answered_ms: int, unseen_ms: int | None) -> BeginBounds:
        """An answer shows it; ``unseen_ms`` before the question it had not begun (None: not known)."""
        if self.latest_ms is not None:
            return self
        after = self if unseen_ms is None else self.not_yet(asked_ms - unseen_ms)
        return BeginBounds(after.earliest_ms, answered_ms)


class SeenPhase(msgspec.Struct, array_like=True):
    """Answers of one broker, one after another, that show the same phase of a rebalance.

    ``asked_ms`` and ``answered_ms`` are those of the first one, ``last_asked_ms`` the question of the last one.
    ``unseen_ms`` before the first question no rebalance was found (None: not known).
    """

    phase: Phase
    asked_ms: int
    answered_ms: int
    last_asked_ms: int
    unseen_ms: int | None = None
    broker: int | None = None


class Missed(msgspec.Struct, frozen=True, array_like=True):
    """A member that was gone when the answer of ``answered_ms`` had come.

    It was there when the round before was asked for, at ``asked_ms`` (None: there was none in this rebalance).
    """

    asked_ms: int | None
    answered_ms: int


class RebalanceInProgress(msgspec.Struct, array_like=True):
    """A classic rebalance that the prober has seen. ``seen``: member and instance ids of the last answer.

    The rebalance began at ``since_ms`` at the latest and at ``earliest_ms`` at the earliest (None: not known).
    ``unseen_ms`` is the time between the first question and the round before. ``phases`` are what was seen since the
    group's last record, and ``trigger`` what the members in the first answer since then show.
    ``missed``: by id of a member of the last generation that an answer has shown to be gone.
    """

    rebalance_id: str
    since_ms: int
    phase: Phase
    seen: tuple[str, ...] = ()
    unseen_ms: int = 10_000
    earliest_ms: int | None = None
    phases: list[SeenPhase] = []
    trigger: Trigger = "unknown"
    missed: dict[str, Missed] = {}


class OpenRebalance(msgspec.Struct, frozen=True, array_like=True):
    """A rebalance in progress in a group of a newer kind; ``members`` are those at its start.

    ``owners_known``: the last owner of every partition is known, because the rebalance before was replayed or
    there was none. ``reasons``: by member id, why those left that have left since. ``first_epoch`` began it.
    """

    rebalance_id: str
    started_ms: int
    trigger: Trigger
    members: tuple[Member, ...]
    owners_known: bool = False
    reasons: dict[str, LeaveReason] = {}
    first_epoch: int | None = None


class GroupState(msgspec.Struct, array_like=True):
    """One group of one kind. ``classic`` or ``modern`` describes its members, by ``group_type``.

    ``phase`` is the state of a classic group; a group of a newer kind is only Dead or not.
    ``since_ms`` is the beginning of the present state; ``record_offset`` and ``record_timestamp_ms`` are those of
    the last group record. ``former`` are the members of the last generation while the group is Empty, ``orphans``
    the last owners of partitions without an owner (member id -> ranges by topic).
    ``in_progress`` is a classic rebalance that the prober has seen, ``open_rebalance`` one of the newer kinds, and
    ``completed_epoch`` the group epoch at which all members of a newer kind were last reconciled.
    """

    phase: Phase = Phase.DEAD
    group_type: GroupType = GroupType.CLASSIC
    history: History = History.PARTIAL
    since_ms: int | None = None
    record_offset: int = -1
    record_timestamp_ms: int | None = None
    classic: ClassicGeneration = ClassicGeneration()
    modern: Modern | None = None
    former: tuple[Member, ...] = ()
    orphans: dict[str, dict[str, str]] = {}
    in_progress: RebalanceInProgress | None = None
    open_rebalance: OpenRebalance | None = None
    completed_epoch: int | None = None

    @property
    def simple(self) -> bool:
        """Whether the group is classic and without a protocol type: it has offsets and never had members."""
        return (
            self.group_type is GroupType.CLASSIC
            and not self.classic.protocol_type
            and not self.classic.members
        )

    @property
    def epoch(self) -> int | None:
        """The generation of a classic group, the group epoch of a newer kind; None when there is none known."""
        return self.classic.generation if self.modern is None else group_epoch(self.modern)
