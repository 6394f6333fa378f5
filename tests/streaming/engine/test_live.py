"""Any split of a history into batches, with ticks between them, gives the events and documents of one replay."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state import Context
from groupreplay.state.output.document import digest
from groupreplay.state.phrases import timestamp
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.contract.probe_messages import GroupAnswer
from groupreplay.streaming.engine.live import Live
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.sources.source import Rows
from support.histories.builders import (
    PARTITION,
    asked_for,
    commit,
    emptied,
    generation,
    gone,
    member,
    no_offset,
)
from support.histories.raw_records import Raw
from support.histories.strategies import WrittenLog, histories, logs, outlived
from support.job.captures import CLUSTER_ID, ERA, in_bytes, raw, rows_batch
from support.job.probes import PROBES, asked, probes_batch
from support.job.replays import events_of, named
from support.model.consumer_lives import NAMED

CONTEXT = replace(NAMED, cluster_id=CLUSTER_ID, era=ERA, member_events=True)
#: The same beside a prober.
PROBED = replace(CONTEXT, probing=True)


class Batch(NamedTuple):
    """What is read at once: records of some partitions, and answers of the prober."""

    records: Sequence[Raw] = ()
    answers: Sequence[tuple[int, GroupAnswer]] = ()

    def rows(self) -> Rows:
        """As a source gives them: partition by partition."""
        partitions = sorted({record.partition for record in self.records})
        batches = [
            rows_batch([record for record in self.records if record.partition == number])
            for number in partitions
        ]
        probes = [
            probes_batch([answer], append_ms=answer.taken_ms, first_offset=offset)
            for offset, answer in self.answers
        ]
        return Rows(CLUSTER_ID, ERA, iter(batches), probes=probes, probes_topic=PROBES)


def without_suspects(value: Any) -> Any:
    """All but who is suspected: a deadline between two commits of one run knows of the later one, too."""
    if isinstance(value, dict):
        hidden = {"suspects", "suspects_note"}
        return {name: None if name in hidden else without_suspects(one) for name, one in value.items()}
    return [without_suspects(one) for one in value] if isinstance(value, list) else value


@dataclass
class Told:
    """What a driver has written, and its groups at the end."""

    events: list[Any] = field(default_factory=list)
    documents: dict[bytes, Any] = field(default_factory=dict)
    groups: list[Any] = field(default_factory=list)

    def add(self, rows: Iterable[OutputRow]) -> None:
        """The next messages; of a key the last document stays, as in a compacted topic."""
        messages = list(rows)
        self.events += events_of(messages)
        self.documents |= {row.key: row.value for row in messages if row.output is Output.STATES}

    def at_end(self, engine: Live) -> Told:
        """All of it; events in the order of the log, tombstones of documents left out.

        Of the documents only what makes a new one: a commit alone does not, and its place and time stay behind.
        """
        self.events.sort(key=lambda event: (event["subject"], event["sequence"], event["id"]))
        self.documents = {
            key: digest(without_suspects(json.loads(value)))
            for key, value in self.documents.items()
            if value is not None
        }
        self.groups = [without_suspects(group.describe()) for group in engine.groups()]
        return self


def replayed(whole: Batch, context: Context = CONTEXT) -> tuple[Told, int]:
    """Of one replay, and the time at which the log ends."""
    told, replay = Told(), Replay(context)
    told.add(replay.feed(whole.rows()))
    return told.at_end(replay), replay.latest_ms + 1


def followed(batches: Sequence[tuple[Batch, int | None]], end_ms: int, context: Context = CONTEXT) -> Told:
    """Of the batches one after the other, each with the time of the tick behind it, if there is one."""
    told, live = Told(), Live(context)
    for batch, tick_ms in batches:
        told.add(live.take(batch.rows()))
        if tick_ms is not None:
            told.add(live.tick(tick_ms))
    told.add(live.tick(end_ms))
    return told.at_end(live)


def split(data: st.DataObject, whole: Batch) -> list[tuple[Batch, int | None]]:
    """The log as it may arrive: cut anywhere, answers before later records, and ticks that keep their promise."""
    records = sorted(whole.records, key=lambda record: record.timestamp_ms)
    answers = list(whole.answers)
    cuts = data.draw(st.sets(st.integers(1, len(records)), max_size=6)) | {0, len(records)}
    batches = []
    for begin, end in pairwise(sorted(cuts)):
        # Answers up to the last record of the batch are there; later ones may be.
        least = sum(answer.taken_ms <= records[end - 1].timestamp_ms for _, answer in answers)
        count = len(answers) if end == len(records) else data.draw(st.integers(least, len(answers)))
        batch, answers = Batch(records[begin:end], answers[:count]), answers[count:]
        coming = [record.timestamp_ms for record in records[end:]]
        coming += [answer.taken_ms for _, answer in answers]
        early_ms = data.draw(st.none() | st.integers(0, 60_000)) if coming else None
        batches.append((batch, None if early_ms is None else max(0, min(coming) - early_ms)))
    return batches


def of_two_groups(log: WrittenLog, other: WrittenLog) -> list[Raw]:
    """The bytes of two histories: of the group, and of another one in another partition."""
    mine = [Raw(PARTITION, one.offset, one.at, *in_bytes(one)) for one in log.records]
    theirs = [
        Raw(PARTITION + 1, one.offset, one.at, *in_bytes(replace(one, key=replace(one.key, group="other"))))
        for one in other.records
    ]
    return [*mine, *theirs]


every_log = pytest.mark.parametrize(
    "log_of",
    [histories().map(WrittenLog), logs(), outlived().map(WrittenLog)],
    ids=["arbitrary classic", "written by a coordinator", "after the retention"],
)


@every_log
@given(data=st.data())
def test_any_split_is_one_replay(log_of: st.SearchStrategy[WrittenLog], data: st.DataObject) -> None:
    """Two groups in two partitions, and a record that cannot be decoded; ids included."""
    records = of_two_groups(data.draw(log_of), data.draw(log_of))
    at = data.draw(st.integers(0, len(records)))
    broken = records[min(at, len(records) - 1)]
    records.append(broken._replace(partition=PARTITION + 2, offset=1, key=b"\0\2\0\1g", value=b"\0\3rubbish"))
    whole = Batch(records)
    told, end_ms = replayed(whole)
    assert followed(split(data, whole), end_ms) == told


DELETION = [
    generation(1, member("a", [0]), at=1_000),
    commit("t", 0, 5, at=2_000),
    commit("t", 1, 5, at=2_000),
    no_offset("t", 0, at=3_000),
    no_offset("t", 1, at=3_000),
    gone(at=3_000),
]


@pytest.mark.parametrize(("tick_ms", "deletions"), [(None, 1), (3_000, 1), (3_001, 2)])
def test_an_operation_that_is_cut(tick_ms: int | None, deletions: int) -> None:
    """It is one event, unless a tick says that all of it was read: then the rest counts as another operation."""
    records = raw(DELETION)
    whole = Batch(records)
    told, end_ms = replayed(whole)
    cut = followed([(Batch(records[:4]), tick_ms), (Batch(records[4:]), None)], end_ms)
    assert (cut == told) is (deletions == 1)
    assert len(named(cut.events, "offsets.deleted")) == deletions


OVERDUE_MS = 8 * 24 * 3_600_000
#: One request for two partitions of a group that has been empty for longer than the retention.
OVERDUE = [
    asked_for(at=1_010),
    emptied(2, at=10_020),
    commit("t", 0, 5, at=OVERDUE_MS),
    commit("t", 1, 5, at=OVERDUE_MS),
]


@pytest.mark.parametrize("tick_ms", [None, OVERDUE_MS])
def test_a_request_that_is_cut(tick_ms: int | None) -> None:
    """The offsets of both partitions expire soon, in one event, when the moment of the request has passed."""
    records = raw(OVERDUE)
    told, end_ms = replayed(Batch(records))
    assert followed([(Batch(records[:3]), tick_ms), (Batch(records[3:]), None)], end_ms) == told
    (expiring,) = named(told.events, "offsets.expiring")
    assert (expiring["data"]["partitions"], expiring["time"]) == ({"t": "0-1"}, timestamp(OVERDUE_MS + 1))


@pytest.mark.parametrize("later_ms", [0, 5_000])
def test_a_set_after_a_reset_that_is_cut(later_ms: int) -> None:
    """Of an offset that was lost, the first commit is a reset, and the next one a set: in one batch and in two."""
    at = 100_000 + later_ms
    records = raw(
        [
            generation(1, member("a", [0, 1]), at=1_000),
            commit("t", 0, 5, at=2_000),
            commit("t", 1, 5, at=2_000),
            emptied(2, at=10_000),
            no_offset("t", 0, at=20_000),
            commit("t", 0, 7, at=100_000),
            commit("t", 0, 3, at=at),
            commit("t", 1, 9, at=at),
            commit("t", 1, 9, at=300_000),
        ]
    )
    told, end_ms = replayed(Batch(records))
    for end in range(1, len(records)):
        assert followed([(Batch(records[:end]), None), (Batch(records[end:]), None)], end_ms) == told
    (step,) = named(told.events, "offsets.set")
    moved = [
        (part["partition"], part["from_offset"], part["to_offset"]) for part in step["data"]["partitions"]
    ]
    assert moved == [(0, 7, 3), (1, 5, 9)]


def test_a_group_that_the_brokers_do_not_know() -> None:
    """Its next commit begins another group, whether the answer and the commit are read at once or not."""
    records = raw([asked_for(at=1_010), emptied(2, at=10_020), commit("t", 0, 0, at=110_020)])
    answers = [
        (0, asked("g", "PreparingRebalance", at=20_000, members=["a"])),
        (1, asked("g", "Dead", at=30_000, members=[])),
    ]
    told, end_ms = replayed(Batch(records, answers), PROBED)
    cut = [(Batch(records[:2], answers), 110_020), (Batch(records[2:]), None)]
    assert followed(cut, end_ms, PROBED) == told
    (group,) = told.groups
    assert (group["simple"], group["protocol_type"], group["generation"]) == (True, None, None)


def test_what_is_written_when() -> None:
    """At once what is certain; what belongs to an open operation when a tick has closed it, and then no more."""
    live, records = Live(CONTEXT), raw(DELETION)
    calls = [
        *(live.take(Batch(records[begin:end]).rows()) for begin, end in [(0, 1), (1, 3), (3, 4)]),
        *map(live.tick, (3_000, 3_001, 4_000)),
    ]
    written = [[row.output.value for row in rows] for rows in calls]
    assert written == [["events", "events", "states"], ["states"], [], [], ["events", "states"], []]


STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead")


@every_log
@given(data=st.data())
def test_any_split_with_answers_is_one_replay(
    log_of: st.SearchStrategy[WrittenLog], data: st.DataObject
) -> None:
    """Also of the prober's answers, which take their place between the records."""
    log = data.draw(log_of)
    records = [Raw(PARTITION, one.offset, one.at, *in_bytes(one)) for one in log.records]
    last_ms = records[-1].timestamp_ms
    times = data.draw(st.lists(st.integers(0, last_ms + 70_000), max_size=12, unique=True))
    answers = [
        (offset, asked("g", data.draw(st.sampled_from(STATES)), at=at, members=["a"]))
        for offset, at in enumerate(sorted(times))
    ]
    whole = Batch(records, answers)
    told, end_ms = replayed(whole, PROBED)
    cut = followed(split(data, whole), end_ms, PROBED)
    cut.events, told.events = without_suspects(cut.events), without_suspects(told.events)
    assert cut == told


def test_a_deadline_between_two_commits_of_one_run() -> None:
    """It sees the partitions as they were then: the events are the same, with the suspects."""
    records = raw(
        [
            generation(1, member("a", [1]), at=1_000),
            commit("t", 0, 5, at=61_000),
            commit("t", 1, 5, at=121_000),
        ]
    )
    answers = [
        (offset, asked("g", "PreparingRebalance", at=at, members=["a"]))
        for offset, at in enumerate((0, 1_001))
    ]
    told, end_ms = replayed(Batch(records, answers), PROBED)
    cut = followed([(Batch(records[:2], answers), None), (Batch(records[2:]), None)], end_ms, PROBED)
    assert cut.events == told.events
    (slow,) = named(told.events, "rebalance.slow")[:1]
    assert slow["data"]["suspects_note"].startswith("no member has committed since the rebalance began")


@pytest.mark.parametrize("size", [7, 10_000])
def test_a_deadline_that_was_near_between_two_commits(size: int) -> None:
    """One partition commits all the time, another one again just before its offset expires: in one run or in many."""
    minute_ms, rest = 60_000, 11 * 60 + 50
    commits = [commit("t", 0, minute, at=minute_ms * minute) for minute in range(1, 12 * 60)]
    commits += [commit("t", 1, minute, at=minute_ms * minute + 1) for minute in (1, rest)]
    records = raw(sorted(commits, key=lambda record: record.at))
    engine, told = Live(replace(CONTEXT, retention_ms=12 * 60 * minute_ms)), list[str]()
    for start in range(0, len(records), size):
        events = events_of(engine.take(Batch(records[start : start + size]).rows()))
        told += [event["data"]["status"] for event in named(events, "offsets.expiring")]
    assert told == ["firing", "resolved"]
