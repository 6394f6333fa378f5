"""From the lines of brokers to what they say about each group.

Of groups of a newer kind: why the epoch rose, as the coordinator logged it, step by step.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from groupreplay.state.events.event import LeaveReason, Requester
from groupreplay.state.policy.broker_log import BrokerLog, GroupLog, LoggedDeparture, LoggedEpoch, LoggedPhase
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.broker_log.files import LogFiles, TimedLine
from groupreplay.streaming.broker_log.layouts import Layout
from groupreplay.streaming.broker_log.lines import BrokerLine, trigger_of

log = logging.getLogger(__name__)

#: Of a new group since Kafka 4.3, whose first member waits for what its regular expression stands for: no line has it.
_INITIAL: Final = 1
#: What members and tools both do; only those while the group has no members set offsets.
_COMMITS: Final = frozenset({"OffsetCommit", "TxnOffsetCommit"})


@dataclass
class Epochs:
    """The epochs of one group on one broker, in the order of the lines.

    The lines of a step stand together: a member that joins, or changes what it asks for, before the epoch. One that
    goes raises it by one as well, but only some releases write a line of that; the next epoch in a line corrects it.
    """

    logged: list[LoggedEpoch] = field(default_factory=list)
    _current: int | None = None
    #: The last one that a line names.
    _named: int | None = None
    _waiting: list[BrokerLine] = field(default_factory=list)
    #: The join of the first member whose regular expression was resolved since.
    _pending: list[BrokerLine] = field(default_factory=list)

    def add(self, line: BrokerLine) -> None:
        """Take the next line; others than those of epochs change nothing."""
        if line.kind in ("bumped", "targeted"):
            self._name(line)
        elif line.kind in ("joined", "scanned") or (line.kind == "gone" and line.is_of_epochs):
            # A step begins. What waits raised no epoch: a regular expression stands for the same topics as before, or
            # a member joined again.
            if line.kind == "scanned" and self._waiting and self._waiting[0].kind == "joined":
                self._pending = self._pending or self._waiting
            self._waiting = [line]
            if line.kind == "gone" and self._current is not None:
                self._raise(self._current + 1)
        elif line.kind == "changed" and not self._belongs_to_a_departure(line):
            self._waiting = [*(one for one in self._waiting if one.kind != "scanned"), line]

    def _belongs_to_a_departure(self, line: BrokerLine) -> bool:
        """Whether the metadata changed because a member is gone."""
        return line.pattern.trigger == "metadata_changed" and self._current != self._named

    def _name(self, line: BrokerLine) -> None:
        epoch, named, current = line.generation, self._named, self._current
        if named is not None and current is not None and named < epoch < current:
            # One step removed several members.
            words = list[str]()
            while self.logged[-1].epoch > epoch:
                words = [*self.logged.pop().reasons, *words]
            last = self.logged[-1]
            self.logged[-1] = replace(last, reasons=(*last.reasons, *words))
            current = epoch
        if self._pending and epoch == _INITIAL + 1 and current != _INITIAL:
            self._add(_INITIAL, self._pending, self._pending[0].values.get("member", ""))
        self._pending = []
        if self._waiting or (line.kind == "bumped" and (epoch != current or epoch == named)):
            self._waiting = self._waiting or [line]
            self._raise(epoch)
        self._current = self._named = epoch

    def _raise(self, epoch: int) -> None:
        self._add(epoch, self._waiting)
        self._current, self._waiting = epoch, []

    def _add(self, epoch: int, lines: Sequence[BrokerLine], member_id: str | None = None) -> None:
        reasons, first = tuple(line.reason for line in lines), lines[0]
        self.logged.append(LoggedEpoch(epoch, reasons, first.pattern.trigger, first.broker, member_id))


@dataclass
class _Phase:
    """A join phase in the making: prepared at ``began_ms``, with the generation before it."""

    broker: str
    old_generation: int
    reason: str
    began_ms: int
    ended_ms: int | None = None
    leader: str | None = None

    def logged(self) -> LoggedPhase | None:
        """The phase; None: no line shows its end."""
        if self.ended_ms is None:
            return None
        return LoggedPhase(
            generation=self.old_generation + 1,
            reason=self.reason,
            trigger=trigger_of(self.reason),
            broker=self.broker,
            began_ms=self.began_ms,
            ended_ms=self.ended_ms,
            leader=self.leader,
        )


@dataclass
class _Group:
    """What was read about a group; ``phases`` and ``epochs`` are those of each broker, the last one may be open.

    ``instances``: the last member of each instance id.
    """

    phases: defaultdict[str, list[_Phase]] = field(default_factory=lambda: defaultdict(list))
    epochs: defaultdict[str, Epochs] = field(default_factory=lambda: defaultdict(Epochs))
    departures: dict[str, tuple[frozenset[LeaveReason], str]] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    requesters: defaultdict[str, set[Requester]] = field(default_factory=lambda: defaultdict(set))
    has_members: bool = False
    joined: set[str] = field(default_factory=set)

    def add(self, timed: TimedLine) -> None:
        """Take the next line."""
        line, at_ms = timed.line, timed.at_ms
        phases = self.phases[line.broker]
        self.epochs[line.broker].add(line)
        match line.kind:
            case "preparing":
                self.has_members = True
                phases.append(_Phase(line.broker, line.generation, line.values["reason"], at_ms))
            case "stabilized" | "emptied":
                self.has_members = line.kind == "stabilized"
                if (
                    phases
                    and phases[-1].ended_ms is None
                    and phases[-1].old_generation == line.generation - 1
                ):
                    phases[-1].ended_ms = at_ms
                    phases[-1].leader = "" if line.kind == "emptied" else None
            case "assigned":
                self.has_members = True
                if phases and phases[-1].old_generation == line.generation - 1:
                    phases[-1].leader = phases[-1].leader or line.values["member"]
            case "joined" | "replaced":
                member_id = line.values.get("member", "")
                self.joined.add(member_id)
                self.instances[line.values.get("instance", "")] = member_id
            case "gone":
                self._add_departures(line)
            case "asked":
                if line.values["request"] not in _COMMITS or not (self.has_members or self.joined):
                    requester = Requester(principal=line.values["principal"], client_host=line.values["host"])
                    self.requesters[line.values["request"]].add(requester)

    def _add_departures(self, line: BrokerLine) -> None:
        reasons, words = line.departure()
        # A tool removes a static member by its instance id alone.
        of_instance = self.instances.get(line.values.get("instance", ""), "")
        members = [member_id or of_instance for member_id in line.members]
        self.joined.difference_update(members)
        for member_id in filter(None, members):
            known, former = self.departures.get(member_id, (frozenset[LeaveReason](), words))
            self.departures[member_id] = known | reasons, words if known <= reasons else former

    def logged(self) -> GroupLog:
        """The lines about the group."""
        phases = [phase.logged() for of_broker in self.phases.values() for phase in of_broker]
        return GroupLog(
            phases=tuple(phase for phase in phases if phase is not None),
            epochs=tuple(step for of_broker in self.epochs.values() for step in of_broker.logged),
            departures={
                member_id: LoggedDeparture(reasons=reasons, words=words)
                for member_id, (reasons, words) in self.departures.items()
            },
            requesters={request: frozenset(senders) for request, senders in self.requesters.items()},
        )


def read_broker_logs(
    paths: Sequence[Path], pattern: Layout | None = None, cluster_id: str | None = None
) -> BrokerLog:
    """What these files say about groups; ``cluster_id`` is that of the records (None: not known).

    What a file lacks is logged, a sentence each.

    Raises:
        GroupReplayError: a file cannot be read, none has a known layout, or they are of another cluster.
    """
    groups, clusters = defaultdict[str, _Group](_Group), set[str]()
    for timed in LogFiles(paths, pattern).lines():
        if timed.line.kind == "cluster":
            clusters.add(timed.line.values["cluster"])
        else:
            groups[timed.line.values["group"]].add(timed)
    _check_cluster(clusters, cluster_id, paths)
    logged: Mapping[str, GroupLog] = {group_id: group.logged() for group_id, group in groups.items()}
    if not logged:
        log.warning(
            "%s: no line is of a group coordinator; it writes them at INFO, and authorizers what they allow at DEBUG",
            ", ".join(map(str, paths)),
        )
    return BrokerLog(logged)


def _check_cluster(clusters: set[str], cluster_id: str | None, paths: Sequence[Path]) -> None:
    if clusters and cluster_id is not None and cluster_id not in clusters:
        raise GroupReplayError(
            f"the log is of the cluster {', '.join(sorted(clusters))}, the records are of {cluster_id}",
            where=", ".join(map(str, paths)),
            fix="give the logs of the brokers of that cluster",
            exit_code=ExitCode.DATA,
        )
