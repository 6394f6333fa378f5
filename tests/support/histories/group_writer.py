"""A small coordinator: what it is told happens to one group, and it writes the records Kafka's would write.

It keeps its own books (state, members, what each operation did), so that a replay of its records can be held
against them. Only what shows in records is modelled: no timers, no requests that are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from support.histories.builders import Raw, asked_for, commit, emptied, generation, gone, member, no_offset
from support.histories.group_records import Consumer, Described, HeldPartitions, Share, Streams
from support.histories.modern_builders import STABLE, UNRELEASED, UNREVOKED, operation, resolved

AWAY = -2
#: Facts that are seen at the edges of operations alone.
TOLD = ("group.created", "group.emptied", "group.deleted", "group.converted")
WRITERS: dict[str, Consumer] = {"consumer": Consumer(), "share": Share(), "streams": Streams()}


@dataclass
class GroupWriter:
    """One group. ``kind`` is what a member that is no classic one makes of it; ``at`` is the time.

    ``first_epoch`` is 2 since Kafka 4.3 and 1 before; ``interval``: a join does not assign, the next
    heartbeat does. ``edges`` has for every operation the number of records up to its end, and the state there;
    ``told`` counts what an observer of the edges alone would tell.
    """

    kind: str = "consumer"
    first_epoch: int = 2
    interval: bool = False
    partitions: int = 3
    at: int = 1_000
    log: list[Raw] = field(default_factory=list)
    edges: list[tuple[int, str]] = field(default_factory=list)
    told: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TOLD, 0))
    type: str | None = None
    generation: int = 0
    epoch: int = 0
    target_epoch: int = 0
    metadata_hash: int = 7
    members: dict[str, Described] = field(default_factory=dict)
    holds: dict[str, HeldPartitions] = field(default_factory=dict)
    targets: dict[str, tuple[int, ...]] = field(default_factory=dict)
    regexes: set[str] = field(default_factory=set)
    commits: set[int] = field(default_factory=set)
    _edge: tuple[str | None, bool] = (None, False)

    @property
    def write(self) -> Consumer:
        """The records of the group's kind."""
        return WRITERS[self.kind]

    def state(self) -> str:
        """As DescribeGroups would tell it."""
        if self.type is None:
            return "Dead" if not self.commits else "Empty"
        if not self.members:
            return "Empty"
        if self.type in ("classic", "share"):
            return "Stable"
        if self.epoch > self.target_epoch:
            return "Assigning"
        settled = all(has.state == STABLE and has.epoch == self.target_epoch for has in self.holds.values())
        return "Stable" if settled else "Reconciling"

    def _done(self, records: Iterable[Raw], after_ms: int = 250) -> None:
        self.log += operation(self.at, *records)
        self.edges.append((len(self.log), self.state()))
        self._tell()
        self._edge = (self.type, bool(self.members))
        self.at += after_ms

    def _tell(self) -> None:
        (kind, peopled), now = self._edge, self.type
        self.told["group.created"] += kind is None and now is not None
        self.told["group.deleted"] += kind is not None and now is None
        self.told["group.converted"] += None not in (kind, now) and kind != now
        self.told["group.emptied"] += peopled and now is not None and not self.members

    def wait(self, ms: int) -> None:
        """Nothing happens for a while."""
        self.at += ms

    # -- the group itself

    def _bump(self) -> Raw:
        self.epoch += 1
        return self.write.group_epoch(self.epoch, self.metadata_hash)

    def _assign(self) -> list[Raw]:
        """Partitions dealt out in turn; only what changed is written, then the epoch that makes it hold."""
        names = sorted(self.members)
        shared = self.type == "share"
        dealt = {
            name: tuple(number for number in range(self.partitions) if shared or number % len(names) == place)
            for place, name in enumerate(names)
        }
        changed = [name for name in names if self.targets.get(name, ()) != dealt[name]]
        self.targets, self.target_epoch = dealt, self.epoch
        return [
            *(self.write.target(name, dealt[name]) for name in changed),
            self.write.target_epoch(self.target_epoch),
        ]

    def _reconcile(self, name: str) -> list[Raw]:
        """One step of ``CurrentAssignmentBuilder``: give up, then take what is free."""
        has = self.holds[name]
        target = set(self.targets.get(name, ()))
        surplus = set(has.assigned) - target
        if has.epoch > 0 and surplus and self.type != "share":
            kept = tuple(sorted(target & set(has.assigned)))
            now = replace(has, state=UNREVOKED, assigned=kept, revoking=tuple(sorted(surplus)))
        else:
            taken = {
                number
                for other, theirs in self.holds.items()
                if other != name and self.type != "share"
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

    def join(
        self, name: str, *, instance: str | None = None, regex: str = "", topics: tuple[str, ...] = ("t",)
    ) -> None:
        """A new member's first heartbeat; instance ids and regular expressions are for consumer groups."""
        if self.kind != "consumer":
            instance, regex = None, ""
        static = any(told.instance_id == instance for told in self.members.values() if instance)
        if name in self.members or static or self.type not in (None, self.kind):
            return
        begin: list[Raw] = []
        if self.type is None:
            self.type = self.kind
            # What a group begins with stands in no record.
            self.epoch = self.target_epoch = self.first_epoch - 1
        if not self.members:
            begin = self.write.with_first_member()
        new = bool(regex) and regex not in self.regexes
        # Before 4.3 the first epoch of all is 0, at which nothing at all is written of a member that waits.
        waits = new and self.target_epoch > 0
        self._done(self._joined(name, instance, regex, () if regex else topics, begin, waits=waits))
        if new:
            self.regexes.add(regex)
            self._done([resolved(regex, "t", "t2"), self._bump()])

    def _joined(
        self,
        name: str,
        instance: str | None,
        regex: str,
        topics: tuple[str, ...],
        begin: list[Raw],
        *,
        waits: bool = False,
    ) -> list[Raw]:
        """``waits``: for its regular expression to be resolved; until then it brings nothing new."""
        told = Described(name, f"client-{instance or name}", instance_id=instance, regex=regex, topics=topics)
        self.members[name], self.holds[name] = told, HeldPartitions(epoch=0)
        records = [self.write.described(told), *begin]
        if waits:
            return [*records, *self._reconcile(name)]
        records.append(self._bump())
        if not self.interval:
            records += self._assign()
        return [*records, *self._reconcile(name)]

    def heartbeat(self, name: str) -> None:
        """A member answers what it was asked: it gives up what it must, or takes what is free."""
        if name not in self.members or self.type == "classic" or self.holds[name].epoch == AWAY:
            return
        records = self._assign() if self.epoch > self.target_epoch else []
        if self.holds[name].state == UNREVOKED:
            self.holds[name] = replace(self.holds[name], revoking=())
        if not self._settled(name):
            records += self._reconcile(name)
        if records:
            self._done(records)

    def settle(self) -> None:
        """Heartbeats until nothing is left to do."""
        for _ in range(4):
            for name in sorted(self.members):
                self.heartbeat(name)

    def leave(self, name: str, *, fenced: bool = False) -> None:
        """A member goes, or is thrown out at its rebalance timeout."""
        if name not in self.members or self.type == "classic":
            return
        if fenced:
            self.wait(30_000 - 250)
        told = self.members.pop(name)
        self.holds.pop(name)
        self.targets.pop(name, None)
        natives = [one for one in self.members.values() if not one.classic]
        if self.members and not natives and self.kind == "consumer":
            self._downgrade(name)
            return
        unused = told.regex and told.regex not in {one.regex for one in self.members.values()}
        regex = self.write.ended(regexes=[told.regex])[1:2] if unused else []
        self.regexes -= {told.regex} if unused else set()
        self._done([*self.write.left(name), *regex, self._bump()])

    def away(self, name: str) -> None:
        """A static member says that it will be back."""
        told = self.members.get(name)
        if told is None or told.instance_id is None or self.type != "consumer" or self.holds[name].epoch <= 0:
            return
        has = self.holds[name]
        self.holds[name] = HeldPartitions(AWAY, has.epoch, STABLE, has.assigned)
        self._done([self.write.current(name, self.holds[name])])

    def back(self, name: str, new: str) -> None:
        """It is back under another member id."""
        if name not in self.members or new in self.members or self.holds[name].epoch != AWAY:
            return
        told, has = self.members.pop(name), self.holds.pop(name)
        target = self.targets.pop(name, None)
        self.members[new] = replace(told, member_id=new)
        self.holds[new] = replace(has, epoch=0, previous=has.previous)
        records = [*self.write.left(name), self.write.described(self.members[new])]
        if target is not None:
            self.targets[new] = target
            records.append(self.write.target(new, target))
        records.append(self.write.current(new, self.holds[new]))
        self._done([*records, *self._reconcile(new)])

    def move(self, name: str) -> None:
        """A member heartbeats from another address: described anew, no new epoch."""
        told = self.members.get(name)
        if told is None or self.type == "classic":
            return
        self.members[name] = replace(told, host=told.host + "x")
        self._done([self.write.described(self.members[name])])

    def grow(self, name: str) -> None:
        """The topic has got one more partition, and a member's heartbeat finds out."""
        if name not in self.members or self.type == "classic" or self.holds[name].epoch == AWAY:
            return
        self.partitions += 1
        self.metadata_hash += 1
        self._done([self._bump(), *self._assign(), *self._reconcile(name)])

    def refresh(self) -> None:
        """A regular expression is resolved again, to the same topics."""
        for regex in sorted(self.regexes):
            self._done([resolved(regex, "t", "t2")])

    def delete(self) -> None:
        """An empty group and its offsets go."""
        if self.type is None or self.members:
            return
        offsets = [no_offset("t", number) for number in sorted(self.commits)]
        tombstones = [gone()] if self.type == "classic" else self.write.ended()
        self.commits, self.type = set(), None
        self._done([*offsets, *tombstones])

    def commit(self, number: int, offset: int) -> None:
        """An offset; commits do not touch the group."""
        if self.type is not None and self.kind != "share":
            self.commits.add(number)
            self._done([commit("t", number, offset, at=self.at, commit_at=self.at)])

    # -- classic rounds, and the ways between

    def classic_round(self, *names: str) -> None:
        """A generation of a classic group with these members, or none."""
        if self.type not in (None, "classic"):
            return
        if self.type is None:
            self.type, self.generation = "classic", 0
            self._done([asked_for(at=self.at)])
        self.generation += 1
        self.members = {name: Described(name, f"client-{name}", classic=True) for name in names}
        self.targets = {
            name: tuple(number for number in range(self.partitions) if number % len(names) == place)
            for place, name in enumerate(names)
        }
        self._done([self._classic_record()])

    def _classic_record(self) -> Raw:
        members = [
            member(name, self.targets.get(name, ()), client_id=told.client_id, host=told.host)
            for name, told in self.members.items()
        ]
        if not members:
            return emptied(self.generation, at=self.at)
        return generation(self.generation, *members, at=self.at)

    def upgrade(self, joiner: str) -> None:
        """A member of the consumer protocol comes into a classic group."""
        if self.type != "classic" or joiner in self.members or self.kind != "consumer":
            return
        self.type = "consumer"
        if not self.members:
            self.epoch = self.target_epoch = self.first_epoch - 1
            self._done([gone(), *self._joined(joiner, None, "", ("t",), [])])
            return
        self.epoch = self.target_epoch = self.generation
        self.holds = {
            name: HeldPartitions(self.epoch, self.epoch, STABLE, self.targets[name]) for name in self.members
        }
        records = [gone(), *map(self.write.described, self.members.values())]
        records.append(self.write.group_epoch(self.epoch, self.metadata_hash))
        records += [self.write.target(name, owned) for name, owned in self.targets.items()]
        records.append(self.write.target_epoch(self.epoch))
        records += [self.write.current(name, has) for name, has in self.holds.items()]
        self._done([*records, *self._joined(joiner, None, "", ("t",), [])])

    def _downgrade(self, last: str) -> None:
        """Only members of the classic protocol are left: the group becomes a classic one at its epoch."""
        tombstones = self.write.ended([last, *self.members], sorted(self.regexes))
        self.type, self.generation = "classic", self.epoch
        self.holds, self.regexes = {}, set()
        self._done([*tombstones, self._classic_record()])

    def ask(self) -> None:
        """A classic client asks for an emptied group of a newer kind."""
        if self.type == "consumer" and not self.members:
            self.type, self.generation = "classic", 0
            self._done([*self.write.ended(), asked_for(at=self.at)])


def life_cut_inside_a_rebalance(kind: str) -> tuple[list[Raw], list[Raw]]:
    """Two members come and go and the group is deleted: the records before the second has its share, and the rest."""
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
