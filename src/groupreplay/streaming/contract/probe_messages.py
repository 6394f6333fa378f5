"""The messages in ``group-probes``, in JSON: answers about groups, the prober's rounds, ends of partitions, heartbeats.

Other programs may write to the topic: a message that does not fit its declaration is None for the reader, never an
exception.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from groupreplay.state.job.observations import (
    HeartbeatObservation,
    ObservationPlace,
    OpenTransaction,
    RoundObservation,
)
from groupreplay.state.policy.context import OWN_SETTINGS
from groupreplay.state.snapshot.observations import (
    DeletedTopics,
    OwnSettingsAnswer,
    PendingTransaction,
    PendingTransactions,
    Probe,
    ProbedMember,
)
from groupreplay.streaming.contract.messages import MessageDecoder
from groupreplay.streaming.contract.partition_ends import EndsChanges, EndsRound, TopicEnds
from groupreplay.streaming.contract.probe_base import Count, Id, Message, Moment, Offset, Span

PartitionCount: TypeAlias = Annotated[int, Meta(ge=0, le=10_000)]
Rights: TypeAlias = Literal["ok", "missing", "unknown"]

#: Characters of the reason why a query is stopped that are written; a reader accepts more, of another release.
ERROR_LIMIT: Final = 300
_MOST_ERROR: Final = 4_096


class MemberAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A member in the response to DescribeGroups."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str


class _AboutGroup(Message, frozen=True, kw_only=True):
    """A message about one group, whose id is its key."""

    group_id: str

    @property
    def key(self) -> bytes:
        """The key of the message."""
        return self.group_id.encode("utf-8", "replace")


class _TakenAnswer(_AboutGroup, frozen=True, kw_only=True):
    """An answer about one group, with the time by which a reader goes; by the prober's clock."""

    taken_ms: Moment

    @property
    def dated_ms(self) -> int:
        """That time."""
        return self.taken_ms


class GroupAnswer(_TakenAnswer, frozen=True, kw_only=True, tag="group"):
    """The coordinator's answer about one group.

    ``taken_ms`` is the time before the request, by the prober's clock; ``state`` is Kafka's name of the state, and
    ``Dead`` means that there is no such group. ``broker`` is the coordinator's id. Rounds are ``interval_ms`` apart;
    the last round that would have found the group in a rebalance was ``unseen_ms`` before (None: not known).
    ``answered_ms`` is the time behind the answer (None: not known). The clock was ahead of the brokers' by ``ahead_ms``
    at most, as far as the prober has measured it (None: it has not). ``kept``: a watch has kept it, and a run that
    goes on after it has written it later: the time at which the broker has appended it says nothing.
    """

    MOST_BYTES: ClassVar[int] = 64 * 1024

    state: str
    broker: Id | None
    protocol_type: str | None
    protocol: str | None
    members: tuple[MemberAnswer, ...] = ()
    truncated: bool = False
    interval_ms: Span = 10_000
    unseen_ms: Span | None = None
    answered_ms: Moment | None = None
    ahead_ms: Span | None = None
    kept: bool = False

    def observation(self, place: ObservationPlace, append_ms: int | None) -> Probe:
        """The answer as its group applies it."""
        return Probe(
            taken_ms=self.taken_ms,
            state=self.state,
            topic=place.topic,
            partition=place.partition,
            offset=place.offset,
            broker=self.broker,
            members=tuple(
                ProbedMember(member.member_id, member.instance_id, member.client_id, member.client_host)
                for member in self.members
            ),
            interval_ms=self.interval_ms,
            unseen_ms=-1 if self.unseen_ms is None else self.unseen_ms,
            written_ms=self.answered_ms if append_ms is None or self.kept else append_ms,
            ahead_ms=self.ahead_ms or 0,
        )

    def shortened(self) -> GroupAnswer | None:
        """The answer with half of its members."""
        if not self.members:
            return None
        half = self.members[: len(self.members) // 2]
        return msgspec.structs.replace(self, members=half, truncated=True)


class DeletedTopicsAnswer(_TakenAnswer, frozen=True, kw_only=True, tag="deleted_topics"):
    """Topics that no broker knows any more, and of which the log has removed the offsets of one group.

    ``taken_ms`` is a time after the last of these tombstones was read, by the prober's clock. Rounds are
    ``interval_ms`` apart.
    """

    topics: tuple[str, ...]
    interval_ms: Span = 10_000

    def observation(self, place: ObservationPlace, append_ms: int | None) -> DeletedTopics:
        """The answer as its group applies it."""
        return DeletedTopics(
            **_heard(self, place, append_ms),
            topics=self.topics,
        )


class GroupSettingsAnswer(_TakenAnswer, frozen=True, kw_only=True, tag="settings"):
    """What a broker says that a group of a newer kind has set for itself, by Kafka's names.

    ``settings`` has those of ``OWN_SETTINGS`` whose value is not the brokers'. ``taken_ms`` is a time after the answer,
    by the prober's clock. Rounds are ``interval_ms`` apart.
    """

    settings: dict[str, Span]
    interval_ms: Span = 10_000

    def observation(self, place: ObservationPlace, append_ms: int | None) -> OwnSettingsAnswer:
        """The answer as its group applies it."""
        settings = {name: value for name, value in sorted(self.settings.items()) if name in OWN_SETTINGS}
        return OwnSettingsAnswer(
            **_heard(self, place, append_ms),
            settings=tuple((name, value) for name, value in settings.items() if value > 0),
        )


class GroupTransactionsAnswer(_TakenAnswer, frozen=True, kw_only=True, tag="transactions"):
    """The transactions with commits of a group that hold back a last stable offset; none: those before have ended.

    They were still open at ``taken_ms``, by the prober's clock. Rounds are ``interval_ms`` apart.
    """

    transactions: tuple[PendingTransaction, ...]
    interval_ms: Span = 10_000

    def observation(self, place: ObservationPlace, append_ms: int | None) -> PendingTransactions:
        """The answer as its group applies it."""
        return PendingTransactions(**_heard(self, place, append_ms), transactions=self.transactions)


def _heard(
    answer: DeletedTopicsAnswer | GroupSettingsAnswer | GroupTransactionsAnswer,
    place: ObservationPlace,
    append_ms: int | None,
) -> dict[str, Any]:
    """Where an answer stands in the topic, and when it was taken and written."""
    return {
        "taken_ms": answer.taken_ms,
        "topic": place.topic,
        "partition": place.partition,
        "offset": place.offset,
        "interval_ms": answer.interval_ms,
        "written_ms": append_ms,
    }


class RoundSummary(Message, frozen=True, kw_only=True, tag="round"):
    """One round of the prober, written after the answers about its groups.

    ``brokers``: by id, None for those that answered, else the error. ``partitions`` of the offsets topic that answered:
    high watermark and last stable offset; ``partition_count`` is None when no broker returned it. ``groups`` is the
    number of groups in a rebalance. ``job_id`` is None for a prober without a job. ``leaders``: the broker that leads
    each partition. ``transactions``: the one that holds back the last stable offset, of each partition where the round
    before had the same one, as far as it was read.
    """

    taken_ms: Moment
    brokers: dict[Id, str | None]
    rights: Rights
    partitions: dict[Id, tuple[Offset, Offset]]
    partition_count: PartitionCount | None
    groups: Count
    job_id: str | None = None
    leaders: dict[Id, Id] = msgspec.field(default_factory=dict)
    transactions: tuple[OpenTransaction, ...] = ()

    @property
    def dated_ms(self) -> int:
        """When the round was begun."""
        return self.taken_ms

    def observation(self, place: ObservationPlace, append_ms: int | None) -> RoundObservation:
        """The round as the job applies it."""
        return RoundObservation(
            taken_ms=self.taken_ms,
            place=place,
            brokers=self.brokers,
            rights=self.rights,
            partitions=self.partitions,
            partition_count=self.partition_count,
            leaders=self.leaders,
            transactions=self.transactions,
        )


class HeartbeatMessage(Message, frozen=True, kw_only=True, tag="heartbeat"):
    """The job at ``at_ms``: every record written before ``caught_up_ms`` has been applied.

    ``caught_up_ms`` is None until a run has confirmed it once; ``offsets`` are the ends of the log at that time. Since
    the start of the run, ``unmissed_expired`` counts expiries in groups that do not matter, ``dead_letters`` records
    that could not be read, ``quarantined`` groups that were set aside. The run tries groups that another ``release``
    set aside again; with ``retries`` all. ``high_watermarks`` are the ends of the log, open transactions included,
    read after ``at_ms``. Before it was corrected, the clock of the driver was ahead of the brokers' by
    ``clock_off_ms`` (None: unknown). ``unanswered`` are the partitions of the log whose end no broker returned.
    ``query_stopped_ms``: since when the driver has no query that reads (None: it has one), ``query_error`` is why.
    ``told_to``: the driver has published the events of all messages below this offset of the topic itself.
    """

    era: str
    job_id: str
    run_id: str
    at_ms: Moment
    caught_up_ms: Moment | None
    offsets: dict[Id, Offset]
    unmissed_expired: Count = 0
    dead_letters: Count = 0
    quarantined: Count = 0
    release: str = ""
    retries: bool = False
    high_watermarks: dict[Id, Offset] = msgspec.field(default_factory=dict)
    clock_off_ms: Span | None = None
    unanswered: tuple[Id, ...] = ()
    query_stopped_ms: Moment | None = None
    query_error: Annotated[str, Meta(max_length=_MOST_ERROR)] = ""
    told_to: Offset = 0

    @property
    def dated_ms(self) -> int:
        """The later of its two times."""
        return max(self.at_ms, self.caught_up_ms or 0)

    def observation(self, place: ObservationPlace, append_ms: int | None) -> HeartbeatObservation:
        """The heartbeat as its job applies it."""
        return HeartbeatObservation(
            self.at_ms,
            place,
            self.caught_up_ms,
            self.run_id,
            self.unmissed_expired,
            self.dead_letters,
            self.quarantined,
            self.release,
            self.retries,
            append_ms,
            self.clock_off_ms,
            self.era,
            self.high_watermarks,
            self.unanswered,
            self.query_stopped_ms,
            self.query_error,
            self.told_to,
        )

    def shortened(self) -> HeartbeatMessage | None:
        """The heartbeat without high watermarks."""
        return msgspec.structs.replace(self, high_watermarks={}) if self.high_watermarks else None


class DocumentRequest(_AboutGroup, frozen=True, kw_only=True, tag="document"):
    """The driver of ``run_id`` asks the call of a group to write the group's document, or its tombstone.

    ``in_topic``: the topic of documents holds one of this group with unknown content; otherwise it holds none.
    """

    run_id: str
    in_topic: bool


class GroupRecords(_AboutGroup, frozen=True, kw_only=True, tag="records"):
    """What the log holds of a group whose stored state was damaged, read by the driver of ``run_id``.

    The query has applied all records of the group below ``read_to``, and what they made known is published.
    ``packed`` is the output of ``pack`` for the group, as bytes of ``wire.PackedRecords``.
    """

    run_id: str
    read_to: Offset
    packed: bytes


class JobDocumentsRequest(Message, frozen=True, kw_only=True, tag="job_documents"):
    """The driver of ``run_id`` asks for the job's active conditions and the counts of bad records.

    ``partitions`` is the number of partitions of the offsets topic.
    """

    run_id: str
    partitions: PartitionCount


class ClockReading(Message, frozen=True, kw_only=True, tag="clock"):
    """Written by a process that starts, to get the append time; readers ignore it."""

    at_ms: Moment


ProbeMessage: TypeAlias = (
    GroupAnswer
    | DeletedTopicsAnswer
    | GroupSettingsAnswer
    | GroupTransactionsAnswer
    | RoundSummary
    | HeartbeatMessage
    | ClockReading
    | DocumentRequest
    | GroupRecords
    | JobDocumentsRequest
    | TopicEnds
    | EndsChanges
    | EndsRound
)
_decoder: Final = MessageDecoder[ProbeMessage](ProbeMessage)


def encode_message(message: ProbeMessage, limit: int | None = None) -> tuple[bytes, bytes]:
    """(key, value). The answer about a very large group keeps as many members as fit into 64 KiB.

    With a smaller ``limit``, which a topic demands, an answer keeps fewer, and a heartbeat has no high watermarks.
    """
    key, value = message.key, msgspec.json.encode(message)
    most = min(message.MOST_BYTES, limit or message.MOST_BYTES)
    shorter = message.shortened() if len(value) > most else None
    while shorter is not None:
        value = msgspec.json.encode(shorter)
        shorter = shorter.shortened() if len(value) > most else None
    return key, value


def decode_message(key: bytes | None, value: bytes | None) -> ProbeMessage | None:
    """The inverse of ``encode_message``; None for messages of other programs."""
    message = None if key is None else _decoder.decode(value)
    return None if message is None or key != message.key else message
