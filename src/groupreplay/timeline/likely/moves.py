"""How many partitions an incremental assignor takes from members that stay.

``cooperative-sticky`` and the assignors of KIP-848 leave a member what it has up to an even share, and take the surplus
for members that have less. So the numbers follow from who came and who went alone, where all members may have all
partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator


def moves(generations: Iterable[Collection[str]], partitions: int) -> Iterator[tuple[int, int]]:
    """Of each generation but the first how many partitions it takes from members that stay, at least and at most.

    ``generations``: the ids of the members of each. Several members that come and go at once may do so in two
    rebalances of another assignor: who comes before another one goes takes more.
    """
    shares = dict[str, int]()
    for number, members in enumerate(generations):
        joined = shares | dict.fromkeys(sorted({*members} - shares.keys()), 0)
        most = _levelled(joined.copy(), partitions)
        shares = {member_id: share for member_id, share in joined.items() if member_id in members}
        least = _levelled(shares, partitions)
        if number:
            yield least, max(least, most)


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
