"""A group whose state was damaged gets what the log holds of it: the driver reads, the group's call applies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from groupreplay.state import Context
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.contract.messages import Output
from groupreplay.streaming.contract.probe_messages import GroupRecords, decode_message, encode_message
from groupreplay.streaming.engine.advance import AdvanceResult, advance
from groupreplay.streaming.engine.probe_rows import ProbeFilter, pack_probes
from groupreplay.streaming.engine.wire import PackedDocumentRequest, to_wire
from groupreplay.streaming.run.state_rebuild import StateRebuild
from support.histories.raw_records import Raw, commit, generation, log
from support.job.captures import rows_batch
from support.job.packed import packed_by_key
from support.job.probes import CLUSTER_ID, probes_batch

CONTEXT = Context(cluster_id=CLUSTER_ID, complete_since_ms=1, release="1.0")
NOW_MS = 3_600_000
FILTER = ProbeFilter(topic="group-probes", cluster_id=CLUSTER_ID, run_id="r")
#: Of two groups; the state of the first one is damaged behind the fifth record.
BEFORE = log(
    [
        generation("g", 1),
        commit("g", "t", offset=5),
        generation("h", 1),
        commit("g", "u", offset=9),
        commit("g", "t", offset=6),
    ]
)
AFTER = log([commit("g", "t", offset=7), commit("h", "t", offset=1)], first_offset=5)
LATER = log([commit("g", "u", offset=10)], first_offset=7)


def packed(rows: Sequence[Raw]) -> list[bytes]:
    """The packed records of the first group."""
    return packed_by_key(rows)[b"g:g"]


def call(blob: bytes | None, *blobs: bytes) -> AdvanceResult:
    """One call of the operator."""
    return advance(b"g:g", blob, list(blobs), now_ms=NOW_MS, recorded_ms=NOW_MS, context=CONTEXT)


def document(blob: bytes | None) -> dict[str, Any]:
    """What the state says of the group."""
    rows = call(blob, to_wire(PackedDocumentRequest(in_topic=True))).rows
    (text,) = [row.value for row in rows if row.output is Output.STATES]
    found: dict[str, Any] = json.loads(text or b"")
    return {name: value for name, value in found.items() if name not in ("history", "recorded_ms")}


def ids(result: AdvanceResult) -> set[str]:
    """The ids of the events of a call."""
    return {json.loads(row.value or b"")["id"] for row in result.rows if row.output is Output.EVENTS}


def rebuild(read_to: int, sent: list[GroupRecords], rows: Sequence[Raw] = (*BEFORE, *AFTER)) -> StateRebuild:
    """That of a log of one partition, which the query has read so far."""
    return StateRebuild(
        probe_filter=FILTER,
        partitions=1,
        read=lambda _, end: [rows_batch([row for row in rows if row.offset < end])],
        read_to=lambda: {0: read_to},
        send=sent.append,
    )


def records(read_to: int) -> bytes:
    """The packed row that the group's call gets of the message."""
    sent: list[GroupRecords] = []
    driver = rebuild(read_to, sent)
    driver.note("g")
    driver.tick()
    (batch, *_) = pack_probes([probes_batch([encode_message(sent[0])])], FILTER)
    assert batch["key"].to_pylist() == [b"g:g"]
    (blob,) = batch["packed"].to_pylist()
    assert isinstance(blob, bytes)
    return blob


def test_the_group_is_as_if_nothing_had_happened() -> None:
    """Members, offsets and generation; also what came since the damage, and what comes with the records."""
    begun = call(None, *packed(BEFORE))
    continued = call(begun.blob, *packed(AFTER))
    healthy = call(continued.blob, *packed(LATER))
    damaged = call(b"", *packed(AFTER))
    assert document(damaged.blob) != document(continued.blob)
    rebuilt = call(damaged.blob, records(7), *packed(LATER))
    assert document(rebuilt.blob) == document(healthy.blob)
    assert ids(rebuilt) <= ids(begun) | ids(continued) | ids(healthy)


def test_a_group_at_rest() -> None:
    """Nothing has come since the damage was found, so that there is no state at all."""
    noted = call(b"").blob
    assert document(call(noted, records(5)).blob) == document(call(None, *packed(BEFORE)).blob)


@pytest.mark.parametrize("begun", [None, b""], ids=["healthy", "a later record was applied"])
def test_records_that_change_nothing(begun: bytes | None) -> None:
    """Those of a state that lacks nothing, and those that lack a record which the group has applied."""
    first = call(None, *packed(BEFORE)).blob if begun is None else begun
    state = call(first, *packed(AFTER)).blob
    assert document(call(state, records(5)).blob) == document(state)


def test_written_a_few_times_and_read_back() -> None:
    """Each time up to where the query is then; another run, and a group without records, get nothing."""
    sent: list[GroupRecords] = []
    driver = rebuild(7, sent)
    for group in ("g", "g", "nobody"):
        driver.note(group)
    for _ in range(7):
        driver.tick()
    assert [(one.group_id, one.run_id, one.read_to) for one in sent] == [("g", "r", 7)] * 5
    assert decode_message(*encode_message(sent[0])) == sent[0]
    other = ProbeFilter(topic="group-probes", cluster_id=CLUSTER_ID, run_id="other")
    assert [len(batch) for batch in pack_probes([probes_batch([encode_message(sent[0])])], other)] == [0]


def test_brokers_that_do_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    """The next try is made later, and the rest of the job does not notice."""

    def refused(_: GroupRecords) -> None:
        raise GroupReplayError("no broker answers")

    driver = rebuild(7, [])
    driver.send = refused
    driver.note("g")
    driver.tick()
    assert "the records of group 'g' cannot be handed to its call" in caplog.text


def test_what_is_no_packed_record() -> None:
    """Another program has written it: it reaches no group."""
    message = GroupRecords(
        cluster_id=CLUSTER_ID, run_id="r", group_id="g", read_to=3, packed=b"\xc1 no records"
    )
    assert [len(batch) for batch in pack_probes([probes_batch([encode_message(message)])], FILTER)] == [0]
