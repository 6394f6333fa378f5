"""A simulated group that is played once: what advice is made from, and beside it what truly happened."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow.parquet as pq

from groupreplay.api.sources import open_log
from groupreplay.app.report.timelines import TimelineQuery, read_groups
from groupreplay.app.simulate.files import trace_path, truth_path, write_simulation
from groupreplay.codecs import OffsetCommitKey, decode_assignment, decode_key
from groupreplay.coordinator.classic.classic_group import ClassicGroup
from groupreplay.coordinator.requests import DeleteGroup, Error
from groupreplay.coordinator.simulation.scenario import Scenario
from groupreplay.coordinator.simulation.simulation import SimulationPlan
from groupreplay.streaming.engine.group_choice import GroupChoice
from groupreplay.timeline.advice.inputs import AdviceInput
from support.pictures.timelines import SOURCE
from support.simulated.advised import truly_held_ms
from support.simulated.unlike_clients import Unlike, UnlikeGroup

HOUR_MS = 3_600_000
#: A prober asks so often, of groups that are played for hours, and of those that are played for days.
_PROBES_MS = 10_000, 600_000
_LONG_HOURS = 5
_STABLE = "Stable"


@dataclass(frozen=True, kw_only=True)
class Side:
    """One side of a comparison: what the clients do, with which settings, and for how many hours.

    ``groups``: the first one is asked about. ``needs_trace``: a truth needs the requests.
    """

    scenario: Scenario
    unlike: Unlike = field(default_factory=Unlike)
    hours: float = 1.5
    groups: int = 1
    needs_trace: bool = False

    def with_client(self, values: Mapping[str, Any]) -> Side:
        """With other settings of the clients."""
        return replace(self, scenario=self.scenario.with_client(values))

    def with_unlike(self, **fields: Any) -> Side:
        """With other ways of the clients that no setting describes."""
        return replace(self, unlike=replace(self.unlike, **fields))

    def with_broker(self, values: Mapping[str, Any]) -> Side:
        """With other settings of the brokers."""
        return replace(self, scenario=replace(self.scenario, broker={**self.scenario.broker, **values}))


@dataclass(frozen=True, kw_only=True)
class Played:
    """What was recorded of a group, and the truth: its states, its records and its coordinator at the end."""

    history: AdviceInput
    group: UnlikeGroup
    changes: list[dict[str, Any]]
    records: list[tuple[bytes, bytes | None]]
    held_ms: int | None

    @property
    def rebalances(self) -> int:
        """How often the group became Stable."""
        return sum(each["after"] == _STABLE for each in self.changes)

    @property
    def stopped_ms(self) -> int:
        """How long it was in rebalances of members that had an assignment before."""
        return sum(end - begin for begin, end in self.stops())

    def stops(self) -> Iterator[tuple[int, int]]:
        """The begins and ends of these rebalances."""
        begin_ms = None
        for each in self.changes:
            if each["before"] == _STABLE and each["after"] == "PreparingRebalance":
                begin_ms = each["time_ms"]
            elif each["after"] in (_STABLE, "Empty"):
                if begin_ms is not None and each["after"] == _STABLE:
                    yield begin_ms, each["time_ms"]
                begin_ms = None

    @property
    def waited_for_leader_ms(self) -> int:
        """How long it waited for the assignments with which these rebalances ended."""
        completing = [each["time_ms"] for each in self.changes if each["after"] == "CompletingRebalance"]
        return sum(end - max(begin for begin in completing if begin <= end) for _, end in self.stops())

    def commits(self) -> Iterator[tuple[bytes, bytes | None]]:
        """The records of offsets, as written."""
        group_id = self.history.group_id
        for key, value in self.records:
            decoded = decode_key(key)
            if isinstance(decoded, OffsetCommitKey) and decoded.group == group_id:
                yield key, value

    @property
    def removed(self) -> int:
        """How many offsets the brokers have removed."""
        return sum(value is None for _, value in self.commits())

    @property
    def commit_bytes(self) -> int:
        """The bytes of all commits."""
        return sum(len(key) + len(value) for key, value in self.commits() if value is not None)

    def shares(self) -> list[int]:
        """How many partitions each member has, by the coordinator."""
        group = self.group.coordinator.group
        assert isinstance(group, ClassicGroup)
        return [_partitions(member.assignment) for member in group.members.values()]

    def deleted(self) -> int:
        """Deletes the group; returns how many offsets that removed."""
        offsets = self.group.coordinator.offsets.committed
        before = len(offsets)
        answer = self.group.ask(DeleteGroup(), self.history.until_ms)
        assert answer.error is Error.NONE, answer
        return before - len(self.group.coordinator.offsets.committed)


def _partitions(assignment: bytes) -> int:
    decoded = decode_assignment(assignment)
    return sum(len(each.partitions) for each in getattr(decoded, "assigned_partitions", ()))


def played(side: Side, seed: int) -> Played:
    """Plays the groups of a side, reads their log as ``advise`` does, and returns the first one."""
    made = dict[str, UnlikeGroup]()

    def make(group_id: str, *others: Any) -> UnlikeGroup:
        made[group_id] = UnlikeGroup(side.unlike, group_id, *others)
        return made[group_id]

    plan = SimulationPlan.of(
        side.scenario,
        side.scenario.broker,
        groups=side.groups,
        duration_ms=int(side.hours * HOUR_MS),
        seed=seed,
        partitions=1,
        probe_interval_ms=_PROBES_MS[side.hours > _LONG_HOURS],
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "played.parquet"
        trace = trace_path(path) if side.needs_trace else None
        write_simulation(replace(plan, made=make, traced=side.needs_trace), path, trace=trace)
        opened = open_log(str(path), None, None, member_events=True)
        read = read_groups(opened.rows, opened.context, TimelineQuery(groups=GroupChoice(), source=SOURCE))
        history = read.history(read.inputs[0])
        return Played(
            history=history,
            group=made[history.group_id],
            changes=list(_changes(truth_path(path).read_text().splitlines(), history.group_id)),
            records=_records(path),
            held_ms=truly_held_ms(path, history) if side.needs_trace else None,
        )


def _changes(lines: Iterable[str], group_id: str) -> Iterator[dict[str, Any]]:
    for each in map(json.loads, lines):
        if each["group_id"] == group_id and "after" in each:
            yield each


def _records(path: Path) -> list[tuple[bytes, bytes | None]]:
    table = pq.read_table(path, columns=["topic", "key", "value"])
    rows = zip(*(table[name].to_pylist() for name in ("topic", "key", "value")), strict=True)
    return [(key, value) for topic, key, value in rows if topic == "__consumer_offsets"]
