"""A classic consumer group of pods that are restarted, scaled and killed, as the records of its coordinator."""

from __future__ import annotations

from dataclasses import dataclass, field

from groupreplay.codecs import MemberMetadata
from support.histories.builders import Raw, asked_for, commit, generation, member

MINUTE = 60_000
START = 1_000 * MINUTE


@dataclass
class Deployment:
    """A classic consumer group of pods, and the records its coordinator writes.

    ``follows``: rounds behind each change, in which a cooperative assignor hands on what was taken away.
    """

    size: int
    static: bool = False
    follows: int = 0
    partitions: int = 20
    at: int = START
    number: int = 0
    offset: int = 0
    starts: int = 0
    pods: dict[str, str] = field(default_factory=dict)
    log: list[Raw] = field(default_factory=list)

    def begin(self) -> Deployment:
        """All pods are there from one round on; what comes later comes long after that."""
        self.log.append(asked_for(at=self.at))
        for place in range(self.size):
            self.take(f"pod-{place}")
        self.round()
        self.work(5)
        self.at += 60 * MINUTE
        return self

    def take(self, place: str) -> None:
        """A process begins at a place."""
        self.starts += 1
        self.pods[place] = f"id-{self.starts}"

    def members(self) -> list[MemberMetadata]:
        """The members with their partitions dealt out."""
        places = sorted(self.pods)
        return [
            member(
                self.pods[place],
                range(index, self.partitions, len(places)),
                client_id="app" if not self.static else place,
                host=f"/{place}",
                instance_id=place if self.static else None,
            )
            for index, place in enumerate(places)
        ]

    def write(self) -> None:
        """The group's record as it is."""
        self.at += 1_000
        self.log.append(generation(self.number, *self.members(), at=self.at))

    def round(self, skipped: int = 0) -> None:
        """A rebalance, and those that follow from it."""
        for _ in range(1 + (self.follows if len(self.pods) > 1 else 0)):
            self.number += 1 + skipped
            self.write()

    def work(self, minutes: int) -> None:
        """Commits of every partition, once a minute."""
        for _ in range(minutes):
            self.at += MINUTE
            self.offset += 1
            self.log += [commit("t", number, self.offset, at=self.at) for number in range(self.partitions)]

    def restart(self, place: str, *, new_place: str | None = None, killed: bool = False) -> None:
        """A pod goes, and another process comes, at its place or at a new one."""
        del self.pods[place]
        if self.static:
            self.take(place)
            self.write()
            return
        if killed:
            self.at += 45_000
        if self.pods:
            self.round()
        self.at += 5_000
        self.take(new_place or place)
        self.round()
