"""The consumer protocol (KIP-848): the ConsumerGroupHeartbeat request, and the timeouts of members.

Makes the decisions of Kafka's ``GroupMetadataManager`` (4.3.1, and 4.4.0 with ``Settings.since_4_4``) and writes its
records in its order. `mixed` handles members of the classic protocol in a consumer group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from groupreplay.codecs.kafka_terms import MemberPhase, Phase, java_hash
from groupreplay.coordinator.classic.rebalance import Rebalance
from groupreplay.coordinator.consumer import records
from groupreplay.coordinator.consumer.assignors import Target
from groupreplay.coordinator.consumer.consumer_group import (
    AWAY,
    LEFT,
    ConsumerGroup,
    ConsumerMember,
    metadata_hash,
    topic_ids,
)
from groupreplay.coordinator.consumer.membership import (
    Reconciliation,
    apply_records,
    changes_assignor,
    check_size,
    choose_assignor,
    find_member,
    known_targets,
    members_after,
    members_with,
    settle_empty,
    store_member,
    validate_epoch,
)
from groupreplay.coordinator.consumer.records import (
    ASSIGNOR,
    REGEX,
    SUBSCRIBED,
    TOPICS,
    MemberUpdate,
    trace_assignment,
    trace_epoch,
    trace_reconciliation,
    trace_update,
)
from groupreplay.coordinator.consumer.subscriptions import ResolvedRegex, resolve
from groupreplay.coordinator.coordinator_state import CoordinatorState
from groupreplay.coordinator.java_maps import HashOrder
from groupreplay.coordinator.migration import (
    downgrade,
    empty_tombstones,
    new_consumer_group,
    trace_downgrade,
    upgrade,
)
from groupreplay.coordinator.requests import (
    Answer,
    ConsumerGroupHeartbeat,
    Error,
    Record,
    Refused,
    TopicIdPartition,
)


@dataclass(frozen=True, slots=True)
class ConsumerHandler:
    """Handles the requests of the members of a consumer group."""

    coordinator: CoordinatorState

    def heartbeat(self, request: ConsumerGroupHeartbeat, now_ms: int) -> Answer:
        """Handle a ConsumerGroupHeartbeat. Raises ``Refused``."""
        self.coordinator.trace.branch("consumerGroupHeartbeat")
        if request.member_epoch in (LEFT, AWAY):
            return self._leave(request, now_ms)
        joins = request.member_epoch == 0
        written: list[Record] = []
        group = self._group(written, now_ms, joins=joins)
        check_size(group, self.coordinator.settings, request.member_id, request.instance_id)
        update = self._update(group, request, written)
        self.coordinator.group, self.coordinator.forgotten = group, None
        member = self.apply(group, update, request.owned, written, now_ms)
        self.await_request(
            "session", member.member_id, now_ms + self.coordinator.settings.consumer_session_timeout_ms
        )
        self.finish(group, written, now_ms)
        subscribes = request.topics is not None or request.topic_regex is not None
        complete = request.rebalance_timeout_ms != -1 and subscribes and request.owned is not None
        moved = set(update.before.assigned) != set(member.assigned)
        return Answer(
            member_id=member.member_id,
            generation=member.epoch,
            assigned=frozenset(member.assigned) if joins or complete or moved else None,
        )

    def _group(self, written: list[Record], now_ms: int, *, joins: bool) -> ConsumerGroup:
        group = self.coordinator.group
        if isinstance(group, ConsumerGroup):
            return group
        if not joins:
            raise Refused(Error.GROUP_ID_NOT_FOUND)
        if group is None or group.state is Phase.EMPTY:
            if group is not None:
                written += empty_tombstones(group)
                says = "[GroupId %s] Converted the empty classic group to a consumer group."
                self.coordinator.trace.branch("maybeDeleteEmptyClassicGroup", says, group.group_id)
            return new_consumer_group(self.coordinator, group)
        upgraded = upgrade(self.coordinator, group, written)
        says = "[GroupId %s] Converted the classic group to a consumer group."
        self.coordinator.trace.branch("convertToConsumerGroup", says, group.group_id)
        for member in upgraded.members.values():
            assert member.classic is not None
            self.await_request("session", member.member_id, now_ms + member.classic.session_timeout_ms)
        return upgraded

    def _update(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeat, written: list[Record]
    ) -> MemberUpdate:
        joins = request.member_epoch == 0
        before, replaces = find_member(
            group, request.member_id, request.instance_id, joins=joins, classic=False, written=written
        )
        if not joins:
            validate_epoch(before, request)
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
            topic_regex=before.topic_regex if request.topic_regex is None else request.topic_regex,
            assignor=before.assignor if request.assignor is None else request.assignor,
            classic=None,
        )
        update = MemberUpdate(before=before, after=after, replaces=replaces)
        update.regex.is_new(group)
        return update

    # -- one step of a member's reconciliation, also for members of the classic protocol

    def apply(
        self,
        group: ConsumerGroup,
        update: MemberUpdate,
        owned: frozenset[TopicIdPartition] | None,
        written: list[Record],
        now_ms: int,
    ) -> ConsumerMember:
        """Store the changed member: group epoch, target assignments and its own assignment, each if it changes."""
        group.to_resolve = update.regex.to_resolve(
            group,
            now_ms=now_ms,
            interval_ms=self.coordinator.settings.consumer_regex_refresh_interval_ms,
            newest_topic=self.coordinator.newest_topic
            if group.regex_members or update.after.topic_regex
            else -1,
        )
        refreshed = self.write_metadata(group, update, written)
        target = self._assign(group, update, written, now_ms, refreshed=refreshed)
        member = self.reconcile(group, update, target, owned, written, now_ms)
        store_member(group, update, member, written)
        group.note_topics(self.coordinator.topics)
        return member

    def write_metadata(self, group: ConsumerGroup, update: MemberUpdate, written: list[Record]) -> bool:
        """Write the member's metadata if they changed, and the new group epoch if the change causes one.

        Returns whether the group's subscriptions were looked up anew.
        """
        trace_update(self.coordinator.trace, group, update)
        if update.after != update.before:
            written.append(records.member_metadata(group.group_id, update.after))
        changed = update.names_changed or update.regex.changes_topics(group)
        reason = SUBSCRIBED
        if update.after.classic is not None:
            changed = update.subscription_changed
        elif not changed and changes_assignor(group, update, self.coordinator.settings):
            changed, reason = True, ASSIGNOR
        dropped = update.before.topic_regex if update.regex.drops(group) else None
        if dropped is not None:
            written.append(records.regular_expression(group.group_id, dropped, None))
        topics = self.coordinator.topics
        refreshed = changed or group.has_expired(topics)
        if refreshed:
            resolved = [regex for expression, regex in group.regexes.items() if expression != dropped]
            digest = metadata_hash(members_after(group, update), topics, resolved)
            if changed or digest != group.metadata_hash:
                self._raise_epoch(group, digest, reason if changed else TOPICS, written)
            group.is_refreshed = True
        return refreshed

    def _raise_epoch(self, group: ConsumerGroup, digest: int, reason: str, written: list[Record]) -> None:
        group.epoch += 1
        group.metadata_hash = digest
        trace_epoch(self.coordinator.trace, group, reason)
        written.append(records.group_metadata(group.group_id, group.epoch, digest))

    def _assign(
        self,
        group: ConsumerGroup,
        update: MemberUpdate,
        written: list[Record],
        now_ms: int,
        *,
        refreshed: bool,
    ) -> Target:
        """The member's target assignment, computed anew for a new epoch unless the assignment interval delays it."""
        interval_ms = self.coordinator.settings.consumer_assignment_interval_ms
        next_ms = group.target_timestamp_ms + interval_ms if group.target_timestamp_ms else now_ms
        if group.target_epoch >= group.epoch:
            return group.target_of(update.after)
        first = self.coordinator.settings.consumer_assignors[0]
        chosen = choose_assignor(group, update, first)
        if now_ms < next_ms:
            trace_assignment(self.coordinator.trace, group, chosen, None, next_ms)
            return group.target_of(update.after)
        members = members_with(group, update, self.coordinator.settings)
        alike = group.is_homogeneous(group.members.values()) if group.alike is None else group.alike
        if refreshed:
            dropped = update.before.topic_regex if update.regex.drops(group) else ""
            alike = group.is_homogeneous(members.values(), dropped)
        targets = group.assign(members, self.coordinator.topics, chosen[0], homogeneous=alike)
        trace_assignment(self.coordinator.trace, group, chosen, targets, None)
        known = known_targets(group, update, self.coordinator.settings)
        for name, partitions in targets.items():
            if known.get(name) != partitions:
                written.append(records.target_assignment(group.group_id, name, partitions))
        group.targets = targets
        group.target_epoch, group.target_timestamp_ms = group.epoch, now_ms
        written.append(records.target_assignment_metadata(group.group_id, group.epoch, now_ms))
        return targets[update.after.member_id]

    def reconcile(
        self,
        group: ConsumerGroup,
        update: MemberUpdate,
        target: Target,
        owned: frozenset[TopicIdPartition] | None,
        written: list[Record],
        now_ms: int,
    ) -> ConsumerMember:
        """Move a member one step towards its target assignment."""
        member = update.after
        if not update.subscription_changed and member.is_reconciled_to(group.target_epoch):
            return member
        moved = Reconciliation(
            target_epoch=group.target_epoch,
            target=target,
            subscribed=topic_ids(group.topics_of(member), self.coordinator.topics),
            subscribes=bool(group.topics_of(member)),
            taken=group.taken(),
            owned=owned,
            subscription_changed=update.subscription_changed,
        ).step(member)
        if moved != member:
            trace_reconciliation(self.coordinator.trace, member, moved, target)
            written.append(records.current_assignment(group.group_id, moved))
            if moved.classic is None:
                self._await_revocation(moved, now_ms)
        return moved

    def finish(self, group: ConsumerGroup, written: list[Record], now_ms: int) -> None:
        """Write the operation; without records the group has not changed."""
        if written:
            self.coordinator.journal.write(now_ms, *written)
            group.transition_to(group.state, now_ms)
        if group.to_resolve:
            self._resolve(group, now_ms)

    def _resolve(self, group: ConsumerGroup, now_ms: int) -> None:
        """Write the topics of regular expressions, and a new group epoch if they have changed."""
        expressions, group.to_resolve = group.to_resolve, ()
        written: list[Record] = []
        changed = False
        for expression in expressions:
            if expression not in group.regex_members:
                continue
            topics = resolve(expression, self.coordinator.topics)
            before = group.regexes.get(expression)
            changed |= topics != (frozenset() if before is None else before.topics)
            resolved = ResolvedRegex(topics, self.coordinator.topics_version, now_ms)
            written.append(records.regular_expression(group.group_id, expression, resolved))
        apply_records(group, written, {})
        digest = group.subscribed_hash(self.coordinator.topics)
        if changed or digest != group.metadata_hash:
            self._raise_epoch(group, digest, REGEX, written)
            group.is_refreshed = True
        group.note_topics(self.coordinator.topics)
        self.finish(group, written, now_ms)

    # -- time

    def await_request(self, kind: str, member_id: str, until_ms: int) -> None:
        """Fence the member at this time unless the timer of this kind is cancelled or set again before."""
        self.coordinator.timers.schedule(
            _timer(kind, member_id), until_ms, lambda at_ms: self._expire(member_id, at_ms)
        )

    def _expire(self, member_id: str, now_ms: int) -> None:
        group = self.coordinator.group
        if isinstance(group, ConsumerGroup) and member_id in group.members:
            self.fence(group, [group.members[member_id]], now_ms, "fenced: its timeout has passed")

    def _await_revocation(self, member: ConsumerMember, now_ms: int) -> None:
        """Fence the member unless it revokes its partitions within its rebalance timeout."""
        key = _timer("revocation", member.member_id)
        if member.phase is not MemberPhase.UNREVOKED:
            self.coordinator.timers.cancel(key)
            return

        def fence_unless_revoked(at_ms: int) -> None:
            group = self.coordinator.group
            if isinstance(group, ConsumerGroup):
                present = group.members.get(member.member_id)
                if present is not None and present.epoch == member.epoch:
                    took = f"from epoch {member.epoch} within {member.rebalance_timeout_ms}ms"
                    self.fence(group, [present], at_ms, f"fenced: it failed to transition {took}")

        self.coordinator.timers.schedule(key, now_ms + member.rebalance_timeout_ms, fence_unless_revoked)

    def reload(self, group: ConsumerGroup, now_ms: int) -> None:
        """Load the group in another broker. The log has all of it; only the timers restart."""
        group.is_refreshed = False
        self.coordinator.timers.clear()
        for member in group.members.values():
            self.await_request(
                "session", member.member_id, now_ms + self.coordinator.settings.consumer_session_timeout_ms
            )
            self._await_revocation(member, now_ms)

    # -- leaving

    def _leave(self, request: ConsumerGroupHeartbeat, now_ms: int) -> Answer:
        group = self.coordinator.group
        if not isinstance(group, ConsumerGroup):
            raise Refused(Error.GROUP_ID_NOT_FOUND)
        member = group.validate_member(request.member_id, request.instance_id)
        if request.member_epoch == AWAY:
            away = replace(member, epoch=AWAY, assigned=dict.fromkeys(member.assigned, 0), revoking={})
            written = [records.current_assignment(group.group_id, away)]
            apply_records(group, written, {away.member_id: away})
            trace = self.coordinator.trace
            trace.member("away", member.member_id, member.instance_id, "temporarily left the consumer group")
            self.finish(group, written, now_ms)
        else:
            self.fence(group, [member], now_ms, "left the consumer group")
        return Answer(member_id=request.member_id, generation=request.member_epoch)

    def fence(
        self, group: ConsumerGroup, members: Sequence[ConsumerMember], now_ms: int, reason: str
    ) -> None:
        """Remove members. If only members of the classic protocol are left, downgrade the group."""
        for member in members:
            self.coordinator.trace.member("removed", member.member_id, member.instance_id, reason)
        written: list[Record] = []
        settings = self.coordinator.settings
        fits = len(group.members) - len(members) <= settings.max_size
        if group.all_classic_but(*members) and settings.downgrades and fits:
            gone = [member.member_id for member in members]
            classic = downgrade(self.coordinator, group, written, now_ms, leaving=gone)
            self.coordinator.journal.write(now_ms, *written)
            says = f"Downgrade group {group.group_id} from consumer to classic for member leaving."
            Rebalance(self.coordinator, classic).prepare(now_ms, says)
            trace_downgrade(self.coordinator)
            return
        group.is_refreshed = not group.has_expired(self.coordinator.topics)
        for member in members:
            written += records.member_tombstones(group.group_id, member.member_id)
        counts = Counter(member.topic_regex for member in members if member.topic_regex)
        for expression in HashOrder(java_hash, counts):
            if group.regex_members.get(expression) == counts[expression]:
                written.append(records.regular_expression(group.group_id, expression, None))
        apply_records(group, written, {})
        for member in members:
            group.targets.pop(member.member_id, None)
            for kind in ("session", "revocation", "join", "sync"):
                self.coordinator.timers.cancel(_timer(kind, member.member_id))
        digest = group.subscribed_hash(self.coordinator.topics)
        removed = "a member was removed" if len(members) == 1 else f"{len(members)} members were removed"
        self._raise_epoch(group, digest, removed, written)
        if group.is_empty and settings.since_4_4:
            written.append(settle_empty(group))
        group.note_topics(self.coordinator.topics)
        self.finish(group, written, now_ms)


def _timer(kind: str, member_id: str) -> tuple[str, str, str]:
    return kind, member_id, "consumer"
