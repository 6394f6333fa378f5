"""Which members of a history are one client that came back, its lineage, and the rhythm of a member's commits.

By what the log has of them: the same instance id; or the same client id and host; or only the same client id, which
is inferred: each takes the place that was left first. Commits have a rhythm: one that comes at the usual time shows
when its process began. Members commit before they join as well, which is no part of it: the time before the end of a
join phase is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from groupreplay.codecs.kafka_terms import DEFAULT_HEARTBEAT_INTERVAL_MS
from groupreplay.timeline.whatif.changes import Generation, RecordedMember, Replacement
from groupreplay.timeline.whatif.recorded import Recorded

_KEYS: Final[tuple[Callable[[RecordedMember], Hashable], ...]] = (
    lambda member: member.instance_id,
    lambda member: (member.client_id, member.client_host) if member.instance_id is None else None,
    lambda member: member.client_id if member.instance_id is None else None,
)
#: So many generations of a member are looked at.
_GENERATIONS: Final = 5
#: A regular commit is sought within so many usual times, which may differ by this share.
_WITHIN: Final = 4
_SLACK: Final = 0.02


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
                    lineages.client_of[change.new_member_id] = lineages.client_of[change.old_member_id]
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


def regular_commit_ms(recorded: Recorded, member_id: str, since_ms: int) -> int | None:
    """The first commit from a generation on that another one follows after the usual time.

    Where a member was there for too short a time, its first commit that belongs to no join; None: there is none.
    """
    usual_ms = recorded.commits.interval_ms
    slack_ms = max(usual_ms * _SLACK, 2)
    times = list[int]()
    for number, (generation, until_ms) in enumerate(_generations(recorded, member_id, since_ms)):
        places = generation.members[member_id].places
        latest_ms = min(until_ms, generation.at_ms + _WITHIN * usual_ms)
        times += recorded.commits.between(places, generation.at_ms, latest_ms)
        pairs = (one for one, other in combinations(times, 2) if abs(other - one - usual_ms) <= slack_ms)
        if (regular_ms := next(pairs, None)) is not None:
            return regular_ms
        if number >= _GENERATIONS:
            break
    return next(iter(times), None)


def _generations(recorded: Recorded, member_id: str, since_ms: int) -> Iterator[tuple[Generation, int]]:
    """The generations of a member, each with the time before which nobody joins the next one."""
    changes = [change for change in recorded.changes if change.at_ms >= since_ms]
    for number, change in enumerate(changes):
        if isinstance(change, Replacement):
            if change.old_member_id == member_id:
                return
            continue
        if member_id not in change.members:
            return
        later = (each for each in changes[number + 1 :] if isinstance(each, Generation))
        after = next(later, None)
        # Members join within one heartbeat interval after a rebalance began.
        until_ms = (
            recorded.end_ms
            if after is None
            else after.joined_ms - (after.silent_ms or 0) - DEFAULT_HEARTBEAT_INTERVAL_MS
        )
        yield change, until_ms
