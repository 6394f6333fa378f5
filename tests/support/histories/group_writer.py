"""Writes the records of groups that the coordinator model does not have.

These are share groups, streams groups, and consumer groups with subscriptions by regular expression or of brokers
before Kafka 4.3. The writer keeps the state, the members and the edges of operations to compare a replay with. There
are no timers and no refused requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from support.histories.builders import Raw, commit, no_offset
from support.histories.group_records import Consumer, Described, HeldPartitions, Share, Streams
from support.histories.modern_builders import (
    STABLE,
    UNRELEASED,
    UNREVOKED,
    operation,
    regex_tombstone,
    resolved,
)

#: Events that follow from the states at the edges of operations alone.
EDGE_EVENTS = ("group.created", "group.emptied", "group.deleted")
WRITERS: dict[str, Consumer] = {"consumer": Consumer(), "share": Share(), "streams": Streams()}


@dataclass
class GroupWriter:
    """One group of a ``kind``; ``at`` is the time.

    ``first_epoch`` is 2 since Kafka 4.3 and 1 before. ``interval``: a join does not assign, the next heartbeat does.
    ``edges`` has the number of records up to the end of each operation, and the state there; ``edge_events`` counts the
    events that follow from these states.
    """

    kind: str = "consumer"
    first_epoch: int = 2
    interval: bool = False
    partitions: int = 3
    at: int = 1_000
    log: list[Raw] = field(default_factory=list)
    edges: list[tuple[int, str]] = field(default_factory=list)
    edge_events: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EDGE_EVENTS, 0))
    exists: bool = False
    epoch: int = 0
    target_epoch: int = 0
    metadata_hash: int = 7
    members: dict[str, Described] = field(default_factory=dict)
    holds: dict[str, HeldPartitions] = field(default_factory=dict)
    targets: dict[str, tuple[int, ...]] = field(default_factory=dict)
    regexes: set[str] = field(default_factory=set)
    commits: set[int] = field(default_factory=set)
    _edge: tuple[bool, bool] = (False, False)

    @property
    def write(self) -> Consumer:
        """The records of the group's kind."""
        return WRITERS[self.kind]

    def state(self) -> str:
        """The state as DescribeGroups reports it."""
        if not self.exists:
            return "Dead" if not self.commits else "Empty"
        if not self.members:
            return "Empty"
        if self.kind == "share":
            return "Stable"
        if self.epoch > self.target_epoch:
            return "Assigning"
        settled = all(has.state == STABLE and has.epoch == self.target_epoch for has in self.holds.values())
        return "Stable" if settled else "Reconciling"

    def _done(self, records: Iterable[Raw]) -> None:
        self.log += operation(self.at, *records)
        self.edges.append((len(self.log), self.state()))
        existed, peopled = self._edge
        self.edge_events["group.created"] += self.exists and not existed
        self.edge_events["group.deleted"] += existed and not self.exists
        self.edge_events["group.emptied"] += peopled and self.exists and not self.members
        self._edge = (self.exists, bool(self.members))
        self.at += 250

    def wait(self, ms: int) -> None:
        """Nothing happens for a while."""
        self.at += ms

    # -- the group itself

    def _bump(self) -> Raw:
        self.epoch += 1
        return self.write.group_epoch(self.epoch, self.metadata_hash)

    def _assign(self) -> list[Raw]:
        """Assign the partitions round robin; only changed targets are written, then the epoch of the assignment."""
        names = sorted(self.members)
        shared = self.kind == "share"
        targets = {
            name: tuple(number for number in range(self.partitions) if shared or number % len(names) == place)
            for place, name in enumerate(names)
        }
        changed = [name for name in names if self.targets.get(name, ()) != targets[name]]
        self.targets, self.target_epoch = targets, self.epoch
        return [
            *(self.write.target(name, targets[name]) for name in changed),
            self.write.target_epoch(self.target_epoch),
        ]

    def _reconcile(self, name: str) -> list[Raw]:
        """One step of ``CurrentAssignmentBuilder``: revoke, then take free partitions."""
        has = self.holds[name]
        target = set(self.targets.get(name, ()))
        surplus = set(has.assigned) - target
        if has.epoch > 0 and surplus and self.kind != "share":
            kept = tuple(sorted(target & set(has.assigned)))
            now = replace(has, state=UNREVOKED, assigned=kept, revoking=tuple(sorted(surplus)))
        else:
            taken = {
                number
                for other, theirs in self.holds.items()
                if other != name and self.kind != "share"
                for number in (*theirs.assigned, *theirs.revoking)
            }
            now = HeldPartitions(
                epoch=self.target_epoch,
                previous=has.epoch,
                state=UNRELEASED if target & taken else STABLE,
                assigned=tuple(sorted(target - taken)),
            )
        self.holds[name] = now
        return [] if now == has else [self.write.current(name, now)]

    def _settled(self, name: str) -> bool:
        has = self.holds[name]
        return has.epoch == self.target_epoch and has.state == STABLE

    def join(self, name: str, *, regex: str = "", topics: tuple[str, ...] = ("t",)) -> None:
        """A new member's first heartbeat; regular expressions are for consumer groups."""
        regex = regex if self.kind == "consumer" else ""
        if name in self.members:
            return
        begin: list[Raw] = []
        if not self.exists:
            self.exists = True
            # No record has the epoch with which a group begins.
            self.epoch = self.target_epoch = self.first_epoch - 1
        if not self.members:
            begin = self.write.with_first_member()
        new = bool(regex) and regex not in self.regexes
        # Before 4.3 a group begins at epoch 0, at which nothing is written of a member that waits.
        waits = new and self.target_epoch > 0
        self._done(self._joined(name, regex, () if regex else topics, begin, waits=waits))
        if new:
            self.regexes.add(regex)
            self._done([resolved(regex, "t", "t2"), self._bump()])

    def _joined(
        self, name: str, regex: str, topics: tuple[str, ...], begin: list[Raw], *, waits: bool = False
    ) -> list[Raw]:
        """``waits``: until its regular expression is resolved, the member changes nothing."""
        told = Described(name, f"client-{name}", regex=regex, topics=topics)
        self.members[name], self.holds[name] = told, HeldPartitions(epoch=0)
        records = [self.write.described(told), *begin]
        if waits:
            return [*records, *self._reconcile(name)]
        records.append(self._bump())
        if not self.interval:
            records += self._assign()
        return [*records, *self._reconcile(name)]

    def heartbeat(self, name: str) -> None:
        """A member's heartbeat: it revokes what it has to, or takes what is free."""
        if name not in self.members:
            return
        records = self._assign() if self.epoch > self.target_epoch else []
        if self.holds[name].state == UNREVOKED:
            self.holds[name] = replace(self.holds[name], revoking=())
        if not self._settled(name):
            records += self._reconcile(name)
        if records:
            self._done(records)

    def settle(self) -> None:
        """Heartbeats of all members until their assignments no longer change."""
        for _ in range(4):
            for name in sorted(self.members):
                self.heartbeat(name)

    def leave(self, name: str, *, fenced: bool = False) -> None:
        """A member leaves, or is fenced at its rebalance timeout."""
        if name not in self.members:
            return
        if fenced:
            self.wait(30_000 - 250)
        told = self.members.pop(name)
        self.holds.pop(name)
        self.targets.pop(name, None)
        unused = told.regex and told.regex not in {one.regex for one in self.members.values()}
        regex = [regex_tombstone(told.regex)] if unused else []
        self.regexes -= {told.regex} if unused else set()
        self._done([*self.write.left(name), *regex, self._bump()])

    def move(self, name: str) -> None:
        """A member's heartbeat from another address: new metadata, the same epoch."""
        told = self.members.get(name)
        if told is None:
            return
        self.members[name] = replace(told, host=told.host + "x")
        self._done([self.write.described(self.members[name])])

    def grow(self, name: str) -> None:
        """The topic has one more partition, and the coordinator notices at a member's heartbeat."""
        if name not in self.members:
            return
        self.partitions += 1
        self.metadata_hash += 1
        self._done([self._bump(), *self._assign(), *self._reconcile(name)])

    def refresh(self) -> None:
        """A regular expression is resolved again, to the same topics."""
        for regex in sorted(self.regexes):
            self._done([resolved(regex, "t", "t2")])

    def delete(self) -> None:
        """An administrator deletes an empty group with its offsets."""
        if not self.exists or self.members:
            return
        offsets = [no_offset("t", number) for number in sorted(self.commits)]
        self.commits, self.exists = set(), False
        self._done([*offsets, *self.write.ended()])

    def commit(self, number: int, offset: int) -> None:
        """Commit an offset; this does not change the group."""
        if self.exists and self.kind != "share":
            self.commits.add(number)
            self._done([commit("t", number, offset, at=self.at, commit_at=self.at)])


def life_cut_inside_a_rebalance(kind: str) -> tuple[list[Raw], list[Raw]]:
    """Two members join and leave and the group is deleted: the records up to a rebalance in progress, and the rest."""
    life = GroupWriter(kind=kind)
    life.join("a")
    life.settle()
    life.join("b")
    life.heartbeat("a")
    middle = len(life.log)
    life.settle()
    life.leave("a")
    life.settle()
    life.leave("b")
    life.delete()
    return life.log[:middle], life.log[middle:]
