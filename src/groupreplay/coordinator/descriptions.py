"""A group as DescribeGroups reports it, which is what a prober sees."""

from __future__ import annotations

from dataclasses import dataclass

from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.classic.group import ClassicGroup
from groupreplay.coordinator.requests import Error


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """A member as DescribeGroups reports it; metadata and assignment are empty unless the group is Stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """The group as DescribeGroups reports it; an unknown group is Dead. With an ``error`` nothing is known of it."""

    state: Phase
    error: Error = Error.NONE
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


def described(group: ClassicGroup) -> DescribedGroup:
    """A classic group's part of the answer."""
    stable = group.state is Phase.STABLE
    return DescribedGroup(
        state=group.state,
        protocol_type=group.protocol_type or "",
        protocol=group.protocol or "" if stable else "",
        members=tuple(
            DescribedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=member.metadata(group.protocol) if stable else b"",
                assignment=member.assignment if stable else b"",
            )
            for member in group.members.values()
        ),
    )
