"""Which members of a history are one client that came back: its lineage, by what the log has of them.

The same instance id; or the same client id and host; or only the same client id, which is inferred: each takes the
place that was left first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from groupreplay.timeline.whatif.changes import Generation, RecordedMember, Replacement
from groupreplay.timeline.whatif.recorded import Recorded

_KEYS: Final[tuple[Callable[[RecordedMember], Hashable], ...]] = (
    lambda member: member.instance_id,
    lambda member: (member.client_id, member.client_host) if member.instance_id is None else None,
    lambda member: member.client_id if member.instance_id is None else None,
)


@dataclass(slots=True)
class Lineages:
    """The number of the client of each member id. ``by_client_id``: how many were matched by nothing else."""

    client_of: dict[str, int] = field(default_factory=dict)
    by_client_id: int = 0
    _clients: int = 0
    #: Clients without a member, the one that left first in front, with the last member of each.
    _vacant: dict[int, RecordedMember] = field(default_factory=dict)

    @property
    def clients(self) -> int:
        """How many there are."""
        return self._clients

    @classmethod
    def of(cls, recorded: Recorded) -> Lineages:
        """Those of a whole history."""
        lineages, members = cls(), dict[str, RecordedMember]()
        for change in recorded.changes:
            if isinstance(change, Replacement):
                if change.old_member_id in lineages.client_of:
                    number = lineages.client_of[change.old_member_id]
                    lineages.client_of[change.new_member_id] = number
                    if (member := members.pop(change.old_member_id, None)) is not None:
                        members[change.new_member_id] = member
                continue
            lineages._pass(members, change)
            members = dict(change.members)
        return lineages

    def _pass(self, before: dict[str, RecordedMember], change: Generation) -> None:
        for member_id, member in before.items():
            if member_id not in change.members:
                self._vacant[self.client_of[member_id]] = member
        arrivals = [member for member_id, member in change.members.items() if member_id not in self.client_of]
        for place, key in enumerate(_KEYS):
            for member in [*arrivals]:
                number = self._match(key, member)
                if number is not None:
                    self.client_of[member.member_id] = number
                    arrivals.remove(member)
                    self.by_client_id += place == len(_KEYS) - 1
        for member in arrivals:
            self.client_of[member.member_id] = self._clients
            self._clients += 1
        for member_id in change.members:
            self._vacant.pop(self.client_of[member_id], None)

    def _match(self, key: Callable[[RecordedMember], Hashable], member: RecordedMember) -> int | None:
        wanted = key(member)
        if wanted is None:
            return None
        number = next((number for number, other in self._vacant.items() if key(other) == wanted), None)
        if number is not None:
            del self._vacant[number]
        return number
