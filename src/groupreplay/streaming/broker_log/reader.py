"""From the lines of brokers to what they say about each group."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from groupreplay.state.events.event import LeaveReason, Requester
from groupreplay.state.policy.broker_log import BrokerLog, GroupLog, LoggedDeparture, LoggedPhase
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.broker_log.epochs import Epochs
from groupreplay.streaming.broker_log.files import LogFiles, TimedLine
from groupreplay.streaming.broker_log.layouts import Layout
from groupreplay.streaming.broker_log.lines import BrokerLine, trigger_of

log = logging.getLogger(__name__)

#: What members and tools both do; only those while the group has no members set offsets.
_COMMITS: Final = frozenset({"OffsetCommit", "TxnOffsetCommit"})


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
