"""A log in one piece: the same records give the same bytes, in order, however they are cut; counts of events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from groupreplay.codecs import GroupMetadataKey, encode_key
from groupreplay.state import Context
from groupreplay.state.output.envelope import event_type
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.contract.probe_messages import HeartbeatMessage
from groupreplay.streaming.engine import live
from groupreplay.streaming.engine import replay as replay_module
from groupreplay.streaming.engine.group_choice import GroupChoice
from groupreplay.streaming.engine.packing.pack import packed_rows
from groupreplay.streaming.engine.replay import EventHead, EventTally, Filter, Replay, events_in_order
from groupreplay.streaming.sources.capture import read_captures
from support.histories.builders import PARTITION, asked_for, commit, emptied, generation, gone, member
from support.histories.raw_records import Raw, commit_key
from support.job.captures import CLUSTER_ID, ERA, raw, write_capture
from support.job.probes import asked, beat, probes_batch, summed_up

CONTEXT = Context(cluster_id=CLUSTER_ID, era=ERA)
LIFE = [
    asked_for(at=1_000),
    generation(1, member("a", [0, 1]), at=2_000),
    commit("t", 0, 5, at=3_000),
    generation(2, member("a", [0]), member("b", [1]), at=4_000),
    emptied(3, at=9_000),
    gone(at=9_500),
]


def other_group(rows: list[Raw], name: str, partition: int, later_ms: int) -> list[Raw]:
    """The group records of a history once more, under another name, in another partition, later."""
    mine = encode_key(GroupMetadataKey(group="g"))
    key = encode_key(GroupMetadataKey(group=name))
    return [Raw(partition, r.offset, r.timestamp_ms + later_ms, key, r.value) for r in rows if r.key == mine]


def rows() -> list[Raw]:
    """Two groups in two partitions, the later one in the first partition."""
    life = raw(LIFE)
    return [*life, *other_group(life, "h", 0, 500)]


def replayed(path: Path, driver: Replay | None = None, wanted: Filter | None = None) -> list[dict[str, Any]]:
    """The events of a capture, parsed."""
    rows = (driver or Replay(CONTEXT)).feed(read_captures([path]))
    events = events_in_order(rows, wanted or Filter())
    return [json.loads(event) for event in events]


def told(events: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Time, group and kind of each event."""
    return [
        (event["time"][17:23], event["data"]["group_id"], event["type"].split(".", 1)[1]) for event in events
    ]


ALL = [
    ("01.000", "g", "group.created.v1"),
    ("01.500", "h", "group.created.v1"),
    ("02.000", "g", "rebalance.completed.v1"),
    ("02.500", "h", "rebalance.completed.v1"),
    ("04.000", "g", "rebalance.completed.v1"),
    ("04.500", "h", "rebalance.completed.v1"),
    ("09.000", "g", "group.emptied.v1"),
    ("09.500", "g", "group.deleted.v1"),
    ("09.500", "h", "group.emptied.v1"),
    ("10.000", "h", "group.deleted.v1"),
]


def test_events_by_time_then_place(tmp_path: Path) -> None:
    """Groups of all partitions are told in one story; the last operation of the input is closed, too."""
    path = write_capture(tmp_path / "a.parquet", rows())
    events = replayed(path)
    # Same time: partition 0 comes first.
    expected = [*ALL[:7], ALL[8], ALL[7], ALL[9]]
    assert told(events) == expected
    assert all(event["time"] == event["recordedtime"] for event in events)
    assert events[0]["id"] == f"__consumer_offsets-{ERA}-3-100-group.created-0"


def test_the_same_bytes_again(tmp_path: Path) -> None:
    """No clock and no order of files gets into the output."""
    whole = write_capture(tmp_path / "whole.parquet", rows())
    (tmp_path / "parts").mkdir()
    for index, row in enumerate(reversed(rows())):
        write_capture(tmp_path / "parts" / f"{index}.parquet", [row])
    texts = [
        list(events_in_order(Replay(CONTEXT).feed(read_captures([path])), Filter()))
        for path in (whole, whole, tmp_path / "parts")
    ]
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize(
    ("wanted", "groups", "expected"),
    [
        (Filter(types={event_type("group.deleted")}), None, [ALL[7], ALL[9]]),
        (Filter(since_ms=4_500, until_ms=9_500), None, [ALL[5], ALL[6]]),
        (Filter(), ["h"], [event for event in ALL if event[1] == "h"]),
        (Filter(), ["nobody"], []),
    ],
)
def test_filters(
    tmp_path: Path, wanted: Filter, groups: list[str] | None, expected: list[tuple[str, str, str]]
) -> None:
    """Filters choose among the events and change none of them."""
    path = write_capture(tmp_path / "a.parquet", rows())
    assert told(replayed(path, Replay(CONTEXT, groups), wanted)) == expected


def test_groups_at_the_end(tmp_path: Path) -> None:
    """After the rows the living groups can be asked for; a deleted one is forgotten."""
    life = raw(LIFE[:4])
    path = write_capture(tmp_path / "a.parquet", [*life, *other_group(raw(LIFE), "h", 0, 0)])
    driver = Replay(CONTEXT)
    list(driver.feed(read_captures([path])))
    assert [(group.group_id, group.describe()["generation"]) for group in driver.groups()] == [("g", 2)]


@pytest.mark.parametrize(
    ("until_ms", "told_of"), [(1_999, 1), (2_000, 2), (9_499, 4), (9_500, 5), (99_999, 5)]
)
def test_the_log_may_end_early(tmp_path: Path, until_ms: int, told_of: int) -> None:
    """Records of the last millisecond count, later ones do not, and the last operation is closed."""
    path = write_capture(tmp_path / "a.parquet", raw(LIFE))
    assert (
        told(replayed(path, Replay(CONTEXT, until_ms=until_ms)))
        == [event for event in ALL if event[1] == "g"][:told_of]
    )


def test_only_asked_for_groups_are_wanted() -> None:
    """Without a choice all are."""
    choices: list[list[str] | None] = [None, ["g"], ["h"], []]
    assert [Replay(CONTEXT, groups).wants("g") for groups in choices] == [True, True, False, False]


def test_a_bad_record_is_told_and_counted(tmp_path: Path) -> None:
    """Bytes that follow no schema become an event and a dead letter; the groups beside go on."""
    path = write_capture(tmp_path / "a.parquet", [*raw(LIFE), Raw(0, 7, 5_000, b"\0\2\0\1g", b"\0\3rubbish")])
    driver = Replay(CONTEXT)
    events = replayed(path, driver)
    assert told(events)[3] == ("05.000", "g", "record.malformed.v1")
    assert (len(events), driver.dead_letters) == (6, 1)


def stuck() -> pa.RecordBatch:
    """What a prober saw of a group that did not come to its end, between two generations."""
    seen = [asked("g", "PreparingRebalance", at=at * 1_000, members=["a", "b"]) for at in range(10, 250, 10)]
    return probes_batch(
        [
            summed_up(at=5_000),
            beat(at=6_000, caught_up=5_000),
            *seen,
            asked("g", "Stable", at=250_000, members=["a", "b"]),
            summed_up(at=251_000, rights="missing"),
        ]
    )


BLOCKED = [
    *LIFE[:4],
    generation(3, member("a", [0]), member("b", [1]), at=245_000),
    commit("t", 0, 6, at=300_000),
]
PROBING = Context(cluster_id=CLUSTER_ID, era=ERA, probing=True)


def test_probes_take_their_place_between_the_records(tmp_path: Path) -> None:
    """The log alone shows two generations; the probes show what was between, and are applied at their time."""
    path = write_capture(tmp_path / "a.parquet", raw(BLOCKED), probes=stuck())
    events = replayed(path, Replay(PROBING))
    kinds = [(event["type"].split(".", 1)[1], event["data"].get("status")) for event in events[3:]]
    assert kinds == [
        ("rebalance.started.v1", None),
        ("rebalance.slow.v1", "firing"),
        ("rebalance.stuck.v1", "firing"),
        ("rebalance.completed.v1", None),
        ("rebalance.slow.v1", "resolved"),
        ("rebalance.stuck.v1", "resolved"),
        ("job.blind.v1", "firing"),
    ]
    assert events[3]["id"] == f"group-probes-{ERA}-0-2-rebalance.started-0"
    assert told(replayed(write_capture(tmp_path / "b.parquet", raw(BLOCKED))))[3:] == [
        ("05.000", "g", "rebalance.completed.v1")
    ]


def test_what_the_job_says_of_itself(tmp_path: Path) -> None:
    """It is of no group: a choice of groups leaves it out, and one without any text is no choice."""
    path = write_capture(tmp_path / "a.parquet", raw(BLOCKED), probes=stuck())
    found = {
        patterns: [
            event["type"]
            for event in replayed(path, Replay(PROBING, GroupChoice(patterns)))
            if event["type"].startswith("groupreplay.job.")
        ]
        for patterns in ((), ("*",), ("g",))
    }
    assert found == {(): ["groupreplay.job.blind.v1"], ("*",): [], ("g",): []}


def test_clocks_of_coordinators_in_a_replay(tmp_path: Path) -> None:
    """The heartbeats in the capture say when a record was written, and the event names the record."""
    log = raw([generation(1, member("a", [0]), at=2_000), commit("t", 0, 5, at=3_000_000)])
    ends = {partition: 1 + max(one.offset for one in log) for partition in {one.partition for one in log}}
    beats = [replace(beat(at=at, caught_up=at), high_watermarks=ends) for at in (10_000, 20_000)]
    round_ = replace(summed_up(at=9_000), leaders=dict.fromkeys(ends, 4))
    path = write_capture(tmp_path / "a.parquet", log, probes=probes_batch([round_, *beats]))
    (blind,) = [one for one in replayed(path) if one["type"] == "groupreplay.job.blind.v1"]
    last = log[-1]
    shown = {name: blind["data"][name] for name in ("what", "partitions", "brokers", "off_ms", "offset")}
    assert shown == {
        "what": "clock",
        "partitions": [last.partition],
        "brokers": [4],
        "off_ms": 2_990_000,
        "offset": last.offset,
    }
    assert (blind["data"]["cause"]["topic"], blind["time"]) == (
        "__consumer_offsets",
        "1970-01-01T00:00:20.000Z",
    )
    # Behind each record came the next ones: nothing is wrong when the log had ended before them.
    short = [replace(one, high_watermarks=dict.fromkeys(ends, 0)) for one in beats]
    path = write_capture(tmp_path / "b.parquet", log, probes=probes_batch([round_, *short]))
    assert [one for one in replayed(path) if one["type"] == "groupreplay.job.blind.v1"] == []


def test_a_wrong_time_does_not_end_the_log(tmp_path: Path) -> None:
    """Deadlines are those of the time up to which the log is known, not of a record or a message from another age."""
    far = [Raw(PARTITION, 900, at_ms, commit_key("g", "far"), None) for at_ms in (2**62, 2**45)]
    log = [*raw(LIFE[:4]), far[0], far[1]._replace(offset=901)]
    driver = Replay(CONTEXT)
    list(driver.feed(read_captures([write_capture(tmp_path / "a.parquet", log)])))
    assert driver.latest_ms == 4_000
    ends = HeartbeatMessage(
        cluster_id=CLUSTER_ID,
        era=ERA,
        job_id="j",
        run_id="r",
        at_ms=9_000,
        caught_up_ms=8_000,
        offsets={PARTITION: 999},
    )
    late = asked("g", "Stable", at=4_000_000_000_000)
    ahead = log[-1]._replace(timestamp_ms=80_000_000)
    path = write_capture(tmp_path / "b.parquet", [*log[:-1], ahead], probes=probes_batch([ends, late]))
    driver = Replay(CONTEXT)
    list(driver.feed(read_captures([path])))
    assert driver.latest_ms == 8_000 + 86_400_000
    path = write_capture(tmp_path / "c.parquet", [*log[:-1], ahead], probes=probes_batch([ends]))
    driver = Replay(CONTEXT)
    list(driver.feed(read_captures([path])))
    assert driver.latest_ms == 9_000


def test_as_many_probes_as_there_are(tmp_path: Path) -> None:
    """A state holds some hundred that wait; a replay gives it each at its time, however long the capture is."""
    rounds = range(500)
    log = [generation(at + 1, member("a", [0]), at=10_000 * at) for at in rounds]
    seen = [
        asked("g", state, at=10_000 * at + after_ms, members=["a"])
        for at in rounds
        for state, after_ms in [("PreparingRebalance", 2_000), ("CompletingRebalance", 4_000)]
    ]
    path = write_capture(tmp_path / "a.parquet", raw(log), probes=probes_batch(seen))
    kinds = [kind for _, _, kind in told(replayed(path))]
    assert kinds.count("rebalance.started.v1") == len(rounds)


def test_probes_of_later_do_not_count(tmp_path: Path) -> None:
    """The log and what stands beside it end at the same moment."""
    path = write_capture(tmp_path / "a.parquet", raw(BLOCKED), probes=stuck())
    driver = Replay(CONTEXT, until_ms=20_000)
    list(driver.feed(read_captures([path])))
    (group,) = driver.groups()
    assert group.describe()["state"] == "PreparingRebalance"


def test_cut_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of one row give the events of one chunk, also when the cut goes through an operation."""
    path = write_capture(tmp_path / "a.parquet", rows())
    whole = replayed(path)

    def one_by_one(batches: Any, horizons: Any) -> Any:
        for batch in batches:
            for place in range(batch.num_rows):
                yield from packed_rows(iter([batch.slice(place, 1)]), horizons)

    monkeypatch.setattr(live, "packed_rows", one_by_one)
    assert replayed(path) == whole


@given(order=st.permutations(range(60)), limit=st.integers(1, 5_000))
def test_sorting_in_memory_or_on_disk(order: list[int], limit: int) -> None:
    """More events than memory should hold are sorted in runs on disk, with the same result."""

    def row(number: int) -> OutputRow:
        event = {"type": "x", "time": f"2026-01-01T00:00:{number // 3:02d}.000Z", "sequence": f"{number:05d}"}
        event["severitynumber"] = 9
        return OutputRow(Output.EVENTS, b"g", json.dumps({**event, "text": "ü\n"}).encode())

    rows = [*(row(number) for number in order), OutputRow(Output.STATES, b"g", b"{}")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_module, "_SPILL_BYTES", limit)
        events = list(events_in_order(rows, Filter()))
    assert events == [row(number).value for number in range(60)]


def head(name: str, second: int, severity: int = 9) -> EventHead:
    """The attributes of an event."""
    return EventHead(f"groupreplay.{name}.v1", f"2026-01-01T00:00:{second:02d}.000Z", "0", severity)


def test_all_are_counted_and_some_selected() -> None:
    """By name and severity, with the extent of their times, whatever the filter says."""
    tally = EventTally(Filter(least_severity=13))
    events = [head("group.created", 5), head("rebalance.stuck", 3, 17), head("rebalance.stuck", 9, 13)]
    assert [tally(event) for event in events] == [False, True, True]
    assert (tally.shown, tally.first, tally.last) == (2, events[1].time, events[2].time)
    assert tally.text() == ("3 events: rebalance.stuck 2, group.created 1; INFO 1, WARN 1, ERROR 1")


def test_many_kinds() -> None:
    """The most frequent ones, and how many others; a severity that nobody knows is a number."""
    tally = EventTally(Filter())
    for number in range(8):
        tally(head(f"a.b{number}", 0, 3))
    assert tally.text() == ("8 events: a.b0 1, a.b1 1, a.b2 1, a.b3 1, a.b4 1, a.b5 1 and 2 other kinds; 3 8")
