"""What the job writes, message by message, and the one place that decodes JSON which was read from a topic.

``EventHead`` and ``GroupHead`` have the fields of events and of groups' documents that more than one reader needs;
readers add those that they alone need in a subclass. The tests compare the names with what is written: a default would
hide a field that nobody writes any more. The other structs are the values in ``group-job`` by key; the order of their
fields is the order of the keys in the JSON. A field that a job of another release may not write has a default.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

_Message = TypeVar("_Message")

#: An integer of 64 bits: Python's own have no limit, and one of 400 digits cannot be divided.
Integer: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
#: Besides msgspec's own errors: text that is not UTF-8 (a ValueError), JSON nested deeper than Python's stack, and
#: numbers that fit into no type.
_FAILURES: Final = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)


class MessageDecoder(Generic[_Message]):
    """Decodes messages that are one kind of message in JSON; other programs may write to the same topic."""

    def __init__(self, kind: Any) -> None:
        self._decoder: Final = msgspec.json.Decoder(kind)

    def decode(self, value: bytes | None) -> _Message | None:
        """The message; None if the value is missing or is no such message. Readers count what is None."""
        if value is None:
            return None
        try:
            message: _Message = self._decoder.decode(value)
        except _FAILURES:
            return None
        return message


#: Any JSON object. Unlike a struct, which skips fields that it does not know, it checks the encoding of every text.
OBJECTS: Final = MessageDecoder[dict[str, Any]](dict[str, Any])


#: First byte of the keys of messages that are about no group; a group id cannot begin with it.
RESERVED: Final = b"\0"


class Output(str, Enum):
    """The topics that the operator writes, by their field in ``TopicNames``."""

    EVENTS = "events"
    STATES = "states"
    DEAD_LETTERS = "dead_letters"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One message for a topic; ``value`` None is a tombstone.

    ``event_type`` (as in CloudEvents) and ``severity`` (its number) are those of an event, None for other messages.
    They are not part of the message: the query counts by them.
    """

    output: Output
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    event_type: str | None = None
    severity: int | None = None


class EventHead(msgspec.Struct):
    """The attributes of a CloudEvent that readers need; each declares ``data`` with the fields that it needs."""

    id: str
    type: str
    time: Annotated[str, Meta(max_length=40)]
    severitynumber: Integer
    severitytext: str


class ConditionForm(msgspec.Struct):
    """An active condition in a document."""

    condition: str
    severity: str
    condition_id: str = ""
    since_ms: Integer | None = None


class OffsetSums(msgspec.Struct):
    """The committed offsets of a group: how many, and when the first of them may be removed."""

    partitions: Integer = 0
    next_expiry_ms: Integer | None = None


class GroupHead(msgspec.Struct):
    """A group's document without its members, who may be many, and without its conditions."""

    group_id: str
    cluster_id: str = ""
    type: str = ""
    simple: bool = False
    state: str = ""
    generation: Integer | None = None
    group_epoch: Integer | None = None
    since_ms: Integer | None = None
    member_count: Integer = 0
    offsets: OffsetSums = msgspec.field(default_factory=OffsetSums)
    labels: dict[str, str] = {}

    @property
    def epoch(self) -> int | None:
        """The generation, or the group epoch of a newer kind of group."""
        return self.generation if self.group_epoch is None else self.group_epoch


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


class StateCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch did with the groups' states, summed over their partitions; null: this release of Spark has no count.

    The times are those of tasks: calls of groups with rows (``update_seconds``) and of those whose timer was due
    (``timer_seconds``), writing the states (``commit_seconds``), fetching them (``load_seconds``). ``loaded``
    partitions came from the checkpoint: their task ran elsewhere before.
    """

    written: Integer = 0
    memory_bytes: Integer = 0
    update_seconds: float = 0.0
    timer_seconds: float = 0.0
    commit_seconds: float = 0.0
    load_seconds: float | None = None
    loaded: Integer | None = None


class LastBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The job's last finished batch; ``phases`` are its seconds by the names of Spark's report."""

    id: Integer = -1
    seconds: float
    rows: Integer
    phases: dict[str, float] = {}
    state: StateCost | None = None


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
    settings name. ``once``: the run ends when it has read what is there (``run --once``). ``settled``: events of
    deadlines that passed before the query began are emitted, too. ``hides_names``: it runs with ``--redact``; null: an
    earlier release wrote it, which does not say.
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
    settled: bool = True
    hides_names: bool | None = None


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
