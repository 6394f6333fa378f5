"""How far the members of a simulated group have read, and who commits it.

Knows what a script says of offsets; must not know members, requests or when somebody commits (`simulated_group`).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from groupreplay.state.client_acts import Committer, Script
from groupreplay.state.coordinator_requests import Commit

#: Where commits are irregular: how many times the usual distance may be.
_LONGEST: Final = 240
#: The share of transactions that fail.
_FAILING: Final = 0.05


@dataclass(slots=True, kw_only=True)
class Reading:
    """The partitions of one topic, read from ``begin_ms`` on."""

    script: Script
    topic: str
    begin_ms: int
    numbers: random.Random
    #: The next record of each partition.
    offsets: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.offsets = [0] * self.script.partitions

    def pause_ms(self) -> int:
        """How long it takes until there is something to commit again; 0 where commits are regular."""
        if not self.script.irregular:
            return 0
        return int(_LONGEST ** self.numbers.random() * self.script.commit_interval_ms)

    def positions(self, owned: Sequence[int]) -> dict[int, int]:
        """How far these partitions are read."""
        return {partition: self.offsets[partition] for partition in owned}

    def read_on(self, owned: Sequence[int], now_ms: int) -> tuple[Commit, ...]:
        """Read on in these partitions, or find nothing new; what there is to commit."""
        if self.numbers.random() >= self.script.repeats:
            poisoned_ms = self.script.poisoned_ms
            poisoned = poisoned_ms is not None and now_ms >= self.begin_ms + poisoned_ms
            for partition in owned:
                if partition or not poisoned:
                    self.offsets[partition] += self.numbers.randrange(1, 500)
        return tuple(
            Commit(topic=self.topic, partition=partition, offset=self.offsets[partition])
            for partition in owned
        )

    def rewind(self, owned: Sequence[int], before: Mapping[int, int]) -> None:
        """What was read in a transaction that has failed is read again, by those who still own it."""
        for partition in owned:
            self.offsets[partition] = before.get(partition, self.offsets[partition])

    def producer(self) -> int | None:
        """The id of the producer that commits; None where the consumer does so itself."""
        committer = self.script.committer
        itself = committer is Committer.CONSUMERS or (
            committer is Committer.BOTH and self.numbers.random() < 1 / 2
        )
        return None if itself else self.numbers.getrandbits(40)

    def succeeds(self) -> bool:
        """Whether a transaction will be committed; else it is aborted."""
        return self.numbers.random() >= _FAILING
