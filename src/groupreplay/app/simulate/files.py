"""A simulation as files: the checks of what flags name, its rows, and the capture with the true states beside it.

Rows are records of the offsets topic partition by partition, then the prober's messages.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext
from functools import lru_cache
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias

import msgspec
import pyarrow as pa

from groupreplay.app.simulate.prober_messages import (
    PROBES_TOPIC,
    MessageSorter,
    Rounds,
    RowTarget,
    SettingsAnswers,
    group_answer,
)
from groupreplay.codecs import encode_key, encode_value
from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.coordinator.simulation.scenario import Scenario
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.settings_table import (
    BROKER_SETTINGS,
    CLIENT_SETTINGS,
    PROTOCOL_VERSION,
    Setting,
    SettingValue,
    contradictions,
    shown,
)
from groupreplay.coordinator.simulation.simulation import (
    BEGIN_MS,
    CoordinatorWarning,
    GroupProbe,
    GroupTransition,
    LogEnds,
    SimulationPlan,
    WrittenRecord,
    simulate,
)
from groupreplay.coordinator.trace_entries import TraceEntry
from groupreplay.streaming.base.errors import GroupReplayError, did_you_mean, unusable
from groupreplay.streaming.base.files import atomic_file, is_written_into, require_new
from groupreplay.streaming.contract.log import ROW_SCHEMA, ProgressCallback, no_progress
from groupreplay.streaming.contract.probe_messages import encode_message
from groupreplay.streaming.sources.capture import CaptureWriter
from groupreplay.streaming.sources.capture_context import CaptureContext
from groupreplay.version import __version__


def scenario_named(name: str) -> Scenario:
    """A built-in scenario.

    Raises:
        GroupReplayError: there is no such scenario.
    """
    if name not in SCENARIOS:
        fix = f"{did_you_mean(name, SCENARIOS)}groupreplay simulate --list prints all; docs/simulations.md has the way "
        raise unusable(
            f"there is no scenario {name!r}", None, f"{fix}to simulate one of your own from Python"
        )
    return SCENARIOS[name]


def checked_properties(
    table: Mapping[str, Setting], properties: Mapping[str, str], flag: str
) -> dict[str, SettingValue]:
    """The settings of a flag such as ``--broker-property``, by Kafka's names.

    Raises:
        GroupReplayError: a name is unknown, or a value is not allowed.
    """
    values = {}
    for name, text in properties.items():
        if name not in table:
            raise _unknown(table, name, flag)
        try:
            values[name] = table[name].parsed(text)
        except ValueError as error:
            raise unusable(str(error), flag, "docs/simulations.md lists the settings") from None
    return values


def check_broker(values: Mapping[str, SettingValue], where: str, *, scala: bool = True) -> None:
    """Check that a broker would start with these settings; ``scala``: one with the older coordinator.

    Raises:
        GroupReplayError: two settings contradict each other, or the broker does not know one of them.
    """
    if PROTOCOL_VERSION in values and not scala:
        what = f"brokers since 4.0 do not know {PROTOCOL_VERSION}"
        raise unusable(what, where, "add --scala: earlier ones have the older coordinator")
    _need_none(next(iter(contradictions(BROKER_SETTINGS, values)), None), "broker", where)


def check_clients(scenario: Scenario, where: str) -> None:
    """Check that clients would start with the settings of a scenario.

    Raises:
        GroupReplayError: two settings contradict each other.
    """
    _need_none(scenario.contradiction(), "client", where)


def simulation_plan(
    name: str,
    broker: Mapping[str, str],
    client: Mapping[str, str],
    more_of_broker: Mapping[str, SettingValue] | None = None,
    *,
    scala: bool = False,
    **fields: Any,
) -> SimulationPlan:
    """The plan of a built-in scenario with these settings, by Kafka's names; ``fields`` are others of the plan.

    Raises:
        GroupReplayError: the scenario or a setting is unknown or wrong.
    """
    clients = checked_properties(CLIENT_SETTINGS, client, "--client-property")
    scenario = scenario_named(name).with_client(clients)
    check_clients(scenario, "--client-property")
    brokers = {**scenario.broker, **checked_properties(BROKER_SETTINGS, broker, "--broker-property")}
    brokers |= more_of_broker or {}
    check_broker(brokers, "--broker-property", scala=scala)
    return SimulationPlan.of(scenario, brokers, scala=scala, **fields)


def _need_none(contradiction: str | None, who: str, where: str) -> None:
    if contradiction is not None:
        what = f"a {who} does not start with these settings, {contradiction}"
        raise unusable(what, where, "change one of the two")


def _unknown(table: Mapping[str, Setting], name: str, where: str) -> GroupReplayError:
    other, others = ("client", CLIENT_SETTINGS) if table is BROKER_SETTINGS else ("broker", BROKER_SETTINGS)
    if name in others:
        return unusable(f"{name} is a setting of the {other}", where, f"give it with --{other}-property")
    fix = f"{did_you_mean(name, table)}known here: {', '.join(table)}"
    return unusable(f"unknown setting {shown(name)!r}", where, fix)


#: Topic, partition, offset, timestamp, timestamp type, key, value.
SimulatedRow: TypeAlias = tuple[str, int, int, int, int, bytes, "bytes | None"]


def simulated_rows(
    plan: SimulationPlan,
    target: RowTarget,
    truth: TextIO,
    progress: ProgressCallback,
    *,
    trace: TextIO | None = None,
) -> Iterator[SimulatedRow]:
    """All rows; writes the true states to ``truth``, and the coordinator's steps to ``trace``, on the way.

    The records come partition by partition, in the order of their offsets. The prober's messages are one partition of
    their own topic, ordered by time: the answers of each round, then its summary.
    """
    with ExitStack() as stack:
        answers = MessageSorter(stack)
        rounds = Rounds(plan, target)
        settings = SettingsAnswers(plan, target)
        done = 0
        for partition, group_ids in enumerate(plan.group_ids()):
            for item in simulate(plan, group_ids, partition):
                if isinstance(item, WrittenRecord):
                    rounds.records[partition] += 1
                    if (message := settings.answer(item)) is not None:
                        answers.add(message.taken_ms, *encode_message(message))
                    yield _record(target, partition, item)
                elif isinstance(item, GroupProbe):
                    rounds.note_answer(item)
                    answers.add(item.taken_ms, *encode_message(group_answer(target, partition, item, plan)))
                elif isinstance(item, LogEnds):
                    rounds.note_ends(partition, item)
                elif isinstance(item, TraceEntry):
                    assert trace is not None
                    trace.write(msgspec.json.encode(item).decode() + "\n")
                else:
                    truth.write(_line(item) + "\n")
            done += len(group_ids)
            progress(done, plan.groups)
        messages = heapq.merge(answers, rounds.messages(), key=lambda message: message[0])
        for offset, (taken_ms, key, value) in enumerate(messages):
            yield target.probes_topic, 0, offset, taken_ms, 0, key, value


#: Groups commit the same partitions again and again.
_encoded_key: Final = lru_cache(maxsize=2**14)(encode_key)


def _record(target: RowTarget, partition: int, item: WrittenRecord) -> SimulatedRow:
    value = None if item.value is None else encode_value(item.value)
    return target.topic, partition, item.offset, item.timestamp_ms, 0, _encoded_key(item.key), value


def _line(item: GroupTransition | CoordinatorWarning) -> str:
    if isinstance(item, CoordinatorWarning):
        return json.dumps({"time_ms": item.at_ms, "group_id": item.group_id, "warning": item.text})
    change = item.change
    return json.dumps(
        {
            "time_ms": change.at_ms,
            "group_id": item.group_id,
            "type": change.group_type,
            "before": change.before.value,
            "after": change.after.value,
            "generation": change.generation,
        }
    )


CLUSTER_ID: Final = "simulated"
ERA: Final = "simulated"
_BATCH_ROWS: Final = 5_000


def truth_path(path: Path) -> Path:
    """The file of the true states of a capture: ``night.truth.jsonl`` for ``night.parquet``."""
    return path.with_suffix(".truth.jsonl")


def trace_path(path: Path) -> Path:
    """The file of the coordinator's steps beside a capture: ``night.trace.jsonl`` for ``night.parquet``."""
    return path.with_suffix(".trace.jsonl")


def write_simulation(
    plan: SimulationPlan,
    path: Path,
    progress: ProgressCallback = no_progress,
    *,
    truth: Path | None = None,
    trace: Path | None = None,
    force: bool = False,
) -> int:
    """Write the capture, the true states, and the ``trace`` of a traced plan; returns the number of records.

    The same plan gives the same bytes. The files appear when they are complete, the capture first; files that exist are
    replaced with ``force`` only.

    Raises:
        GroupReplayError: a file cannot be written.
    """
    if is_written_into(path) and (truth is None or (trace and trace == trace_path(path))):
        raise unusable(
            f"the true states {'and the trace ' if trace else ''}have no place beside what is no file",
            path,
            "give a file, or --truth-file and no --trace",
        )
    truth = truth or truth_path(path)
    require_new([path, truth, trace], force=force)
    with (
        nullcontext() if trace is None else atomic_file(trace, force=force) as trace_file,
        atomic_file(truth, force=force) as truth_file,
        CaptureWriter(path, cluster_id=CLUSTER_ID, era=ERA, context=_context(plan), force=force) as capture,
    ):
        capture.topic_names.update(plan.topic_names())
        rows = simulated_rows(plan, RowTarget(cluster_id=CLUSTER_ID), truth_file, progress, trace=trace_file)
        for _, of_partition in groupby(rows, key=itemgetter(0, 1)):
            while chunk := list(islice(of_partition, _BATCH_ROWS)):
                columns = list(zip(*chunk, strict=True))
                capture.write(pa.RecordBatch.from_arrays(columns, schema=ROW_SCHEMA))
    return capture.rows


def _context(plan: SimulationPlan) -> CaptureContext:
    """What a capture of these brokers says about them; its time is the simulated one."""
    return CaptureContext(
        tool=f"groupreplay {__version__}",
        command="simulate",
        begun_ms=BEGIN_MS,
        complete_ms=plan.end_ms,
        brokers="simulated Kafka 3.9 (Scala coordinator)" if plan.settings.scala else "simulated Kafka 4.3",
        retention_ms=plan.settings.retention_ms,
        check_interval_ms=plan.check_interval_ms,
        sessions={
            GroupType.CONSUMER.value: (
                plan.settings.consumer_session_timeout_ms,
                plan.settings.consumer_session_timeout_ms,
                plan.settings.consumer_heartbeat_interval_ms,
            )
        },
        group_settings={},
        partitions=plan.partitions,
        probes=None if plan.probe_interval_ms is None else PROBES_TOPIC,
    )
