"""What groups of all kinds have in common: state, epoch, members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from groupreplay.codecs.kafka_terms import DEFAULT_SESSION_TIMEOUT_MS, GroupType, MemberPhase, Phase
from groupreplay.state.events.event import History
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.group_snapshot import GroupActivity
from groupreplay.state.snapshot.group_state import GroupState
from groupreplay.state.snapshot.members import Member
from groupreplay.state.snapshot.modern import Modern

if TYPE_CHECKING:
    from groupreplay.state.policy.rules import Rules
    from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
    from groupreplay.state.snapshot.group_state import GroupState


_LONG_LIVED_MS: Final = 24 * 3_600_000
#: Commits for each partition, on the average, that distinguish a group without members from a single write.
_COMMITS: Final = 3


def has_members(group: GroupState) -> bool:
    """Whether the group has a member."""
    return bool(group.classic.members) or (group.modern is not None and bool(modern.living(group.modern)))


def note_record(activity: GroupActivity, at_ms: int) -> None:
    """Call this for every record."""
    if activity.born_ms < 0:
        activity.born_ms = at_ms


def note_members(snapshot: GroupSnapshot, at_ms: int) -> None:
    """Call this whenever records may have changed the members, with the time of the last one."""
    activity, peopled = snapshot.activity, has_members(snapshot.group)
    if peopled and (activity.empty or not activity.peopled):
        activity.staffed_ms = at_ms
    activity.returns += peopled and activity.empty
    activity.empty = activity.peopled and not peopled
    activity.peopled = activity.peopled or peopled


def note_commits(activity: GroupActivity, commits: int, partitions: int) -> None:
    """Call this for every run of commits, with the number of partitions that have an offset after it."""
    activity.commits += commits
    activity.widest = max(activity.widest, partitions)


def is_significant(snapshot: GroupSnapshot, rules: Rules, now_ms: int) -> bool:
    """Whether the loss of the group would be noticed: by its policy, else by its history.

    A group with members must be a day old and have come back from Empty; a group without members must have three
    commits for each partition.
    """
    if rules.matters is not None:
        return rules.matters
    activity = snapshot.activity
    if _has_own_program(snapshot):
        return activity.commits >= _COMMITS * max(1, activity.widest)
    of_age_ms = significant_ms(snapshot, rules)
    return of_age_ms is not None and now_ms >= of_age_ms


def significant_ms(snapshot: GroupSnapshot, rules: Rules) -> int | None:
    """From when on the group is significant because of its age; None: its age decides nothing."""
    if rules.matters is not None or _has_own_program(snapshot) or not snapshot.activity.returns:
        return None
    return snapshot.activity.born_ms + _LONG_LIVED_MS


def _has_own_program(snapshot: GroupSnapshot) -> bool:
    """Whether a program commits for a group that never had members."""
    return snapshot.group.simple and not snapshot.activity.peopled


class LastSign(NamedTuple):
    """The phase of a member, since when it is in this phase, when its last record was written, and its epoch."""

    phase: MemberPhase | None = None
    phase_since_ms: int | None = None
    seen_ms: int | None = None
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group of any kind before or after an operation. ``epoch`` of a classic group is its generation.

    ``signs`` are the last signs of life of members of the newer kinds; ``whole``: the history is complete;
    ``settled``: no member waits for a revocation or an assignment.
    """

    kind: GroupType
    state: str
    epoch: int | None
    metadata_hash: int | None
    members: tuple[Member, ...]
    signs: Mapping[str, LastSign]
    whole: bool
    settled: bool

    @property
    def exists(self) -> bool:
        """Whether the broker would list the group."""
        return self.state != Phase.DEAD.value

    @property
    def proven(self) -> bool:
        """Whether the group is known to exist as this kind.

        An offset alone may belong to a group whose records come later in a compacted log.
        """
        return self.exists and (self.kind is not GroupType.CLASSIC or self.epoch is not None or self.whole)


def _members(group: Modern) -> tuple[Member, ...]:
    """The members, topics by id, smallest epoch first: of two owners of a partition the larger epoch wins.

    A static member that is away for a moment has not left.
    """
    return tuple(
        Member(
            member_id=name,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            # No record has the session timeout of the newer kinds; the default is also the minimum.
            session_timeout_ms=member.classic_session_timeout_ms or DEFAULT_SESSION_TIMEOUT_MS,
            supported_protocols=member.supported_protocols,
            topics=tuple(sorted({*member.topics, *group.regexes.get(member.regex or "", ())})),
            partitions=member.assigned,
        )
        for name, member in sorted(modern.living(group).items(), key=lambda item: (item[1].epoch, item[0]))
    )


def summarize(group: GroupState) -> GroupSummary:
    """The group as it is now."""
    known = group.modern
    if known is None:
        return GroupSummary(
            kind=group.group_type,
            state=group.phase.value,
            epoch=group.classic.generation,
            metadata_hash=None,
            members=group.classic.members,
            signs={},
            whole=group.history is History.FULL,
            settled=True,
        )
    return GroupSummary(
        kind=group.group_type,
        state=modern.state_of(group.group_type, known),
        epoch=modern.group_epoch(known),
        metadata_hash=known.metadata_hash,
        members=_members(known),
        signs={
            name: LastSign(member.phase, member.phase_since_ms, member.seen_ms, member.epoch)
            for name, member in known.members.items()
        },
        whole=group.history is History.FULL,
        settled=modern.settled(known),
    )
