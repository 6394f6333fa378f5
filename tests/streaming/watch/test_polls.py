"""A log that arrives poll by poll, with restarts from the state file between, gives the events of one replay."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.state import Context
from groupreplay.streaming.config.settings import RetentionFlags
from groupreplay.streaming.contract.log import ROW_SCHEMA
from groupreplay.streaming.contract.messages import Output
from groupreplay.streaming.contract.probe_messages import HeartbeatMessage, encode_message
from groupreplay.streaming.delivery.event_file import EventFile
from groupreplay.streaming.engine.json_messages import event_row
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.sources.capture import CaptureSource
from groupreplay.streaming.sources.source import Rows, context_of
from groupreplay.streaming.watch.own_messages import OWN_TOPIC
from groupreplay.streaming.watch.polls import Outcome, Polls, Read
from groupreplay.streaming.watch.state_file import Owner, StateFile
from groupreplay.timeline.incident_signals import document_items, event_items
from groupreplay.timeline.incidents import IncidentFinder
from support.job.captures import simulated_capture
from support.job.replays import events_of

POLLS = 12


@dataclass
class Log:
    """A capture as it was written: records, and the messages of the prober, each in the order of their times."""

    context: Context
    records: pa.Table
    messages: Sequence[tuple[int, bytes, bytes]]

    @classmethod
    def of(cls, path: Path) -> Log:
        """The content of a file."""
        rows = CaptureSource([path]).open()
        messages = [
            (at_ms, key, value)
            for batch in rows.probes
            for at_ms, key, value in zip(
                *(batch[name].to_pylist() for name in ("timestamp", "key", "value")), strict=True
            )
        ]
        records = pa.Table.from_batches(list(rows.batches), ROW_SCHEMA)
        context = context_of(rows, RetentionFlags(), member_events=True)
        return cls(context, records, messages)

    def between(self, begin_ms: int, end_ms: int) -> Read:
        """What was written in a time, and a heartbeat: everything from before ``end_ms`` is there."""
        times = self.records["timestamp"].to_numpy()
        chosen = self.records.filter(pa.array((times >= begin_ms) & (times < end_ms)))
        numbers = chosen["partition"].to_numpy()
        batches = [
            batch
            for number in sorted(set(numbers.tolist()))
            for batch in chosen.filter(pa.array(numbers == number)).combine_chunks().to_batches()
        ]
        beat = HeartbeatMessage(
            cluster_id=self.context.cluster_id,
            era=self.context.era,
            job_id="",
            run_id="r",
            at_ms=end_ms,
            caught_up_ms=end_ms,
            offsets={},
        )
        messages = [(key, value) for at_ms, key, value in self.messages if begin_ms <= at_ms < end_ms]
        return Read(
            records=batches,
            read_to={batch["partition"][-1].as_py(): batch["offset"][-1].as_py() + 1 for batch in batches},
            messages=[*messages, encode_message(beat)],
            read_ms=end_ms,
        )

    def cuts(self, seed: int) -> list[int]:
        """Begin, random times, and end."""
        times = self.records["timestamp"].to_numpy()
        first_ms, last_ms = int(times.min()), int(times.max()) + 1
        inner = random.Random(seed).sample(range(first_ms + 1, last_ms), POLLS)
        return [first_ms, *sorted(inner), last_ms]


@dataclass
class Heard:
    """What the polls have written."""

    events: list[dict[str, Any]] = field(default_factory=list)
    documents: list[dict[str, Any]] = field(default_factory=list)
    messages: list[pa.RecordBatch] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """One more poll."""
        self.events += map(json.loads, outcome.events.values())
        self.documents += (
            json.loads(row.value) for row in outcome.rows if row.output is Output.STATES and row.value
        )
        self.messages += outcome.messages

    def in_order(self) -> list[dict[str, Any]]:
        """The events in the order of the log."""
        return in_order(self.events)


def in_order(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """By place and id: polls give them in another order than one replay."""
    return sorted(events, key=lambda event: (event["sequence"], event["id"]))


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A capture of each scenario by name, made once for each size."""
    folder = tmp_path_factory.mktemp("simulated")

    def capture(scenario: str, groups: int = 3, seconds: int = 1_200) -> Path:
        path = folder / f"{scenario}-{groups}-{seconds}.parquet"
        if not path.exists():
            words = ("--groups", groups, "--seconds", seconds, "--scenario", scenario, "--seed", 11)
            simulated_capture(path, *words)
        return path

    return capture


def polled(log: Log, path: Path, seed: int) -> Heard:
    """Polls at random times; before each third one the process is killed and another one goes on."""
    heard, cuts = Heard(), log.cuts(seed)
    owner = Owner(
        cluster_id=log.context.cluster_id, era=log.context.era, partitions=50, first_start_ms=0, job_id=""
    )
    for number, (begin_ms, end_ms) in enumerate(pairwise(cuts)):
        if number % 3 == 0:
            file = StateFile(path)
            file.claim(owner)
            polls = Polls(log.context, file.load(), file)
        outcome = polls.take(log.between(begin_ms, end_ms))
        heard.add(outcome)
        polls.delivered(list(outcome.events))
        if number % 3 == 2:
            file.close()
    file.close()
    return heard


def replayed(log: Log, heard: Heard, end_ms: int) -> list[dict[str, Any]]:
    """The events of one replay of the same records and messages."""
    rows = Rows(
        log.context.cluster_id,
        log.context.era,
        iter(by_partition(log.records)),
        probes=heard.messages,
        probes_topic=OWN_TOPIC,
    )
    replay = Replay(log.context, now_ms=end_ms - 1)
    return in_order(events_of(replay.feed(rows)))


def by_partition(records: pa.Table) -> Iterator[pa.RecordBatch]:
    """As a source gives them."""
    for number in sorted(set(records["partition"].to_pylist())):
        chosen = records.filter(pa.array(records["partition"].to_numpy() == number))
        yield from chosen.combine_chunks().to_batches()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_polls_with_restarts_are_one_replay(scenario: str, simulated: Any, tmp_path: Path) -> None:
    """The same events with the same ids and the same bytes, of every scenario that can be simulated."""
    log = Log.of(simulated(scenario))
    heard = polled(log, tmp_path / "state.db", seed=len(scenario))
    # Groups without members only commit.
    assert bool(heard.events) == (scenario != "simple")
    assert heard.in_order() == replayed(log, heard, log.cuts(0)[-1])


def test_incidents_across_restarts(simulated: Any, tmp_path: Path) -> None:
    """What all groups have in common is one incident, with the events of a finder that is told all at once."""
    log = Log.of(simulated("unwritable", groups=8, seconds=9_000))
    heard = polled(log, tmp_path / "state.db", seed=1)
    incidents = [event for event in heard.in_order() if ".incident." in event["type"]]
    finder = IncidentFinder(runbook=log.context.policy.runbook)
    for event in heard.events:
        finder.take(event_items(event))
    for document in heard.documents:
        finder.take(document_items(document))
    rows = [event_row(event, log.context, None) for event in finder.advance(log.cuts(0)[-1])]
    assert incidents == in_order([json.loads(row.value or b"") for row in rows])
    assert {event["type"].split(".")[2] for event in incidents} == {"opened", "resolved"}


def test_hostile_records_across_restarts(simulated: Any, tmp_path: Path) -> None:
    """Values that are cut off, garbage and impossible times: the same events as of one replay, and groups go on."""
    log = Log.of(simulated("mixed"))
    rows = log.records.to_pylist()
    for number, row in enumerate(rows):
        if number % 17 == 3:
            row["value"] = (row["value"] or b"xx")[:-2]
        elif number % 17 == 9:
            row["key"] = bytes(range(number % 250, 251))
        elif number % 17 == 12:
            row["value"] = b"\x00\x63" + (row["value"] or b"")
    log.records = pa.Table.from_pylist(rows, ROW_SCHEMA)
    heard = polled(log, tmp_path / "state.db", seed=3)
    events = heard.in_order()
    assert events == replayed(log, heard, log.cuts(0)[-1])
    names = {event["type"].split(".", 1)[1].removesuffix(".v1") for event in events}
    assert {"rebalance.completed", "record.malformed"} <= names, names


def test_a_file_of_events_across_kills(simulated: Any, tmp_path: Path) -> None:
    """Each event is in the file once, in order, though processes are killed before they know what was written."""
    log = Log.of(simulated("mixed"))
    events = list[bytes]()
    owner = Owner(
        cluster_id=log.context.cluster_id, era=log.context.era, partitions=50, first_start_ms=0, job_id=""
    )
    for number, (begin_ms, end_ms) in enumerate(pairwise(log.cuts(5))):
        state = StateFile(tmp_path / "state.db")
        state.claim(owner)
        polls = Polls(log.context, state.load(), state, [EventFile(tmp_path / "events.jsonl")])
        events += polls.take(log.between(begin_ms, end_ms)).events.values()
        if number % 2:
            polls.forget_left()
        state.close()
    assert len(events) >= 20
    assert (tmp_path / "events.jsonl").read_bytes().splitlines() == events
    state = StateFile(tmp_path / "state.db")
    assert set(state.load().outgoing) <= {"jsonl"}
    state.close()
