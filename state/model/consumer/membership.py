"""The members of a consumer group as a request finds and changes them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from groupreplay.state.model.consumer import records
from groupreplay.state.model.consumer.group import AWAY, ConsumerGroup, ConsumerMember
from groupreplay.state.model.requests import Error, Record, Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberUpdate:
    """A member before and after a request; ``replaces`` is the static member whose instance id it takes over."""

    before: ConsumerMember
    after: ConsumerMember
    replaces: ConsumerMember | None = None

    @property
    def subscription_changed(self) -> bool:
        """Whether the request changes the subscribed topics."""
        return self.before.topics != self.after.topics


def find_member(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    *,
    joins: bool,
    classic: bool,
    written: list[Record],
) -> tuple[ConsumerMember, ConsumerMember | None]:
    """The member that sent the request, and the static member that it replaces.

    Raises ``Refused`` for a member that is unknown or fenced, and for an instance id that is still in use.
    """
    if not joins:
        return group.validate_member(member_id, instance_id), None
    holder = group.static_member(instance_id)
    if holder is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id), None
    if not classic and holder.classic is None and holder.epoch != AWAY:
        raise Refused(Error.UNRELEASED_INSTANCE_ID)
    back = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)
    written += records.member_replacement(group, holder, back)
    return back, holder


def members_with(group: ConsumerGroup, update: MemberUpdate) -> dict[str, ConsumerMember]:
    """The group's members after the update."""
    members = dict(group.members)
    if update.replaces is not None:
        members.pop(update.replaces.member_id, None)
    return {**members, update.after.member_id: update.after}


def store_member(group: ConsumerGroup, update: MemberUpdate, member: ConsumerMember) -> None:
    """Store the member; a member that it replaces is removed and leaves it its target assignment."""
    old = update.replaces
    if old is not None:
        del group.members[old.member_id]
        group.targets.setdefault(member.member_id, group.targets.pop(old.member_id, frozenset()))
    group.members[member.member_id] = member
