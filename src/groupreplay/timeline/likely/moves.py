"""How many partitions an incremental assignor takes from members that stay.

``cooperative-sticky`` and the assignors of KIP-848 leave a member what it has up to an even share, and take the surplus
for members that have less. So the numbers follow from who came and who went alone, where all members may have all
partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol


class Change(Protocol):
    """A generation: who came and who went."""

    @property
    def came(self) -> Collection[str]:
        """Ids of members."""

    @property
    def went(self) -> Collection[str]:
        """Ids of members."""


def moves(members: Collection[str], changes: Iterable[Change], partitions: int) -> Iterator[int]:
    """Of each change how many partitions it takes from members that stay; ``members``: before the first one."""
    shares = dict.fromkeys(sorted(members), 0)
    _levelled(shares, partitions)
    for change in changes:
        for member_id in change.went:
            shares.pop(member_id, None)
        shares |= dict.fromkeys(sorted(change.came), 0)
        yield _levelled(shares, partitions)


def _levelled(shares: dict[str, int], partitions: int) -> int:
    """Gives each member an even share; returns what that takes from some. Who has most may keep one more."""
    if not shares:
        return 0
    least, more = divmod(partitions, len(shares))
    taken = 0
    for place, member_id in enumerate(sorted(shares, key=lambda each: -shares[each])):
        quota = least + (place < more)
        taken += max(shares[member_id] - quota, 0)
        shares[member_id] = quota
    return taken
