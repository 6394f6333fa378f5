"""The values in ``group-job`` by key: the job's document, its claim, its conditions and their state, and bad records.

The order of the fields is the order of the keys in the JSON. Every field has a default that a reader takes when a
job of another release does not write the field, except the two without which the document is of no use.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from groupreplay.streaming.contract.messages import RESERVED, Integer, MessageDecoder

#: Key of ``JobDocument``.
JOB_KEY: Final = RESERVED + b"job"
#: Key of ``OwnerClaim``.
OWNER_KEY: Final = RESERVED + b"owner"
#: ``JobDocument.phase`` of a run that has ended and writes no more.
STOPPED: Final = "stopped"
#: Key of ``JobConditions``.
CONDITIONS_KEY: Final = RESERVED + b"conditions"
#: Key of ``JobStateMessage``.
STATE_KEY: Final = RESERVED + b"state"
#: ``JobDocument.phase`` while no query reads the log.
WAITING: Final = "waiting"


def bad_records_key(topic: str, partition: int) -> bytes:
    """Key of ``BadRecordCounts``."""
    return RESERVED + f"{topic}-{partition}".encode()


class Lag(msgspec.Struct, frozen=True):
    """Offsets between the last finished batch and the end of the log: the sum, and by partition."""

    offsets: Integer = 0
    partitions: dict[str, Integer] = {}


class LastBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The job's last finished batch."""

    id: Integer = -1
    seconds: float
    rows: Integer


class RulesStatus(msgspec.Struct, frozen=True):
    """How often the job took changed rules, and why it refused the present file (None: it did not)."""

    changes: Integer = 0
    error: str | None = None


class LastProbe(msgspec.Struct, frozen=True, kw_only=True):
    """The prober's last round; ``brokers``: by id, null or why the broker gave no answer."""

    round_ms: Integer
    rights: str
    brokers: dict[str, str | None] = {}
    groups: Integer


class QueryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a query reads the log, since when it is so (null: there was no query yet), and why it does not."""

    running: bool = True
    since_ms: Integer | None = None
    error: str | None = None


class JobDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The status of the job. Times are milliseconds since 1970; counters start at 0 with the job's process.

    ``clock_off_ms``: by how much the clock of the job's machine is ahead of the brokers' (null: unknown); the other
    times are corrected by it if it is more than 5 seconds. ``checkpoint`` is the folder on ``host`` or the URI that the
    settings name. ``once``: the run ends when it has read what is there (``run --once``).
    """

    cluster_id: str = ""
    topic: str = ""
    era: str = ""
    job_id: str = ""
    run_id: str = ""
    version: str = ""
    first_start_ms: Integer = 0
    started_ms: Integer = 0
    heartbeat_ms: Integer
    phase: str = ""
    caught_up_ms: Integer | None = None
    trigger_seconds: float
    lag: Lag = Lag()
    batch: LastBatch | None = None
    state_rows: Integer = 0
    counters: dict[str, Integer] = {}
    record_types: dict[str, Integer] = {}
    restarts: Integer = 0
    last_error: str | None = None
    rules: RulesStatus = RulesStatus()
    prober_restarts: Integer = 0
    prober: LastProbe | None = None
    clock_off_ms: Integer | None = None
    host: str = ""
    checkpoint: str = ""
    query: QueryStatus = QueryStatus()
    once: bool = False


class OwnerClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A run takes over the job's topics. It writes this once; of two claims the later one in the topic holds.

    ``era`` and ``first_start_ms`` are those of its documents.
    """

    cluster_id: str = ""
    job_id: str = ""
    run_id: str
    host: str = ""
    checkpoint: str = ""
    started_ms: Integer = 0
    era: str = ""
    first_start_ms: Integer = 0


class JobConditions(msgspec.Struct, frozen=True):
    """The active conditions of the job, as documents show them."""

    cluster_id: str = ""
    conditions: list[dict[str, Any]] = []


class JobStateMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the job's conditions, as the query keeps it in the checkpoint: the driver continues from it.

    ``state``: the bytes of ``JobWatch.snapshot_for_driver``. After a gap the job has another ``era``, and no state.
    """

    cluster_id: str = ""
    job_id: str = ""
    era: str = ""
    state: bytes


class KindCount(msgspec.Struct, frozen=True, kw_only=True):
    """Number of records of one kind and key type that could not be used; None: the key cannot be read.

    Those of the kind ``timestamp`` were used, with another time.
    """

    kind: str
    key_type: Integer | None = None
    records: Integer


class BadRecordCounts(msgspec.Struct, frozen=True):
    """The records of one partition of the offsets topic that could not be used, ever."""

    cluster_id: str = ""
    partition: Integer = -1
    bad_records: list[KindCount] = []


_document: Final = MessageDecoder[JobDocument](JobDocument)
_claim: Final = MessageDecoder[OwnerClaim](OwnerClaim)
_state: Final = MessageDecoder[JobStateMessage](JobStateMessage)


def decode_run_message(key: bytes | None, value: bytes | None) -> JobDocument | OwnerClaim | None:
    """A document or a claim of a run; None for every other message of the topic, and for what cannot be read."""
    if key == OWNER_KEY:
        return _claim.decode(value)
    return _document.decode(value) if key == JOB_KEY else None


def decode_state_message(key: bytes | None, value: bytes | None) -> JobStateMessage | None:
    """A message with the state of the job's conditions; None for every other one, and for what cannot be read."""
    return _state.decode(value) if key == STATE_KEY else None
