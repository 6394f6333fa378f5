"""The consumer protocol (KIP-848): ConsumerGroupHeartbeat, and what time does to members.

Decides what Kafka's ``GroupMetadataManager`` decides (4.3.1) and writes its records in its order. Must not know
committed offsets, nor how members of the classic protocol talk to a consumer group (`coordinator_mixed`). Not
modelled: subscriptions by regular expression, racks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from groupreplay.state.kafka_terms import MemberPhase, Phase
from groupreplay.state.model import consumer_records as records
from groupreplay.state.model.assignors import ASSIGNORS, Target
from groupreplay.state.model.books import CoordinatorState
from groupreplay.state.model.consumer_group import (
    AWAY,
    LEFT,
    ConsumerGroup,
    ConsumerMember,
    metadata_hash,
    topic_ids,
)
from groupreplay.state.model.consumer_records import Record
from groupreplay.state.model.migration import begun_after, downgrade, end_empty, upgraded
from groupreplay.state.model.reconciliation import Reconciliation
from groupreplay.state.model.requests import Answer, ConsumerGroupHeartbeat, Error, Place, Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A member before a request and as the request describes it; ``replaces``: whose instance id it takes over."""

    before: ConsumerMember
    after: ConsumerMember
    replaces: ConsumerMember | None = None

    @property
    def subscription_changed(self) -> bool:
        """Whether it is subscribed to other topics now."""
        return self.before.topics != self.after.topics


@dataclass(frozen=True, slots=True)
class ConsumerProtocol:
    """What is asked of a consumer group by its members."""

    books: CoordinatorState

    def heartbeat(self, request: ConsumerGroupHeartbeat, now_ms: int) -> Answer:
        """A member joins, is there, leaves or is away. Raises ``Refused``."""
        _validate(request)
        if request.member_epoch in (LEFT, AWAY):
            return self._leave(request, now_ms)
        joins = request.member_epoch == 0
        written: list[Record] = []
        group = self._group(written, joins=joins)
        full = len(group.members) >= self.books.settings.consumer_max_size
        if full and request.member_id not in group.members:
            raise Refused(Error.GROUP_MAX_SIZE_REACHED)
        update = self._update(group, request, written)
        self._adopt(group, now_ms)
        member = self.take(group, update, request.owned, written, now_ms)
        self.await_session(member.member_id, now_ms + self.books.settings.consumer_session_timeout_ms)
        self.finish(group, written, now_ms)
        told_all = (
            request.rebalance_timeout_ms != -1 and request.topics is not None and request.owned is not None
        )
        moved = set(update.before.assigned) != set(member.assigned)
        return Answer(
            member_id=member.member_id,
            generation=member.epoch,
            assigned=frozenset(member.assigned) if joins or told_all or moved else None,
        )

    def _group(self, written: list[Record], *, joins: bool) -> ConsumerGroup:
        group = self.books.group
        if isinstance(group, ConsumerGroup):
            return group
        if not joins:
            raise Refused(Error.GROUP_ID_NOT_FOUND)
        if group is None or group.state is Phase.EMPTY:
            if group is not None:
                end_empty(self.books, group, written)
            return begun_after(self.books, group)
        return upgraded(self.books, group, written)

    def _adopt(self, group: ConsumerGroup, now_ms: int) -> None:
        """From now on it is this group; the timers of a classic one mean nothing to it."""
        if self.books.group is group:
            return
        self.books.group = group
        self.books.timers.clear()
        for member in group.members.values():
            if member.classic is not None:
                self.await_session(member.member_id, now_ms + member.classic.session_timeout_ms)

    def _update(self, group: ConsumerGroup, request: ConsumerGroupHeartbeat, written: list[Record]) -> Update:
        joins = request.member_epoch == 0
        before, replaces = member_of(
            group, request.member_id, request.instance_id, joins=joins, classic=False, written=written
        )
        if not joins:
            _validate_epoch(before, request)
        after = replace(
            before,
            instance_id=before.instance_id if request.instance_id is None else request.instance_id,
            rack_id=before.rack_id if request.rack_id is None else request.rack_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=before.rebalance_timeout_ms
            if request.rebalance_timeout_ms == -1
            else request.rebalance_timeout_ms,
            topics=before.topics if request.topics is None else tuple(sorted(set(request.topics))),
            assignor=before.assignor if request.assignor is None else request.assignor,
            classic=None,
        )
        return Update(before=before, after=after, replaces=replaces)

    # -- one member's step, which those of the classic protocol take too

    def take(
        self,
        group: ConsumerGroup,
        update: Update,
        owned: frozenset[Place] | None,
        written: list[Record],
        now_ms: int,
    ) -> ConsumerMember:
        """Take a member over as it is now: group epoch, targets, its own assignment, each where it changes."""
        self.describe(group, update, written)
        target = self._assign(group, update, written, now_ms)
        member = self.reconcile(group, update, target, owned, written, now_ms)
        settle(group, update, member)
        return member

    def describe(self, group: ConsumerGroup, update: Update, written: list[Record]) -> None:
        """Write what is new about a member, and the epoch that this makes."""
        if update.after != update.before:
            written.append(records.described(group.group_id, update.after))
        members = members_with(group, update)
        digest = metadata_hash(members.values(), self.books.topics)
        if update.subscription_changed or digest != group.metadata_hash:
            group.epoch += 1
            group.metadata_hash = digest
            written.append(records.group_epoch(group.group_id, group.epoch, digest))

    def _assign(self, group: ConsumerGroup, update: Update, written: list[Record], now_ms: int) -> Target:
        """The member's target, made anew where the epoch is new and the last one old enough."""
        interval_ms = self.books.settings.consumer_assignment_interval_ms
        too_soon = group.target_timestamp_ms and now_ms < group.target_timestamp_ms + interval_ms
        if group.target_epoch >= group.epoch or too_soon:
            return group.target_of(update.after)
        targets = group.assign(members_with(group, update), self.books.topics)
        for name, places in targets.items():
            if group.targets.get(name) != places:
                written.append(records.target(group.group_id, name, places))
        group.targets = targets
        group.target_epoch, group.target_timestamp_ms = group.epoch, now_ms
        written.append(records.target_epoch(group.group_id, group.epoch, now_ms))
        return targets[update.after.member_id]

    def reconcile(
        self,
        group: ConsumerGroup,
        update: Update,
        target: Target,
        owned: frozenset[Place] | None,
        written: list[Record],
        now_ms: int,
    ) -> ConsumerMember:
        """Bring a member one step nearer to its target."""
        member = update.after
        if not update.subscription_changed and member.is_reconciled_to(group.target_epoch):
            return member
        moved = Reconciliation(
            target_epoch=group.target_epoch,
            target=target,
            subscribed=topic_ids(member, self.books.topics),
            taken=group.taken(),
            owned=owned,
            subscription_changed=update.subscription_changed,
        ).step(member)
        if moved != member:
            written.append(records.current(group.group_id, moved))
            if moved.classic is None:
                self._await_revocation(moved, now_ms)
        return moved

    def finish(self, group: ConsumerGroup, written: list[Record], now_ms: int) -> None:
        """The operation is over; where nothing was written nothing has changed."""
        if written:
            self.books.journal.write(now_ms, *written)
            group.become(group.state, now_ms)

    # -- time

    def await_session(self, member_id: str, until_ms: int) -> None:
        """Whoever has not been heard of until then is fenced."""
        self.await_sign("session", member_id, until_ms)

    def await_sign(self, kind: str, member_id: str, until_ms: int) -> None:
        """The same for a session, or for another thing that a member has to do in time."""
        self.books.timers.schedule((kind, member_id), until_ms, lambda at_ms: self._expire(member_id, at_ms))

    def _expire(self, member_id: str, now_ms: int) -> None:
        group = self.books.group
        if isinstance(group, ConsumerGroup) and member_id in group.members:
            self.fence(group, group.members[member_id], now_ms)

    def _await_revocation(self, member: ConsumerMember, now_ms: int) -> None:
        """A member that does not give up what it must in its rebalance timeout is fenced."""
        key = ("revocation", member.member_id)
        if member.phase is not MemberPhase.UNREVOKED:
            self.books.timers.cancel(key)
            return

        def look(at_ms: int) -> None:
            group = self.books.group
            if isinstance(group, ConsumerGroup):
                found = group.members.get(member.member_id)
                if found is not None and found.epoch == member.epoch:
                    self.fence(group, found, at_ms)

        self.books.timers.schedule(key, now_ms + member.rebalance_timeout_ms, look)

    def reload(self, group: ConsumerGroup, now_ms: int) -> None:
        """Another broker has the group from the log, where all of it is: only the timers begin anew."""
        self.books.timers.clear()
        for member in group.members.values():
            self.await_session(member.member_id, now_ms + self.books.settings.consumer_session_timeout_ms)
            self._await_revocation(member, now_ms)

    # -- leaving

    def _leave(self, request: ConsumerGroupHeartbeat, now_ms: int) -> Answer:
        group = self.books.group
        if not isinstance(group, ConsumerGroup):
            raise Refused(Error.GROUP_ID_NOT_FOUND)
        member = group.validate_member(request.member_id, request.instance_id)
        if request.member_epoch == AWAY:
            away = replace(member, epoch=AWAY, assigned=dict.fromkeys(member.assigned, 0), revoking={})
            group.members[member.member_id] = away
            self.finish(group, [records.current(group.group_id, away)], now_ms)
        else:
            self.fence(group, member, now_ms)
        return Answer(member_id=request.member_id, generation=request.member_epoch)

    def fence(self, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
        """A member is no more; where only members of the classic protocol are left, they go back to it."""
        written: list[Record] = []
        if group.all_classic_but(member) and self.books.settings.migrates:
            classic = downgrade(self.books, group, written, now_ms, leaving=member.member_id)
            self.books.journal.write(now_ms, *written)
            self.books.rebalance(classic).prepare(now_ms)
            return
        written += records.gone(group.group_id, member.member_id)
        del group.members[member.member_id]
        group.targets.pop(member.member_id, None)
        for kind in ("session", "revocation", "join", "sync"):
            self.books.timers.cancel((kind, member.member_id))
        group.epoch += 1
        group.metadata_hash = metadata_hash(group.members.values(), self.books.topics)
        written.append(records.group_epoch(group.group_id, group.epoch, group.metadata_hash))
        self.finish(group, written, now_ms)


def _validate(request: ConsumerGroupHeartbeat) -> None:
    """What the broker looks at before it looks at the group (``throwIfConsumerGroupHeartbeatRequestIsInvalid``)."""
    joins = request.member_epoch == 0
    incomplete = request.rebalance_timeout_ms == -1 or request.topics is None or request.owned != frozenset()
    if not request.member_id or request.member_epoch < AWAY or (joins and incomplete):
        raise Refused(Error.INVALID_REQUEST)
    if request.member_epoch == AWAY and request.instance_id is None:
        raise Refused(Error.INVALID_REQUEST)
    if request.assignor is not None and request.assignor not in ASSIGNORS:
        raise Refused(Error.UNSUPPORTED_ASSIGNOR)


def _validate_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeat) -> None:
    """The answer with the present epoch may have been lost: then the one before it will do."""
    if request.member_epoch == member.epoch:
        return
    lost = request.member_epoch == member.previous_epoch and request.member_epoch < member.epoch
    if not lost or request.owned is None or not request.owned <= set(member.assigned):
        raise Refused(Error.FENCED_MEMBER_EPOCH)


def member_of(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    *,
    joins: bool,
    classic: bool,
    written: list[Record],
) -> tuple[ConsumerMember, ConsumerMember | None]:
    """Who asks, and whom it replaces. Raises ``Refused`` for one who is unknown, fenced, or comes too early."""
    if not joins:
        return group.validate_member(member_id, instance_id), None
    holder = group.static_member(instance_id)
    if holder is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id), None
    if not classic and holder.classic is None and holder.epoch != AWAY:
        raise Refused(Error.UNRELEASED_INSTANCE_ID)
    back = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)
    written += records.replaced(group, holder, back)
    return back, holder


def members_with(group: ConsumerGroup, update: Update) -> dict[str, ConsumerMember]:
    """The members as they will be."""
    members = dict(group.members)
    if update.replaces is not None:
        members.pop(update.replaces.member_id, None)
    return {**members, update.after.member_id: update.after}


def settle(group: ConsumerGroup, update: Update, member: ConsumerMember) -> None:
    """The group with the member in it; who was replaced is gone, and its target is the new one's."""
    old = update.replaces
    if old is not None:
        del group.members[old.member_id]
        group.targets.setdefault(member.member_id, group.targets.pop(old.member_id, frozenset()))
    group.members[member.member_id] = member
