"""What one operation changed in a group of a newer kind, found by comparing the group before and after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from groupreplay.codecs.kafka_terms import CONSUMER_PROTOCOL_TYPE, GroupType, MemberPhase
from groupreplay.state.events import group_events
from groupreplay.state.events.event import Evidence, Fact, GoneMember, Trigger
from groupreplay.state.policy.context import SessionSettings
from groupreplay.state.replay import generation_diff, logged
from groupreplay.state.replay.departure_reasons import (
    FENCING_SLACK_MS,
    LATE_HEARTBEAT_MS,
    STAMP_LAG_MS,
    Leaving,
    fenced,
    why,
)
from groupreplay.state.replay.generation_diff import MOST_GONE, Departure, MembershipChange, judged
from groupreplay.state.replay.group_summary import GroupSummary, LastSign
from groupreplay.state.replay.report import Report
from groupreplay.state.replay.topic_names import counted_moves, named, named_orphans, names
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.group_state import GroupState, OpenRebalance
from groupreplay.state.snapshot.members import Member, Pairing, SlotHistory, client_fields, pair
from groupreplay.state.snapshot.offsets import Offsets
from groupreplay.state.snapshot.partitions import each

#: Without a statement nothing is assumed, and the fencing of a revocation is a sum of recorded numbers.
_WITHOUT_SESSION: Final = ("unknown", "rebalance_timeout")


@dataclass(frozen=True, slots=True)
class ModernDiff:
    """A group before and after an operation; ``group`` is the state after it, which the comparison completes.

    ``comparable``: all records between the two are known. ``session`` is that of members without one of their own.
    """

    group: GroupState
    before: GroupSummary
    after: GroupSummary
    pairing: Pairing
    comparable: bool
    offsets: Offsets
    report: Report
    session: SessionSettings
    history: SlotHistory | None = None

    def emit_all(self) -> MembershipChange:
        """Emit every fact of the operation, in a fixed order."""
        self._emit_existence()
        if self.before.kind is not self.after.kind is GroupType.CLASSIC:
            self.group.orphans = self._orphans()
        if not self.comparable:
            self.group.open_rebalance = None
            return MembershipChange()
        self._open_rebalance()
        change = self._membership_change()
        if change.emptied:
            self._emit(
                group_events.GroupEmptied(generation=self.after.epoch or 0, since_ms=self.report.timestamp_ms)
            )
        if self.group.open_rebalance is not None:
            reasons = {departure.member.member_id: departure.reason for departure in change.departures}
            self.group.open_rebalance.reasons.update(reasons)
        for fact, evidence in change.facts():
            self._emit(fact, evidence=evidence)
        if self.before.members and not self.after.members:
            self.group.former = self.before.members
        open_rebalance = self.group.open_rebalance
        completed = self._close_rebalance()
        if completed is None or open_rebalance is None:
            return change
        lasted_ms = max(0, self.report.timestamp_ms - open_rebalance.started_ms)
        return msgspec.structs.replace(change, completed=completed, lasted_ms=lasted_ms)

    def _emit(self, fact: Fact, kind: GroupType | None = None, evidence: Evidence = Evidence.LOG) -> None:
        self.report.emit(
            fact, group_type=kind or self.after.kind, history=self.group.history, evidence=evidence
        )

    def _named(self, member: Member) -> Member:
        return named(member, self._names())

    def _names(self) -> dict[str, str]:
        return names(self.offsets, self.group.modern, self.report.context.topic_names)

    def _emit_existence(self) -> None:
        before, after, at_ms = self.before, self.after, self.report.timestamp_ms
        if before.proven and after.exists and before.kind is not after.kind:
            self._emit(
                group_events.GroupConverted(
                    from_type=before.kind, to_type=after.kind, generation=after.epoch, since_ms=at_ms
                )
            )
            if before.kind is GroupType.CLASSIC and before.members:
                # A classic generation is written when it is complete: a higher epoch begins another rebalance.
                self.group.completed_epoch = before.epoch
        elif before.exists and not after.exists:
            asked = logged.requesters(self.report, logged.REMOVALS["group_deleted"])
            deleted = group_events.GroupDeleted(generation=before.epoch, since_ms=at_ms, requested_by=asked)
            self._emit(deleted, before.kind)
        elif not before.exists and after.exists and self.comparable:
            self._emit(group_events.GroupCreated(generation=after.epoch, since_ms=at_ms))

    def _open_rebalance(self) -> None:
        if not self._epoch_rose() or not self.after.members or self.group.open_rebalance is not None:
            return
        if self.group.completed_epoch is None and self.before.members and not self.before.settled:
            # The log begins inside a rebalance: this epoch continues it, and its beginning is not known.
            return
        place = f"{self.report.context.era}-{self.report.partition}-{self.report.offset}"
        base = self.before.members or self.group.former
        fresh = not self.before.exists or self.before.kind is not self.after.kind
        owners_known = fresh or self.group.completed_epoch is not None
        epoch = self.after.epoch or 0
        # What was before the members of a new or an empty group began nothing.
        first_epoch = min(self.before.epoch or 0, epoch - 1) + 1 if self.before.members else epoch
        steps = logged.epochs(self.report, first_epoch, epoch, (*self.before.members, *self.after.members))
        self.group.open_rebalance = OpenRebalance(
            place,
            self.report.timestamp_ms,
            logged.epoch_trigger(steps, self._trigger()),
            base,
            owners_known,
            first_epoch=first_epoch,
        )
        self._emit(
            group_events.RebalanceStarted(
                rebalance_id=place,
                generation=self.after.epoch or 0,
                trigger=self.group.open_rebalance.trigger,
                since_ms=self.report.timestamp_ms,
                since_ms_earliest=self.report.timestamp_ms,
            ),
            evidence=Evidence.BROKER_LOG if steps else Evidence.LOG,
        )

    def _epoch_rose(self) -> bool:
        if self.group.modern is None:
            return False
        # An empty group that is converted begins again: its generation has nothing to do with the epoch.
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

    def _membership_change(self) -> MembershipChange:
        emptied = bool(self.before.members) and self.after.exists and not self.after.members
        left = self.pairing.left if self.after.exists else ()
        return MembershipChange(
            departures=judged(
                [self._departure(member, emptied) for member in left],
                self.history,
                self.report.timestamp_ms,
                (len(self.before.members), len(self.after.members)),
            ),
            joined=self.pairing.joined,
            kept=self.pairing.kept,
            emptied=emptied,
        )

    def _departure(self, member: Member, emptied: bool) -> Departure:
        phase, since_ms, seen_ms, epoch = self.before.signs.get(member.member_id, LastSign())
        now_ms = self.report.timestamp_ms
        if phase is MemberPhase.UNREVOKED and since_ms is not None and member.rebalance_timeout_ms > 0:
            late_ms = now_ms - since_ms - member.rebalance_timeout_ms
            if -STAMP_LAG_MS <= late_ms <= FENCING_SLACK_MS:
                finding = fenced(since_ms, member.rebalance_timeout_ms, now_ms)
                finding = logged.departure(finding, member.member_id, self.report)
                return Departure(member, finding, now_ms - since_ms)
        commit_ms = self.offsets.last_commit_ms(each(self._named(member).partitions))
        signs = [time for time in (seen_ms, commit_ms) if time is not None]
        elapsed_ms = max(0, now_ms - max(signs)) if signs else None
        session = self._session(member)
        # A static member that goes does not renew its session.
        is_away = epoch == modern.AWAY
        beats = [] if seen_ms is None else [seen_ms - session.heartbeat_ms * is_away]
        before_commit = [] if commit_ms is None else [commit_ms - session.heartbeat_ms]
        # The least session that brokers allow is far shorter than nearly all that they have.
        late_ms = 0 if session.timeout_from == "default" else LATE_HEARTBEAT_MS
        finding = why(
            Leaving(
                earliest_ms=now_ms,
                latest_ms=now_ms,
                heard_ms=max(signs, default=None),
                committed_ms=commit_ms,
                heartbeat_ms=max((*beats, *(at_ms - late_ms for at_ms in before_commit)), default=None),
                likely_heartbeat_ms=max((*beats, *before_commit), default=None),
                # Without names of topics the commits of its partitions are not known.
                usual_gap_ms=None if commit_ms is None else self.offsets.usual_gap_ms(),
                session=session,
                poll_ms=member.rebalance_timeout_ms if member.rebalance_timeout_ms > 0 else None,
                is_static=member.instance_id is not None,
                is_away=is_away,
                gives_up_silently=True,
            )
        )
        finding = logged.departure(finding, member.member_id, self.report)
        is_logged = finding.evidence is Evidence.BROKER_LOG
        assumed = {} if is_logged else session.assumed
        return Departure(member, finding, elapsed_ms, assumed, closed=is_away)

    def _session(self, member: Member) -> SessionSettings:
        if self.before.kind is GroupType.CLASSIC or member.supported_protocols:
            return SessionSettings(member.session_timeout_ms, member.session_timeout_ms, 0)
        return self.session

    def _assumed(self, left: Sequence[Member], reasons: Mapping[str, str]) -> dict[str, int]:
        """What the stated reasons of these members rest on; the broker's fencing needs no session."""
        stated = [one for one in left if reasons.get(one.member_id, "unknown") not in _WITHOUT_SESSION]
        return {name: value for one in stated for name, value in self._session(one).assumed.items()}

    def _close_rebalance(self) -> tuple[Member, ...] | None:
        """End the rebalance when it is complete; the members of the generation, None when none is complete."""
        group, open_rebalance = self.group.modern, self.group.open_rebalance
        if group is None or not self.after.members:
            self.group.open_rebalance = None
        elif open_rebalance is not None and self.after.state == "Stable" and modern.settled(group):
            self._emit_completed(open_rebalance)
            self.group.open_rebalance = None
            self.group.completed_epoch = self.after.epoch
            return self.after.members
        return None

    def _orphans(self) -> dict[str, dict[str, str]]:
        """Partitions of members that left with the conversion to classic; the next generation assigns them again."""
        last = generation_diff.owners(tuple(map(self._named, self.before.members)), {})
        now = generation_diff.owners(self.after.members, {})
        return generation_diff.by_owner({place: owner for place, owner in last.items() if place not in now})

    def _emit_completed(self, open_rebalance: OpenRebalance) -> None:
        old_members = tuple(map(self._named, open_rebalance.members))
        members = tuple(map(self._named, self.after.members))
        pairing = pair(old_members, members)
        previous, epoch = self.group.completed_epoch, self.after.epoch or 0
        diff = generation_diff.GenerationDiff(
            old=old_members,
            new=members,
            pairing=pairing,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            last_owners=generation_diff.owners(old_members, named_orphans(self.group.orphans, self._names())),
            owners_known=open_rebalance.owners_known,
            first=not old_members,
        )
        moved = counted_moves(diff, pairing, self.after.kind)
        self.group.orphans = moved.orphans if moved else {}
        present = bool(self.before.members) or open_rebalance.trigger != "first_join"
        old = pairing if present else Pairing((), (), members)
        steps = logged.epochs(
            self.report, open_rebalance.first_epoch or epoch, epoch, (*old_members, *members)
        )
        self._emit(
            group_events.RebalanceCompleted(
                rebalance_id=open_rebalance.rebalance_id,
                generation=epoch,
                previous_generation=previous,
                skipped_generations=None if previous is None else max(0, epoch - previous - 1),
                protocol_type=self.after.kind.value,
                protocol=None,
                previous_protocol=None,
                leader=None,
                previous_leader=None,
                rebalance_timeout_ms=None,
                rebalance_timeout_member=None,
                members=tuple(
                    generation_diff.member_picture(one, native=not one.supported_protocols) for one in members
                ),
                member_count=len(members),
                joined=tuple(member.member_id for member in old.joined),
                left=tuple(member.member_id for member in old.left),
                kept=tuple(new.member_id for _, new in old.kept),
                gone=tuple(
                    GoneMember(
                        member_id=one.member_id,
                        **client_fields(one),
                        reason=open_rebalance.reasons.get(one.member_id, "unknown"),
                    )
                    for one in old.left[:MOST_GONE]
                ),
                trigger=open_rebalance.trigger,
                sync_ms=None,
                silent_ms=None,
                join_ms_min=None,
                join_ms_max=None,
                duration_ms=max(0, self.report.timestamp_ms - open_rebalance.started_ms),
                duration_upper_bound_ms=None,
                partitions_moved=moved.moved if moved else None,
                partitions_unassigned=moved.unassigned if moved else None,
                assumed=self._assumed(old.left[:MOST_GONE], open_rebalance.reasons),
                logged=tuple(reason for step in steps for reason in step.reasons),
            ),
            evidence=Evidence.BROKER_LOG if steps else Evidence.LOG,
        )
