"""One broker operation on a group of the newer kinds: the picture before it, the picture after it, the facts.

A heartbeat writes up to a dozen records; between them the group seems to be Empty, Assigning or gone. So the
records of an operation are taken over in silence, and only the two pictures around it are compared. The same
holds for conversions, which end a group of one kind and begin it as another in one operation. Knows what two
pictures say; must not know which records made them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from groupreplay.codecs import GroupMetadataKey, GroupMetadataValue
from groupreplay.state.events.event import Fact, History, LeaveReason, Trigger
from groupreplay.state.events.group_events import (
    GroupConverted,
    GroupCreated,
    GroupDeleted,
    GroupEmptied,
    RebalanceCompleted,
    RebalanceStarted,
)
from groupreplay.state.kafka_terms import CONSUMER_PROTOCOL_TYPE, GroupType, MemberPhase, Phase
from groupreplay.state.replay import classic, generation_diff
from groupreplay.state.replay.report import Report
from groupreplay.state.replay.topic_names import counted_moves, named, named_orphans, names
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.group_state import GroupState, OpenRebalance
from groupreplay.state.snapshot.members import Member, Pairing, pair
from groupreplay.state.snapshot.modern import Modern
from groupreplay.state.snapshot.observations import GroupRecord
from groupreplay.state.snapshot.offsets import Offsets
from groupreplay.state.snapshot.partitions import each

#: The session timeout of the newer kinds is in no record; this is the broker's default and its minimum.
SESSION_TIMEOUT_MS: Final = 45_000
#: The longest time between two heartbeats that a broker allows by default: a commit keeps nobody alive.
_HEARTBEAT_MS: Final = 15_000
#: The broker's timer fences a member exactly at its rebalance timeout; this much later is still it.
_FENCING_SLACK_MS: Final = 5_000
#: Nothing known of a member: its phase, since when it is in it, when it was last seen.
_NO_SIGN: Final = (None, None, None)
#: A new group's first epoch: 1, and since 4.3 2.
_FIRST_EPOCHS: Final = (1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What can be seen of a group at the edge of an operation; a classic one's epoch is its generation."""

    kind: GroupType
    state: str
    epoch: int | None
    metadata_hash: int | None
    members: tuple[Member, ...]
    signs: Mapping[str, tuple[MemberPhase, int | None, int | None]]
    whole: bool
    settled: bool

    @property
    def exists(self) -> bool:
        """Whether the broker would list the group."""
        return self.state != Phase.DEAD.value

    @property
    def proven(self) -> bool:
        """Whether it is known to exist as this kind.

        An offset alone may belong to a group whose records are further on in a log that was cleaned.
        """
        return self.exists and (self.kind is not GroupType.CLASSIC or self.epoch is not None or self.whole)


def is_modern(snapshot: GroupSnapshot, records: Sequence[GroupRecord]) -> bool:
    """Whether an operation concerns a group of the newer kinds, or a conversion from or to one."""
    return snapshot.group.group_type is not GroupType.CLASSIC or any(
        record.key.KEY_TYPE in modern.RECORDS for record in records
    )


def apply(snapshot: GroupSnapshot, records: Sequence[GroupRecord], offsets: Offsets, report: Report) -> None:
    """Apply an operation's records, in log order, and report what it changed."""
    before, history = picture(snapshot.group), snapshot.group.history
    epochs = [before.epoch]
    strange = False
    for record in records:
        known = snapshot.group.modern
        strange |= known is not None and modern.is_strange(known, record.key, record.value)
        _take(snapshot, record, offsets, report)
        known = snapshot.group.modern
        if known is not None and modern.group_epoch(known) != epochs[-1]:
            epochs.append(modern.group_epoch(known))
    if snapshot.group.modern is not None and not snapshot.group.modern.exists:
        classic.forget(snapshot)
    group = snapshot.group
    after = picture(group)
    if before.state != after.state or before.kind != after.kind:
        group.since_ms = report.timestamp_ms
    group.history, comparable = _continuity(history, group.modern, before, after, epochs)
    if strange:
        group.history, comparable = History.PARTIAL, False
    group.record_offset, group.record_timestamp_ms = report.offset, report.timestamp_ms
    pairing = pair(before.members, after.members)
    _Comparison(group, before, after, pairing, comparable, offsets, report).report_all()
    if not after.exists:
        group.history = History.PARTIAL


def _take(snapshot: GroupSnapshot, record: GroupRecord, offsets: Offsets, report: Report) -> None:
    """One record, leniently: the newest value decides the kind, tombstones of another kind are nothing."""
    if isinstance(record.key, GroupMetadataKey):
        if isinstance(record.value, GroupMetadataValue):
            silent = replace(report.context, emit_since_ms=1 << 62)
            quiet = Report(report.group_id, silent, report.partition, record.offset, record.timestamp_ms)
            if snapshot.group.group_type is not GroupType.CLASSIC:
                classic.forget(snapshot)
            classic.apply_value(snapshot, record.value, offsets, quiet)
        elif snapshot.group.group_type is GroupType.CLASSIC:
            classic.forget(snapshot)
        return
    kind = modern.RECORDS[record.key.KEY_TYPE][0]
    if record.value is not None and (snapshot.group.group_type is not kind or snapshot.group.modern is None):
        history = snapshot.group.history
        snapshot.group = GroupState(group_type=kind, modern=Modern(), history=history, phase=Phase.EMPTY)
    group = snapshot.group
    if group.group_type is kind and group.modern is not None:
        modern.apply_record(group.modern, record.key, record.value, record.timestamp_ms)


def _continuity(
    history: History,
    group: Modern | None,
    before: Picture,
    after: Picture,
    epochs: Sequence[int | None],
) -> tuple[History, bool]:
    """The history from here on, and whether the members before and after may be held against each other.

    The cleaner leaves single records of old operations, so a picture between them may never have been.
    """
    full = history is History.FULL
    if not before.proven:
        first = _is_first(group, after)
        return (History.FULL if first else History.PARTIAL), first
    if after.exists and before.kind is not after.kind:
        # A conversion writes every member anew; a classic record is a full picture whenever it was written.
        return History.FULL, full or before.kind is GroupType.CLASSIC
    steps = [new - old for old, new in pairwise(epochs) if old is not None and new is not None]
    if any(step > 1 for step in steps):
        # The coordinator writes every epoch.
        return History.PARTIAL, False
    return (History.FULL, True) if 1 in steps else (history, full)


def _is_first(group: Modern | None, after: Picture) -> bool:
    """Whether this is a group's first operation, and whole: one member of its own kind at a first epoch.

    More members, or one without a description, come from a conversion or from operations that were cleaned.
    """
    if group is None or after.epoch not in _FIRST_EPOCHS or len(group.members) != 1:
        return False
    return all(
        member.described and member.classic_session_timeout_ms is None for member in group.members.values()
    )


def _members(group: Modern) -> tuple[Member, ...]:
    """The members, topics by id, smallest epoch first: of two claims on a partition the larger epoch wins.

    A static member that is away keeps its place: it has not left.
    """
    return tuple(
        Member(
            member_id=name,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.classic_session_timeout_ms or SESSION_TIMEOUT_MS,
            supported_protocols=member.supported_protocols,
            topics=tuple(sorted({*member.topics, *group.regexes.get(member.regex or "", ())})),
            partitions=member.assigned,
        )
        for name, member in sorted(modern.living(group).items(), key=lambda item: (item[1].epoch, item[0]))
    )


def picture(group: GroupState) -> Picture:
    """The group as it is now."""
    known = group.modern
    if known is None:
        return Picture(
            kind=group.group_type,
            state=group.phase.value,
            epoch=group.classic.generation,
            metadata_hash=None,
            members=group.classic.members,
            signs={},
            whole=group.history is History.FULL,
            settled=True,
        )
    return Picture(
        kind=group.group_type,
        state=modern.state_of(group.group_type, known),
        epoch=modern.group_epoch(known),
        metadata_hash=known.metadata_hash,
        members=_members(known),
        signs={
            name: (member.phase, member.phase_since_ms, member.seen_ms)
            for name, member in known.members.items()
        },
        whole=group.history is History.FULL,
        settled=modern.settled(known),
    )


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Two pictures, and what they say."""

    group: GroupState
    before: Picture
    after: Picture
    pairing: Pairing
    comparable: bool
    offsets: Offsets
    report: Report

    def report_all(self) -> None:
        """Every fact of the operation, in a fixed order."""
        self._existence()
        if self.before.kind is not self.after.kind is GroupType.CLASSIC:
            self.group.orphans = self._given_up()
        if self.comparable:
            self._rounds_begin()
            self._members()
            self._rounds_end()
        else:
            self.group.open_rebalance = None

    def _say(self, fact: Fact, kind: GroupType | None = None) -> None:
        self.report.say(fact, group_type=kind or self.after.kind, simple=False, history=self.group.history)

    def _named(self, member: Member) -> Member:
        return named(member, self._names())

    def _names(self) -> dict[str, str]:
        return names(self.offsets, self.group.modern, self.report.context.topic_names)

    def _existence(self) -> None:
        before, after, at_ms = self.before, self.after, self.report.timestamp_ms
        if before.proven and after.exists and before.kind is not after.kind:
            self._say(
                GroupConverted(
                    from_type=before.kind, to_type=after.kind, generation=after.epoch, since_ms=at_ms
                )
            )
            if before.kind is GroupType.CLASSIC and before.members:
                # Its generations are written when they are complete: an epoch above continues nothing.
                self.group.completed_epoch = before.epoch
        elif before.exists and not after.exists:
            self._say(GroupDeleted(generation=before.epoch, since_ms=at_ms), before.kind)
        elif not before.exists and after.exists and self.comparable:
            self._say(GroupCreated(generation=after.epoch, since_ms=at_ms))

    def _rounds_begin(self) -> None:
        if not self._rose() or not self.after.members or self.group.open_rebalance is not None:
            return
        if self.group.completed_epoch is None and self.before.members and not self.before.settled:
            # The log begins inside a rebalance: this epoch continues it, and when it began is not known.
            return
        place = f"{self.report.context.era}-{self.report.partition}-{self.report.offset}"
        base = self.before.members or self.group.former
        fresh = not self.before.exists or self.before.kind is not self.after.kind
        owners_known = fresh or self.group.completed_epoch is not None
        self.group.open_rebalance = OpenRebalance(
            place, self.report.timestamp_ms, self._trigger(), base, owners_known
        )
        self._say(
            RebalanceStarted(
                rebalance_id=place,
                generation=self.after.epoch or 0,
                trigger=self.group.open_rebalance.trigger,
            )
        )

    def _rose(self) -> bool:
        if self.group.modern is None:
            return False
        # An emptied group that is converted begins anew: its generation says nothing about the epoch.
        anew = self.before.kind is not self.after.kind and not self.before.members
        return anew or (self.after.epoch or 0) > (self.before.epoch or 0)

    def _trigger(self) -> Trigger:
        found = generation_diff.trigger(
            generation_diff.GenerationDiff(
                old=self.before.members,
                new=self.after.members,
                pairing=self.pairing,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                last_owners=generation_diff.owners(self.after.members, {}),
                owners_known=False,
                first=not self.before.members,
            )
        )
        changed = self.before.metadata_hash != self.after.metadata_hash
        return "metadata_changed" if found == "unknown" and changed else found

    def _members(self) -> None:
        emptied = bool(self.before.members) and self.after.exists and not self.after.members
        if emptied:
            fact = GroupEmptied(generation=self.after.epoch or 0, since_ms=self.report.timestamp_ms)
            self._say(fact)
        for member in self.pairing.left if self.after.exists else ():
            elapsed_ms, reason = self._departure(member, emptied)
            self._say(generation_diff.left(member, reason, elapsed_ms))
        for member in self.pairing.joined:
            self._say(generation_diff.joined(member))
        for change in generation_diff.changes(self.pairing):
            self._say(change)
        if self.before.members and not self.after.members:
            self.group.former = self.before.members

    def _departure(self, member: Member, emptied: bool) -> tuple[int | None, LeaveReason]:
        phase, since_ms, seen_ms = self.before.signs.get(member.member_id, _NO_SIGN)
        now_ms = self.report.timestamp_ms
        if phase is MemberPhase.UNREVOKED and since_ms is not None:
            late_ms = now_ms - since_ms - member.rebalance_timeout_ms
            if 0 <= late_ms <= _FENCING_SLACK_MS:
                return now_ms - since_ms, "rebalance_timeout"
        commit_ms = self.offsets.last_commit_ms(each(self._named(member).partitions))
        signs = [time for time in (seen_ms, commit_ms) if time is not None]
        elapsed_ms = max(0, now_ms - max(signs)) if signs else None
        shortest_ms = self._shortest_ms(member, seen_ms, commit_ms)
        return elapsed_ms, generation_diff.leave_reason(emptied, elapsed_ms, shortest_ms)

    def _shortest_ms(self, member: Member, seen_ms: int | None, commit_ms: int | None) -> int:
        """After which time without a sign of life something else than the member may have ended it."""
        if self.before.kind is GroupType.CLASSIC or member.supported_protocols:
            return generation_diff.shortest_timeout_ms(member, self.before.members)
        # Without anything to revoke only its session can end it, which only heartbeats prolong.
        by_commit = commit_ms is not None and (seen_ms is None or commit_ms > seen_ms)
        return member.session_timeout_ms - (_HEARTBEAT_MS if by_commit else 0)

    def _rounds_end(self) -> None:
        group, open_round = self.group.modern, self.group.open_rebalance
        if group is None or not self.after.members:
            self.group.open_rebalance = None
        elif open_round is not None and self.after.state == "Stable" and modern.settled(group):
            self._completed(open_round)
            self.group.open_rebalance = None
            self.group.completed_epoch = self.after.epoch

    def _given_up(self) -> dict[str, dict[str, str]]:
        """What the members had that are no more in a group that became a classic one: its next round deals it."""
        last = generation_diff.owners(tuple(map(self._named, self.before.members)), {})
        now = generation_diff.owners(self.after.members, {})
        return generation_diff.by_owner({place: owner for place, owner in last.items() if place not in now})

    def _completed(self, open_round: OpenRebalance) -> None:
        old_members = tuple(map(self._named, open_round.members))
        members = tuple(map(self._named, self.after.members))
        pairing = pair(old_members, members)
        previous, epoch = self.group.completed_epoch, self.after.epoch or 0
        round_ = generation_diff.GenerationDiff(
            old=old_members,
            new=members,
            pairing=pairing,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            last_owners=generation_diff.owners(old_members, named_orphans(self.group.orphans, self._names())),
            owners_known=open_round.owners_known,
            first=not old_members,
        )
        moved = counted_moves(round_, pairing, self.after.kind)
        self.group.orphans = moved.orphans if moved else {}
        present = bool(self.before.members) or open_round.trigger != "first_join"
        old = pairing if present else Pairing((), (), members)
        self._say(
            RebalanceCompleted(
                rebalance_id=open_round.rebalance_id,
                generation=epoch,
                previous_generation=previous,
                skipped_generations=None if previous is None else max(0, epoch - previous - 1),
                protocol_type=self.after.kind.value,
                protocol=None,
                leader=None,
                members=tuple(map(generation_diff.picture, members)),
                member_count=len(members),
                joined=tuple(member.member_id for member in old.joined),
                left=tuple(member.member_id for member in old.left),
                kept=tuple(new.member_id for _, new in old.kept),
                trigger=open_round.trigger,
                sync_ms=None,
                join_ms=None,
                duration_ms=self.report.timestamp_ms - open_round.started_ms,
                duration_upper_bound_ms=None,
                partitions_moved=moved.moved if moved else None,
                partitions_unassigned=moved.unassigned if moved else None,
            )
        )
