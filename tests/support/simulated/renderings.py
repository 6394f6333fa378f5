"""All renderings of simulated groups: events, reports, overview, tables of ``describe`` and strips of ``serve``."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import structs

from groupreplay.app.inspection.group_lag import GroupLags, partitions_of
from groupreplay.app.inspection.group_use import reader_rows
from groupreplay.app.inspection.groups import group_row
from groupreplay.app.inspection.history import history
from groupreplay.app.inspection.lag_history import current_rows, history_rows
from groupreplay.app.inspection.state_history import state_rows
from groupreplay.app.report.overview import all_strips
from groupreplay.app.report.timelines import TimelineQuery, group_timelines
from groupreplay.app.serve.history import event_queries
from groupreplay.app.simulate.files import CLUSTER_ID, ERA, write_simulation
from groupreplay.codecs import (
    GroupMetadataKey,
    GroupMetadataValue,
    Malformed,
    Skipped,
    decode_key,
    decode_value,
    encode_value,
)
from groupreplay.coordinator.simulation.scenario import Scenario
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.simulation import SimulationPlan
from groupreplay.state import Context
from groupreplay.state.phrases import timestamp_ms
from groupreplay.streaming.contract.partition_ends import PartitionEnds
from groupreplay.streaming.engine.group_choice import GroupChoice
from groupreplay.streaming.engine.group_log import GroupLogs
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.sources.capture import read_captures
from groupreplay.streaming.sources.recorded_ends import RecordedEnds
from groupreplay.streaming.sources.source import Rows
from groupreplay.timeline.commit_rates import CommitLog
from groupreplay.timeline.document import TimelineDocument
from groupreplay.timeline.overview import GroupStrip
from support.pictures.timelines import SOURCE
from support.serve.written_clusters import messages, served_cluster, take

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
Json = dict[str, Any]
#: A change of the records of a log: what a cleaner or a slow leader would have left.
Variant = Callable[[list[Json]], list[Json]]


@dataclass
class GroupRenderings:
    """One simulated group in each form.

    ``is_whole``: its log has every record that was ever written; ``is_cleaned``: a cleaner has left single ones.
    ``lags``: the records behind, and the partitions of which that is known, by each command that has them.
    """

    scenario: str
    group_id: str
    events: list[Json]
    report: TimelineDocument
    strip: GroupStrip
    history: list[Json]
    states: list[Json]
    served: Json
    described: Mapping[str, Any] | None
    is_whole: bool
    is_cleaned: bool
    lags: Mapping[str, tuple[int, int]]

    def data(self, name: str) -> list[Json]:
        """The ``data`` of the events of a type, with their time as ``at_ms``."""
        kind = f"groupreplay.{name}.v1"
        return [one["data"] | {"at_ms": one["at_ms"]} for one in self.events if one["type"] == kind]


@dataclass(frozen=True)
class SimulatedLog:
    """The log of a simulation; ``rows`` can be read again and again."""

    scenario: str
    source: Rows
    batches: Sequence[pa.RecordBatch]
    probes: Sequence[pa.RecordBatch]
    context: Context
    is_cleaned: bool = False

    def rows(self) -> Rows:
        """The rows, to be read once."""
        return replace(self.source, batches=iter(self.batches), probes=list(self.probes))


def plan_of(scenario: Scenario, groups: int, duration_ms: int, seed: int) -> SimulationPlan:
    """A simulation with one partition of the offsets topic; where a scenario waits for that, its offsets expire."""
    expiry = {"offsets.retention.minutes": duration_ms // 4 // MINUTE_MS} if scenario.name == "expiry" else {}
    return SimulationPlan.of(
        scenario,
        {**scenario.broker, **expiry},
        groups=groups,
        duration_ms=duration_ms,
        seed=seed,
        partitions=1,
    )


def probed_context(plan: SimulationPlan, **settings: Any) -> Context:
    """The context of a log that is whole, with the answers of a prober."""
    return Context(
        cluster_id=CLUSTER_ID,
        era=ERA,
        probing=True,
        member_events=True,
        complete_since_ms=0,
        retention_ms=plan.settings.retention_ms,
        **settings,
    )


@lru_cache(maxsize=4)
def simulated_log(scenario: str, groups: int, duration_ms: int, seed: int) -> SimulatedLog:
    """The log of a scenario, with the answers of a prober."""
    plan = plan_of(SCENARIOS[scenario], groups, duration_ms, seed)
    with TemporaryDirectory() as folder:
        write_simulation(plan, Path(folder, "log.parquet"))
        rows = read_captures([Path(folder, "log.parquet")])
        batches, probes = list(rows.batches), list(rows.probes)
    return SimulatedLog(scenario, rows, batches, probes, probed_context(plan))


def changed(log: SimulatedLog, variant: Variant) -> SimulatedLog:
    """The log after a change; a cleaned one is not complete, and nobody asked the brokers then."""
    schema = log.batches[0].schema
    rows = variant([row for batch in log.batches for row in batch.to_pylist()])
    context = replace(log.context, probing=False, complete_since_ms=None)
    batches = [pa.RecordBatch.from_pylist(rows, schema)]
    return replace(log, batches=batches, probes=[], context=context, is_cleaned=variant is compacted)


def compacted(rows: list[Json]) -> list[Json]:
    """The log after its first two thirds were cleaned: only the last record of each key is left of them."""
    end = len(rows) * 2 // 3
    last = {row["key"]: row["offset"] for row in rows[:end]}
    return [row for row in rows[:end] if last[row["key"]] == row["offset"] and row["value"]] + rows[end:]


def slowly_led(rows: list[Json]) -> list[Json]:
    """The log as if each leader had needed up to eight seconds: the join phase ended so much earlier."""
    before: dict[str, int] = {}
    changed_rows = []
    for row in rows:
        key = decode_key(row["key"])
        if isinstance(key, Skipped | Malformed):
            continue
        value = None if row["value"] is None else decode_value(key, row["value"])
        if isinstance(value, GroupMetadataValue) and value.members and value.current_state_timestamp_ms:
            earliest_ms = before.get(key.group, 0) + 8
            ended_ms = max(value.current_state_timestamp_ms - 8_000, earliest_ms)
            ended_ms = min(ended_ms, value.current_state_timestamp_ms)
            led = encode_value(replace(value, current_state_timestamp_ms=ended_ms))
            changed_rows.append({**row, "value": led})
        else:
            changed_rows.append(row)
        before[key.group] = row["timestamp"]
    return changed_rows


def replaced_again(rows: list[Json]) -> list[Json]:
    """The log as if each process of a static member that replaced another one was itself replaced ten seconds later."""
    before: dict[str, GroupMetadataValue] = {}
    changed_rows = []
    for row in rows:
        changed_rows.append(row)
        key = decode_key(row["key"])
        if not isinstance(key, GroupMetadataKey):
            continue
        value = None if row["value"] is None else decode_value(key, row["value"])
        known = before.pop(key.group, None)
        if not isinstance(value, GroupMetadataValue):
            continue
        before[key.group] = value
        if known is not None and value.generation == known.generation and value.members != known.members:
            old = {member.member_id for member in known.members}
            again = tuple(
                member if member.member_id in old else replace(member, member_id=f"{member.member_id}-2")
                for member in value.members
            )
            later = encode_value(replace(value, members=again))
            changed_rows.append({**row, "value": later, "timestamp": row["timestamp"] + 10_000})
    changed_rows.sort(key=lambda row: (row["partition"], row["timestamp"]))
    return [{**row, "offset": offset} for offset, row in enumerate(changed_rows)]


def renderings(folder: Path, log: SimulatedLog) -> Iterator[GroupRenderings]:
    """Each group of a log in every form, as the commands and the server make them."""
    events, texts, described = _events(log)
    everything = GroupChoice()
    reports, _ = group_timelines(log.rows(), log.context, TimelineQuery(groups=everything, source=SOURCE))
    strips = all_strips(log.rows(), log.context, None, None, None)
    rows = history(Replay(log.context, None), log.rows())
    states = state_rows(log.rows(), None)
    served = _served(folder, texts, strips.since_ms, strips.until_ms, [one.group_id for one in reports])
    strip_of = {one.group_id: one for one in strips.strips}
    lags = _lags(log, described, strips.until_ms)
    for report in reports:
        group_id = report.group_id
        # The strips of all groups have one time; that of a report begins with its group.
        yield GroupRenderings(
            scenario=log.scenario,
            group_id=group_id,
            events=events[group_id],
            report=report,
            strip=strip_of[group_id],
            history=[structs.asdict(row) for row in rows if row.group_id == group_id],
            states=[structs.asdict(row) for row in states if row.group_id == group_id],
            served=served.get(group_id, {"spans": [], "rebalances": []}),
            described=described.get(group_id),
            is_whole=log.context.complete_since_ms is not None,
            is_cleaned=log.is_cleaned,
            lags=lags.get(group_id, {}),
        )


def _lags(
    log: SimulatedLog, described: Mapping[str, Mapping[str, Any]], at_ms: int
) -> dict[str, dict[str, tuple[int, int]]]:
    """The lag of each group as ``list``, ``list --topic``, ``describe``, ``lag`` and ``lag --since`` tell it.

    The ends are made up, from each offset with its partition; nothing is known of every fifth partition.
    """
    ends, group_logs = RecordedEnds(CLUSTER_ID), GroupLogs(GroupChoice())
    for _ in group_logs.reading(log.rows().batches):
        pass
    for group in described.values():
        for offset in group["offsets"]:
            end = offset["offset"] + 7 * offset["partition"]
            if offset["partition"] % 5 != 4:
                known = PartitionEnds(0, end, end)
                ends.add_now("id", offset["topic"], offset["partition"], known, at_ms)
    lags = GroupLags(ends, at_ms)
    logs = group_logs.logs
    return (
        {
            group_id: _told_lags(
                group, lags, {group_id: logs[group_id].commits()} if group_id in logs else {}
            )
            for group_id, group in described.items()
        }
        if lags
        else {}
    )


def _told_lags(
    group: Mapping[str, Any], lags: GroupLags, commits: Mapping[str, CommitLog]
) -> dict[str, tuple[int, int]]:
    every, places = GroupChoice(), len(set(partitions_of([group])))
    whole, readers = group_row(group, lags), reader_rows([group], every, lags)
    of_offsets = [offset.get("lag") for offset in lags.beside([group])[0]["offsets"]]
    rows = [row.lag for row in current_rows([group], lags, every)]
    mine = list(history_rows(commits, lags.ends, every, [lags.at_ms]))
    unread, unknown = (sum(row.lag_unknown or 0 for row in each) for each in (readers, mine))
    return {
        "list": (whole.lag or 0, places - (whole.lag_unknown or 0)),
        "list --topic": (_sum(row.lag for row in readers), places - unread),
        "describe": (_sum(of_offsets), sum(lag is not None for lag in of_offsets)),
        "lag": (_sum(rows), sum(lag is not None for lag in rows)),
        "lag --since": (_sum(row.lag for row in mine), len(group["offsets"]) - unknown),
    }


def _sum(lags: Iterable[int | None]) -> int:
    return sum(lag or 0 for lag in lags)


def _events(log: SimulatedLog) -> tuple[dict[str, list[Json]], list[bytes], dict[str, Mapping[str, Any]]]:
    driver = Replay(log.context, None)
    events: dict[str, list[Json]] = defaultdict(list)
    texts = []
    for text in events_in_order(driver.feed(log.rows()), Filter()):
        event = json.loads(text)
        texts.append(text)
        if event["data"]["group_id"] is not None:
            events[event["data"]["group_id"]].append({**event, "at_ms": _ms(event["time"])})
    return events, texts, {group.group_id: group.describe() for group in driver.groups()}


def _ms(time: str) -> int:
    at_ms = timestamp_ms(time)
    assert at_ms is not None
    return at_ms


def _served(
    folder: Path, texts: Sequence[bytes], since_ms: int, until_ms: int, labels: Sequence[str]
) -> dict[str, Json]:
    """The strips of the server, from the events as messages of the topic."""
    with served_cluster(Path(mkdtemp(dir=folder)), until_ms) as cluster:
        take(cluster, messages(texts, until_ms), until_ms)
        strips = cluster.ask(lambda db: event_queries.strips(db, since_ms, until_ms, labels, len(labels)))
    return {strip.group_id: msgspec.to_builtins(strip) for strip in strips}
