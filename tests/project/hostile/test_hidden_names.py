"""Nothing that the job writes with a redaction lets a reader with a dictionary find out a hidden name."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import pytest

from groupreplay.app.inspection.records import DecodeCounts, decode_rows
from groupreplay.app.simulate.files import CLUSTER_ID, ERA, write_simulation
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.simulation import SimulationPlan
from groupreplay.state import Context
from groupreplay.state.conditions.detection import Detection
from groupreplay.state.conditions.member_flapping import MemberFlapping
from groupreplay.state.conditions.tracker import ConditionTracker, condition_id
from groupreplay.state.job.bad_records import BadRecord
from groupreplay.state.output.envelope import json_schemas
from groupreplay.state.policy.context import FIELDS, Redaction
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.engine.json_messages import dead_letter_row
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.engine.wire import BadRecordBytes
from groupreplay.streaming.sources.capture import read_captures
from support.histories.builders import generation, member, replay
from support.histories.modern_builders import first_join
from support.histories.raw_records import Raw
from support.job.captures import write_capture
from support.tools.hidden_names import names_in, recognised

DETECTION = Detection(
    kind=MemberFlapping, since_ms=7, threshold_ms=1, details=MemberFlapping.EXAMPLES[0].fields, subject="slot"
)
REDACTION = Redaction(frozenset(FIELDS), b"sixteen bytes or more")
HOUR_MS = 3_600_000
#: Keys of records with members: of classic and of KIP-848 groups.
KEYS = (b"\0\2", b"\0\5")
#: Texts of events and documents that show no name of a machine or a program. A field is hidden, or stands here.
PUBLIC = {
    "labels and ids of the operator, of Kafka and of the log": {
        *(
            "cluster_id",
            "group_id",
            "labels",
            "topic",
            "partitions",
            "revoking",
            "tasks",
            "subscribed_topics",
            "topics",
        ),
        *(
            "rebalance_id",
            "completed_event",
            "cost",
            "condition_id",
            "rack_id",
            "process_id",
            "connectors",
            "assignor",
        ),
    },
    "Kafka's words": {
        *(
            "type",
            "group_type",
            "from_type",
            "to_type",
            "state",
            "protocol",
            "previous_protocol",
            "protocol_type",
            "member_protocol",
        ),
        "supported_protocols",
    },
    "words of the job": {
        *("evidence", "history", "trigger", "reason", "kind", "direction", "what", "status", "condition"),
        *("severity", "changed", "suspects_note", "fix", "runbook", "field", "release", "error", "raised_in"),
        *("words", "candidates", "assumed", "assumed_release", "rule", "base", "damage"),
        *("kinds", "certainty", "first", "command", "events"),
    },
    "made of events and documents in which names are hidden before": {
        *("incident_id", "groups", "shared", "value", "text")
    },
}


#: Maps from topics, or from labels.
MAPS = {"partitions", "target_partitions", "revoking", "tasks", "labels"}
#: Fields of a document that are null in the samples and otherwise numbers or flags.
NUMBERS = {
    *("generation", "group_epoch", "target_epoch", "topology_epoch", "epoch", "next_expiry_ms", "since_ms"),
    *("oldest_commit_ms", "newest_commit_ms", "since_ms_earliest", "session_timeout_ms"),
    *("rebalance_timeout_ms", "is_leader", "usual_ms"),
}


def text_fields(schema: Mapping[str, Any]) -> Iterator[str]:
    """The names of all fields with a text, at any depth; maps are fields of texts, too."""
    for name, inner in schema.get("properties", {}).items():
        kinds = json.dumps(inner)
        if '"string"' in kinds or '"enum"' in kinds or '"const"' in kinds or "additionalProperties" in kinds:
            yield name
    for inner in schema.values():
        for one in inner if isinstance(inner, list) else [inner]:
            if isinstance(one, Mapping):
                yield from text_fields(one)
    for inner in schema.get("properties", {}).values():
        yield from text_fields(inner)


def test_every_text_is_hidden_or_public() -> None:
    """A new field of an event or a document is in one of the two lists, or this fails."""
    hidden, public = frozenset[str]().union(*FIELDS.values()), set[str]().union(*PUBLIC.values())
    shown = {name for schema in json_schemas().values() for name in text_fields(schema["properties"]["data"])}
    shown |= document_fields()
    assert {"client_host", "members", "topic"} <= shown
    # Fields that hold other fields.
    nested = {"members", "gone", "blockers", "suspects", "candidates", "cause", "connect", "truncated"}
    nested |= {"old", "new", "requested_by", "transactions"}
    assert shown - hidden - public - nested == set()
    assert hidden & public == set()


def document_fields() -> set[str]:
    """The fields of documents of both kinds of groups that have a text, or nothing at this moment."""

    def fields(value: Any) -> Iterator[str]:
        for name, inner in value.items():
            ones = inner if isinstance(inner, list) else [inner]
            if name in MAPS:
                continue
            if any(isinstance(one, str) or one is None for one in ones):
                yield name
            for one in ones:
                if isinstance(one, dict):
                    yield from fields(one)

    found = set[str]()
    for history in ([generation(1, member("a", [0], instance_id="i"), at=1_000)], first_join("m", at=1_000)):
        document = replay(history)[0].take_document()
        assert isinstance(document, dict)
        found |= {*fields(document)}
    return found - NUMBERS


def capture_of(folder: Path, scenario: str) -> Path:
    """Two hours of the scenario, and a record of each member that cannot be decoded."""
    path = folder / f"{scenario}.parquet"
    plan = SimulationPlan(
        scenario=SCENARIOS[scenario], groups=2, duration_ms=2 * HOUR_MS, seed=1, partitions=1
    )
    write_simulation(plan, path)
    records = records_of(path)
    broken = [(key, value[:-3]) for key, value in records if key and value and key[:2] in KEYS][:5]
    rows = [Raw(1, place, 1_000, *record) for place, record in enumerate(broken)]
    assert rows
    write_capture(folder / f"{scenario}-broken.parquet", rows, cluster_id=CLUSTER_ID, era=ERA)
    return path


def records_of(*paths: Path) -> list[tuple[bytes | None, bytes | None]]:
    """The records of captures."""
    return [
        pair
        for batch in read_captures(paths).batches
        for pair in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)
    ]


def written(rows: list[OutputRow]) -> bytes:
    """All bytes of messages, without ids of groups and topics, which are the simulation's own."""
    headers = [value for row in rows for _, value in row.headers]
    return b"\n".join([*headers, *(part for row in rows for part in (row.key, row.value or b""))])


#: Scenarios that raise a condition about a member, with the name of the condition.
CONDITIONS = {
    "flapping": "member.flapping",
    "crash-loop": "static.crash_loop",
    "idle": "member.idle",
    "silent": "owner.silent",
    "timeouts": "rebalance.timeouts",
    "stuck-kip848": "rebalance.stuck",
}


@pytest.mark.parametrize(("scenario", "condition"), CONDITIONS.items())
def test_a_dictionary_finds_nothing(tmp_path: Path, scenario: str, condition: str) -> None:
    """Neither as text nor encoded nor hashed, in no event, document or dead letter; without a redaction it does."""
    capture_of(tmp_path, scenario)
    paths = sorted(tmp_path.glob("*.parquet"))
    names = names_in(records_of(*paths))
    assert len(names) > 5
    outputs = {}
    for redaction in (None, REDACTION):
        context = Context(
            cluster_id=CLUSTER_ID,
            era=ERA,
            probing=True,
            complete_since_ms=0,
            member_events=True,
            redaction=redaction,
        )
        rows = list(Replay(context).feed(read_captures(paths)))
        assert {Output.EVENTS, Output.STATES, Output.DEAD_LETTERS} <= {row.output for row in rows}
        assert any(f"groupreplay.{condition}.v1" == row.event_type for row in rows)
        outputs[redaction] = written(rows)
    assert recognised(outputs[REDACTION], names) == set()
    found = {one.partition(" ")[0] for one in recognised(outputs[None], names)}
    assert found >= {"plain", "encoded"}
    # The ids of conditions about members end in a hash.
    assert ("hash" in found) == (condition != "rebalance.stuck")


def test_decoded_records(tmp_path: Path) -> None:
    """Kafka's own JSON, with its subscriptions and assignments as bytes."""
    path = capture_of(tmp_path, "stuck-kip848")
    shown = [json.dumps(one) for one in decode_rows(read_captures([path]), DecodeCounts())]
    hidden = [json.dumps(REDACTION.of(json.loads(one))) for one in shown]
    names = names_in(records_of(path))
    assert recognised("\n".join(hidden).encode(), names) == set()
    assert recognised("\n".join(shown).encode(), names) != set()


SLOT = hashlib.blake2b(b"ppayments-host17@/h-17", digest_size=8).hexdigest()
#: What the id of a condition about a member ends in, without a redaction.
SLOT_HASH = hashlib.sha256(SLOT.encode()).hexdigest()[:8].encode()


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (b'"host":"payments-host17"', {"plain payments-host17"}),
        (b'"\\u00e9t\xc3\xa9-host"', set()),
        (base64.b64encode(b"..payments-host17.."), {"encoded payments-host17"}),
        (b"payments-host17".hex().encode(), {"encoded payments-host17"}),
        (
            b"-" + hashlib.sha256(b"payments-host17").hexdigest()[:8].encode() + b'"',
            {"hash of payments-host17"},
        ),
        (hashlib.md5(b"ipayments-host17").hexdigest().upper().encode(), {"hash of ipayments-host17"}),
        (SLOT_HASH, {"hash of ppayments-host17@/h-17"}),
        (f"{crc32(b'payments-host17'):08x}".encode(), {"hash of payments-host17"}),
        (REDACTION.hide("payments-host17").encode(), set()),
        (REDACTION.digest("payments-host17", 32).encode(), set()),
    ],
)
def test_what_a_dictionary_finds(output: bytes, found: set[str]) -> None:
    """Every form that the search knows is found when it is there, and a keyed hash is not."""
    assert recognised(output, {"payments-host17", "/h-17"}) == found


def test_a_condition_keeps_its_id() -> None:
    """From firing to resolved, also when redaction is switched on or off between; a new one has a keyed id."""
    before = condition_id("g", DETECTION)
    keyed = condition_id("g", DETECTION, REDACTION)
    assert before.startswith(keyed[:-8])
    assert before != keyed
    for first, later, expected in ((None, REDACTION, before), (REDACTION, None, keyed)):
        tracker = ConditionTracker("g", {}, "runbook", redaction=first)
        fired = tracker.update([DETECTION], {MemberFlapping.NAME}, 10)
        tracker.redaction = later
        again = tracker.update(
            [msgspec.structs.replace(DETECTION, dedup_key=("news",))], {MemberFlapping.NAME}, 20
        )
        over = tracker.update([], {MemberFlapping.NAME}, 30)
        assert [one.condition.condition_id for one in (*fired, *again, *over)] == [expected] * 3
        assert [one.condition.status for one in over] == ["resolved"]


def test_dead_letters_keep_no_bytes() -> None:
    """Lengths stay, hashes are keyed, and the same bytes have the same hash."""
    bad = BadRecord(
        partition=0,
        offset=1,
        timestamp_ms=2,
        group="g",
        kind="malformed",
        key_type=2,
        version=3,
        field="members[0].client_id",
        byte_position=9,
        reason="needs 5 bytes, 3 are left",
    )
    packed = BadRecordBytes.of(bad, b"key of payments-host17", b"value of payments-host17", 1_000)
    plain, hidden = (
        json.loads(dead_letter_row(packed, Context(cluster_id="c", redaction=one)).value or b"")
        for one in (None, REDACTION)
    )
    assert {name for name in plain if plain[name] != hidden[name]} == {
        *("key_base64", "value_base64", "key_sha256", "value_sha256")
    }
    assert (hidden["key_base64"], hidden["value_base64"]) == (None, None)
    assert hidden["value_sha256"] == REDACTION.digest(
        hashlib.sha256(b"value of payments-host17").hexdigest(), 32
    )
    assert hidden["value_length"] == 24
