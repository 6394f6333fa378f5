"""The rhythm of a member's commits: one that comes at the usual time, and shows when its process began.

Members commit before they join as well, which is no part of the rhythm: the time before the end of a join phase is left
out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from groupreplay.codecs.kafka_terms import DEFAULT_HEARTBEAT_INTERVAL_MS
from groupreplay.timeline.whatif.changes import Generation, Replacement
from groupreplay.timeline.whatif.recorded import Recorded

#: So many generations of a member are looked at.
_GENERATIONS: Final = 5
#: A regular commit is sought within so many usual times, which may differ by this share.
_WITHIN: Final = 4
_SLACK: Final = 0.02


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
