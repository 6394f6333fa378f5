"""What groups have in common: topics, hosts, clients, partitions of the offsets topic and their leaders."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

import msgspec

from groupreplay.timeline.incident_signals import Attribute, GroupSeen, LeaderSeen, Signal
from groupreplay.timeline.incident_words import Proof

_MINUTE_MS: Final = 60_000
#: The first rebalances of a group are its start.
_YOUNG_MS: Final = _MINUTE_MS
_MOST_GROUPS: Final = 100_000
_MOST_LEADERS: Final = 30
#: Attributes of which one copy is known; of more there may be several.
_MOST_COPIES: Final = 200_000


class GroupAttributes(msgspec.Struct, gc=False):
    """What a group has, and had before: a host that died is what it had. Tuples take a tenth of the memory of sets."""

    partition: int | None = None
    shares: tuple[Attribute, ...] = ()
    before: tuple[Attribute, ...] = ()
    created_ms: int | None = None

    def attributes(self) -> frozenset[Attribute]:
        """Everything that it has or had."""
        own = frozenset(self.shares + self.before)
        return own if self.partition is None else own | {("partition", str(self.partition))}


class SharedBy(msgspec.Struct, dict=True):
    """All groups with what they have, and the leaders of partitions as rounds of the prober have shown them."""

    groups: dict[str, GroupAttributes] = {}
    sharing: dict[Attribute, int] = {}
    leaders: dict[int, list[LeaderSeen]] = {}

    def __post_init__(self) -> None:
        """Groups that have the same share one copy of it, also those that were stored."""
        self._same: dict[Attribute, Attribute] = {}
        for group in self.groups.values():
            group.shares, group.before = self._copy(group.shares), self._copy(group.before)

    def _copy(self, shares: Iterable[Attribute]) -> tuple[Attribute, ...]:
        parts = tuple(self._same.setdefault(share, share) for share in sorted(shares))
        if len(self._same) > _MOST_COPIES:
            self._same.clear()
        return parts

    def see(self, seen: GroupSeen) -> None:
        """What a group has now."""
        if seen.group_id not in self.groups and len(self.groups) >= _MOST_GROUPS:
            return
        group = self.groups.setdefault(seen.group_id, GroupAttributes())
        former = group.attributes()
        shares = self._copy(seen.shares)
        if shares and shares != group.shares:
            group.before, group.shares = group.shares, shares
        group.partition = group.partition if seen.partition is None else seen.partition
        group.created_ms = seen.at_ms if seen.created else group.created_ms
        present = group.attributes()
        for attribute in former - present:
            self.sharing[attribute] -= 1
            if not self.sharing[attribute]:
                del self.sharing[attribute]
        for attribute in present - former:
            self.sharing[attribute] = self.sharing.get(attribute, 0) + 1

    def is_young(self, signal: Signal) -> bool:
        """Whether it is a rebalance of a group that has just begun."""
        group = self.groups.get(signal.group_id)
        created_ms = None if group is None else group.created_ms
        return not signal.is_trouble and created_ms is not None and signal.at_ms - created_ms < _YOUNG_MS

    def see_leader(self, seen: LeaderSeen) -> None:
        """A round of the prober; only changes are kept."""
        former = self.leaders.setdefault(seen.partition, [])
        if not former or (former[-1].broker, former[-1].error) != (seen.broker, seen.error):
            self.leaders[seen.partition] = [*former[-_MOST_LEADERS:], seen]

    def attributes(self, signal: Signal) -> frozenset[Attribute]:
        """What the signal says, and what its group has of other kinds."""
        group = self.groups.get(signal.group_id, GroupAttributes())
        said = {kind for kind, _ in signal.shares}
        own = {attribute for attribute in group.attributes() if attribute[0] not in said}
        partition = group.partition if signal.partition is None else signal.partition
        broker = self.leader(partition, signal.begin_ms - _MINUTE_MS)
        brokers: set[Attribute] = set() if broker is None else {("broker", str(broker))}
        places: set[Attribute] = set() if partition is None else {("partition", str(partition))}
        return signal.shares | own | brokers | places

    def leader(self, partition: int | None, at_ms: int) -> int | None:
        """Who led a partition at a time, as far as rounds have shown it."""
        seen = self.leaders.get(-1 if partition is None else partition, ())
        brokers = [leader.broker for leader in seen if leader.at_ms <= at_ms]
        return brokers[-1] if brokers else seen[0].broker if seen else None

    def count_sharing(self, attribute: Attribute, first_ms: int, last_ms: int) -> int:
        """How many groups have something; a broker: a minute before some moment between these times."""
        if attribute[0] != "broker":
            return self.sharing.get(attribute, 0)
        count = 0
        for partition, seen in self.leaders.items():
            first = self.leader(partition, first_ms - _MINUTE_MS)
            later = {leader.broker for leader in seen if first_ms < leader.at_ms + _MINUTE_MS <= last_ms}
            if attribute[1] in {str(broker) for broker in {first, *later}}:
                count += self.sharing.get(("partition", str(partition)), 0)
        return count

    def move(self, shared: Attribute, first_ms: int, last_ms: int) -> Proof | None:
        """The change of leader, or the error, that rounds have shown of a partition or broker about these times."""
        kind, value = shared
        for partition, seen in sorted(self.leaders.items()):
            for before, after in pairwise(seen):
                is_near = after.earliest_ms <= last_ms + _MINUTE_MS and after.at_ms >= first_ms - _MINUTE_MS
                concerns = value == str(partition if kind == "partition" else before.broker)
                if is_near and concerns and kind in ("partition", "broker"):
                    return Proof("moved", partition, before.broker, after.broker, after.error)
        return None
