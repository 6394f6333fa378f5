"""A defect that one group's records trigger does not stop the others."""

from __future__ import annotations

import json
import logging
import re
from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest

from groupreplay.state import Context, Group, SnapshotError
from groupreplay.state.job_watch import JobWatch
from groupreplay.state.snapshot import group_snapshot
from groupreplay.state.stored_form import DamagedStateError, sealed
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.engine import advance as advance_module
from groupreplay.streaming.engine import quarantine
from groupreplay.streaming.engine.advance import AdvanceResult, advance
from groupreplay.streaming.engine.wire import PackedDocumentRequest, to_wire
from support.histories.raw_records import commit, generation, log
from support.job.packed import packed_by_key

CONTEXT = Context(cluster_id="c", complete_since_ms=1, release="1.0")
NOW_MS = 100_000
SECRET = "orders-of-a-customer"


ROWS = log(
    [generation("g", 0), commit("g", SECRET, offset=5), commit("g", SECRET, offset=6), generation("h", 0)]
)
LATER = log([generation("g", 5), commit("g", SECRET, offset=7), commit("h", "t", offset=1)], first_offset=4)


def call(key: bytes, blob: bytes | None, blobs: list[bytes], context: Context = CONTEXT) -> AdvanceResult:
    """One call of the operator."""
    return advance(key, blob, blobs, now_ms=NOW_MS, recorded_ms=NOW_MS, context=context)


def bodies(rows: list[OutputRow], output: Output) -> list[dict[str, Any]]:
    """The messages for one topic."""
    return [json.loads(row.value) for row in rows if row.output is output and row.value is not None]


@pytest.fixture
def defect(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Commits of group ``g`` raise, and the exception quotes the record."""
    sound = Group._apply_run

    def apply_run(self: Group, run: Any) -> Any:
        if self.group_id == "g":
            raise ValueError(f"cannot cope with {run.topics}")
        return sound(self, run)

    monkeypatch.setattr(Group, "_apply_run", apply_run)
    return monkeypatch


@pytest.mark.usefixtures("defect")
def test_the_group_is_set_aside() -> None:
    """An event names the exception and the record, without text of it; the others go on."""
    keys = packed_by_key(ROWS)
    result = call(b"g:g", None, keys[b"g:g"])
    (event,) = bodies(result.rows, Output.EVENTS)
    data = event["data"]
    assert re.fullmatch(r"state/group\.py:\d+ _apply_item", data["raised_in"])
    shown = ("group_id", "what", "error", "partition", "offset", "records", "release", "history")
    assert {name: data[name] for name in shown} == {
        "group_id": "g",
        "what": "group",
        "error": "ValueError",
        "partition": 0,
        "offset": 1,
        "records": 2,
        "release": "1.0",
        "history": "partial",
    }
    assert (event["severitytext"], event["type"]) == ("ERROR", "groupreplay.group.quarantined.v1")
    assert SECRET not in json.dumps(event)
    assert (result.changed, result.removable, result.deadline_ms) == (True, False, None)
    other = call(b"g:h", None, keys[b"g:h"])
    assert [one["type"] for one in bodies(other.rows, Output.EVENTS)] == ["groupreplay.group.created.v1"]


def test_a_library_in_a_folder_of_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The place is in the package itself, wherever it is installed and whatever it calls."""
    names: dict[str, Any] = {}
    library = "/opt/groupreplay/lib/other.py"
    exec(compile("def fail(group, run): raise ValueError", library, "exec"), names)
    monkeypatch.setattr(Group, "_apply_run", names["fail"])
    (event,) = bodies(call(b"g:g", None, packed_by_key(ROWS)[b"g:g"]).rows, Output.EVENTS)
    assert re.fullmatch(r"state/group\.py:\d+ _apply_item", event["data"]["raised_in"])


@pytest.mark.usefixtures("defect")
def test_its_records_become_dead_letters() -> None:
    """Records with their bytes, a run of commits as its range of offsets."""
    result = call(b"g:g", None, packed_by_key(ROWS)[b"g:g"])
    record, run = bodies(result.rows, Output.DEAD_LETTERS)
    assert (record["offset"], b64decode(record["key_base64"]), b64decode(record["value_base64"])) == (
        0,
        ROWS[0].key,
        ROWS[0].value,
    )
    assert {name: run[name] for name in ("offset", "last_offset", "commits", "kind", "key_type")} == {
        "offset": 1,
        "last_offset": 2,
        "commits": 2,
        "kind": "quarantined",
        "key_type": None,
    }
    assert SECRET not in run["reason"]


def test_later_records_are_counted_only(defect: pytest.MonkeyPatch) -> None:
    """Until the group is tried again; a batch that is read again is counted once."""
    blob = call(b"g:g", None, packed_by_key(ROWS)[b"g:g"]).blob
    defect.undo()
    result = call(b"g:g", blob, packed_by_key(LATER)[b"g:g"])
    result = call(b"g:g", result.blob, packed_by_key(LATER)[b"g:g"])
    assert (result.changed, result.deadline_ms, result.rows) == (True, None, [])
    note = quarantine.read(result.blob)
    assert note is not None
    assert (note.records, note.last_offset, note.partition) == (5, 5, 0)


@pytest.mark.parametrize("context", [replace(CONTEXT, release="1.1"), replace(CONTEXT, retry_run="run-2")])
def test_tried_again(defect: pytest.MonkeyPatch, context: Context) -> None:
    """With another release, or in a run that was asked to: from an empty state, with partial history."""
    blob = call(b"g:g", None, packed_by_key(ROWS)[b"g:g"]).blob
    assert call(b"g:g", blob, [], context).blob == blob
    defect.undo()
    result = call(b"g:g", blob, packed_by_key(LATER)[b"g:g"], context)
    (document,) = bodies(result.rows, Output.STATES)
    assert (document["history"], document["generation"]) == ("partial", 5)
    assert quarantine.read(result.blob) is None
    assert result.changed


@pytest.mark.usefixtures("defect")
def test_once_in_a_run_that_was_asked_to() -> None:
    """A group that fails again waits for the next run."""
    blob = call(b"g:g", None, packed_by_key(ROWS)[b"g:g"]).blob
    again = replace(CONTEXT, retry_run="run-2")
    first = call(b"g:g", blob, packed_by_key(LATER)[b"g:g"], again)
    assert [one["data"]["offset"] for one in bodies(first.rows, Output.EVENTS)] == [5]
    assert call(b"g:g", first.blob, packed_by_key(LATER)[b"g:g"], again).rows == []
    assert call(b"g:g", first.blob, packed_by_key(LATER)[b"g:g"]).rows == []


@pytest.mark.usefixtures("defect")
def test_a_request_for_its_document_is_no_try() -> None:
    """Also in a run that tries again: without records the empty state would say that the group was deleted."""
    blob = call(b"g:g", None, packed_by_key(ROWS)[b"g:g"]).blob
    asked = [to_wire(PackedDocumentRequest(in_topic=True))]
    result = call(b"g:g", blob, asked, replace(CONTEXT, release="2.0"))
    assert result.rows == []
    assert quarantine.read(result.blob) == quarantine.read(blob)


def test_keys_of_the_job_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect in the job's own conditions does not stop the groups either; the event has no group."""

    def broken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(JobWatch, "apply", broken)
    result = call(b"j:", None, [])
    (event,) = bodies(result.rows, Output.EVENTS)
    assert (event["data"]["group_id"], event["data"]["what"], event["data"]["offset"]) == (None, "job", None)


def healthy(group: str) -> bytes:
    """The state of a group after the first rows."""
    blob = call(f"g:{group}".encode(), None, packed_by_key(ROWS)[f"g:{group}".encode()]).blob
    assert blob is not None
    return blob


@pytest.mark.parametrize(
    ("damaged", "damage"),
    [
        (b"", "snapshot is damaged: it has no bytes"),
        (b"\x01", "snapshot of version 1 is damaged: it ends after its version"),
        (healthy("g")[:-1], "snapshot of version 1 is damaged: its bytes do not have its checksum"),
        (b"\x03" + healthy("g")[1:], "snapshot of version 3 is damaged: no release writes this version"),
        (b"\xf0" + healthy("g")[1:], "quarantine note of version 240 is damaged"),
        (sealed(1, 1, b"\xff"), "snapshot of version 1 is damaged"),
        (sealed(0xF0, 1, b"\x90"), "quarantine note of version 240 is damaged"),
    ],
)
def test_a_damaged_state(damaged: bytes, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    """Event and log name the group and the damage; its records of this call begin a new state, with partial history."""
    result = call(b"g:g", damaged, packed_by_key(LATER)[b"g:g"])
    event, *others = bodies(result.rows, Output.EVENTS)
    assert (event["id"], event["severitytext"]) == ("__consumer_offsets-0-0-4-group.state_damaged-0", "ERROR")
    data = {name: event["data"][name] for name in ("group_id", "what", "history")}
    assert data == {"group_id": "g", "what": "group", "history": "partial"}
    assert event["data"]["damage"].startswith(damage)
    assert {other["data"]["history"] for other in others} == {"partial"}
    (document,) = bodies(result.rows, Output.STATES)
    assert (document["history"], document["generation"]) == ("partial", 5)
    assert bodies(result.rows, Output.DEAD_LETTERS) == []
    assert quarantine.read(result.blob) is None
    ((_, level, text),) = caplog.record_tuples
    assert (level, "state of group 'g' is damaged" in text, damage in text) == (logging.WARNING, True, True)


@pytest.mark.parametrize(
    "begun", [b"", quarantine.write(quarantine.Quarantined("0.9", None, "E", "p", 0, 1, 1))]
)
def test_a_state_that_began_anew_knows_no_members(begun: bytes) -> None:
    """Its commits may be those of members whose record is older: they are no sets from outside, also in later calls."""
    minute_ms, offsets = 60_000, (100, 200, 50, 60, 10)
    types, blob = list[str](), begun
    for number, offset in enumerate(offsets, 1):
        row = commit("g", "t", offset=offset, commit_timestamp_ms=number * 10 * minute_ms)
        now_ms = number * 10 * minute_ms + 5 * minute_ms
        (row,) = log([row], first_offset=number)
        blobs = packed_by_key([row._replace(timestamp_ms=number * 10 * minute_ms)])[b"g:g"]
        result = advance(b"g:g", blob, blobs, now_ms=now_ms, recorded_ms=now_ms, context=CONTEXT)
        types += [event["type"] for event in bodies(result.rows, Output.EVENTS)]
        assert result.blob is not None
        blob = result.blob
    assert "groupreplay.offsets.set.v1" not in types
    assert "groupreplay.group.created.v1" not in types


def test_a_state_that_began_anew_and_is_known_again() -> None:
    """A generation that was seen from its beginning makes the history full, and the group is one as any other."""
    result = call(b"g:g", b"", packed_by_key(LATER)[b"g:g"])
    known = packed_by_key(log([generation("g", 6), generation("g", 7)], first_offset=8))[b"g:g"]
    later = call(b"g:g", result.blob, known)
    assert later.blob is not None
    assert (documents_of(later)[-1]["history"], group_snapshot.read(later.blob).log.begun_anew) == (
        "full",
        False,
    )


def documents_of(result: AdvanceResult) -> list[dict[str, Any]]:
    """The documents that a call has written."""
    return bodies(result.rows, Output.STATES)


def test_a_damaged_state_without_records() -> None:
    """A timer or a request for the document says it once, and begins nothing: an empty group would seem deleted."""
    first = call(b"g:g", b"", [])
    assert [event["type"] for event in bodies(first.rows, Output.EVENTS)] == [
        "groupreplay.group.state_damaged.v1"
    ]
    asked = call(b"g:g", first.blob, [to_wire(PackedDocumentRequest(in_topic=True))])
    assert (len(first.rows), first.deadline_ms, asked.rows, asked.removable) == (1, None, [], False)
    later = call(b"g:g", asked.blob, packed_by_key(LATER)[b"g:g"])
    (document,) = bodies(later.rows, Output.STATES)
    assert (document["history"], document["generation"]) == ("partial", 5)
    assert "state_damaged" not in str(bodies(later.rows, Output.EVENTS))


def test_ids_of_damaged_states() -> None:
    """A repeated call has the same id; two groups whose timers were due in one batch have two."""
    g, again, h = (
        bodies(call(key, b"", []).rows, Output.EVENTS)[0]["id"] for key in (b"g:g", b"g:g", b"g:h")
    )
    assert g == again != h


@pytest.mark.parametrize(("key", "what"), [(b"j:", "job"), (b"x:0", "bad_records")])
def test_damaged_states_of_the_job_itself(key: bytes, what: str) -> None:
    """Its conditions and its counts begin anew as well; the event has no group."""
    (event,) = bodies(call(key, b"", []).rows, Output.EVENTS)
    assert (event["data"]["group_id"], event["data"]["what"]) == (None, what)


@pytest.mark.parametrize(
    "blob",
    [sealed(2, 1, b"?"), sealed(0x0C, 1, b"?"), sealed(1, 99, healthy("g")[6:]), sealed(0xF0, 99, b"\x90")],
)
def test_the_state_of_a_later_release_ends_the_job(blob: bytes) -> None:
    """It is not damaged, and this release would lose what it cannot read: nothing is begun anew."""
    with pytest.raises(SnapshotError) as caught:
        call(b"g:g", blob, packed_by_key(LATER)[b"g:g"])
    assert not isinstance(caught.value, DamagedStateError)


def test_a_state_that_is_too_large(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The group is set aside before Spark gets it, its records are dead letters, and the log has the size.

    One that is as large as it may be is stored.
    """
    whole = call(b"g:g", None, packed_by_key(ROWS)[b"g:g"])
    assert whole.blob is not None
    monkeypatch.setattr(advance_module, "_MOST_BLOB_BYTES", len(whole.blob))
    assert call(b"g:g", None, packed_by_key(ROWS)[b"g:g"]) == whole
    monkeypatch.setattr(advance_module, "_MOST_BLOB_BYTES", len(whole.blob) - 1)
    result = call(b"g:g", None, packed_by_key(ROWS)[b"g:g"])
    (event,) = bodies(result.rows, Output.EVENTS)
    assert (event["type"], event["data"]["error"], event["data"]["records"]) == (
        "groupreplay.group.quarantined.v1",
        "StateTooLargeError",
        2,
    )
    assert len(bodies(result.rows, Output.DEAD_LETTERS)) == 2
    assert result.blob is not None
    assert quarantine.read(result.blob) is not None
    assert f"the state of group 'g' has {len(whole.blob)} bytes" in caplog.text


def test_a_new_state_that_seems_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this call has begun no disk has damaged: it is a defect, and the group is set aside."""

    def broken(*_: object) -> None:
        raise DamagedStateError

    monkeypatch.setattr(Group, "apply", broken)
    for blob, types in ((None, []), (b"", ["groupreplay.group.state_damaged.v1"])):
        events = bodies(call(b"g:g", blob, packed_by_key(ROWS)[b"g:g"]).rows, Output.EVENTS)
        assert [event["type"] for event in events] == [*types, "groupreplay.group.quarantined.v1"]


@pytest.mark.parametrize("error", [MemoryError, OSError, SnapshotError])
def test_faults_of_the_machine_fail_the_task(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    """Spark tries again, or the job ends with 5: no group is to blame."""
    stored = healthy("g")

    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(Group, "apply", broken)
    with pytest.raises(error):
        call(b"g:g", stored, packed_by_key(LATER)[b"g:g"])


@pytest.mark.usefixtures("defect")
def test_an_earlier_release_refuses_the_note() -> None:
    """It is no version of a snapshot: exit 5 instead of a wrong state."""
    blob = call(b"g:g", None, packed_by_key(ROWS)[b"g:g"]).blob
    assert blob is not None
    with pytest.raises(SnapshotError):
        Group.from_snapshot("g", CONTEXT, blob)


@pytest.mark.usefixtures("defect")
def test_the_note_of_a_later_release_is_refused() -> None:
    """As every other stored state: with exit 5, and not with an exception that would quarantine the key again."""
    blob = call(b"g:g", None, packed_by_key(ROWS)[b"g:g"]).blob
    assert blob is not None
    with pytest.raises(SnapshotError, match="quarantine note for readers from 2 on"):
        call(b"g:g", sealed(0xF0, 2, blob[6:]), packed_by_key(LATER)[b"g:g"])


@pytest.mark.usefixtures("defect")
def test_spark_gives_a_bytearray() -> None:
    """A note and a snapshot are told apart in it as well."""
    blob = call(b"g:g", None, packed_by_key(ROWS)[b"g:g"]).blob
    assert blob is not None
    later = packed_by_key(LATER)[b"g:g"]
    assert call(b"g:g", bytearray(blob), later) == call(b"g:g", blob, later)
    healthy = Group("g", CONTEXT).snapshot()
    assert call(b"g:g", bytearray(healthy), []) == call(b"g:g", healthy, [])
