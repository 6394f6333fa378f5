"""The shapes of the measured topics: the number of groups, their partitions, and how often they write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True)
class Shape:
    """``groups`` simple groups commit ``partitions`` partitions ``commits`` times, one request each time.

    With ``generations``, that many rebalances of groups with two members instead, evenly over the groups.
    """

    name: str
    groups: int
    partitions: int
    commits: int = 0
    generations: int = 0

    @property
    def records(self) -> int:
        """The number of records that the coordinator writes, without those at the start of the groups."""
        return self.groups * self.partitions * self.commits + self.generations

    def scaled(self, factor: float) -> Shape:
        """The same with more or fewer groups."""
        return replace(
            self,
            groups=max(1, round(self.groups * factor)),
            generations=round(self.generations * factor),
        )


_SHAPES: Final = (
    Shape("steady", groups=1_000, partitions=50, commits=40),
    Shape("wide", groups=5_000, partitions=200, commits=1),
    Shape("many", groups=20_000, partitions=5, commits=2),
    Shape("churn", groups=500, partitions=20, generations=10_000),
)
SHAPES: Final[Mapping[str, Shape]] = {shape.name: shape for shape in _SHAPES}
