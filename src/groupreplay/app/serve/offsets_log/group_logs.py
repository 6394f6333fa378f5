"""The offsets topic for the pages of single groups: read once for a group, and then what is new."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import IsolationLevel

from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.state import OFFSETS_TOPIC, Context
from groupreplay.state.policy.context import Redaction
from groupreplay.streaming.base.errors import GroupReplayError, UnreachableError
from groupreplay.streaming.config.settings import Cluster, RetentionFlags
from groupreplay.streaming.contract.messages import Output
from groupreplay.streaming.engine.group_log import GroupLog, GroupLogs, LogGaps
from groupreplay.streaming.engine.live import Live
from groupreplay.streaming.kafka.broker_config import effective_retention
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.group_admin import own_settings_now
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from groupreplay.streaming.kafka.topic_reader import read_messages
from groupreplay.streaming.sources.source import Rows

#: Groups whose records are kept in memory; the one that was not asked for the longest is dropped.
_MOST_GROUPS: Final = 32
#: Rows (commits and records) of all groups that are kept, about 24 bytes each.
_MOST_ROWS: Final = 4_000_000
#: A request reads for this long at most; the next one goes on from there.
READ_SECONDS: Final = 8.0
#: A page waits for an answer of the brokers for this long, and for records that they have announced.
ANSWER_SECONDS: Final = 3.0
SILENCE_SECONDS: Final = 5.0
#: Names of topics and the retention are asked for again after this time.
_ASK_AGAIN_SECONDS: Final = 300.0
#: After an error the cluster is left alone for this long: every page would wait for it.
_PAUSE_SECONDS: Final = 15.0
_MEMBER_EVENTS: Final = 2_000
_MEMBER: Final = "groupreplay.member."


class LogUnreadError(GroupReplayError):
    """The log of a group was not read to its end in the time of one request."""


@dataclass(slots=True)
class LiveGroupLog:
    """One group's part of the log, up to ``following``; ``rows`` counts its commits and records.

    It has every record that was written before ``known_ms`` (None: it was never read to its end). ``last_ms`` is the
    time of the partition's last record, and ``last_seen`` when that was known, by the monotonic clock.
    """

    group_id: str
    era: str
    partition: int
    engine: Live
    logs: GroupLogs
    first: int
    following: int
    rows: int = 0
    known_ms: int | None = None
    last_ms: int = -1
    last_seen: float = 0.0
    member_events: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_MEMBER_EVENTS))
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def log(self) -> GroupLog:
        """Records and commits."""
        return self.logs.logs[self.group_id]

    def passed_ms(self, now_ms: int, asked: float) -> int | None:
        """Up to when its coordinator has written nothing that is not read; None: no record shows its clock.

        The clock of a coordinator may be behind: it has gone on since its last record, and no more is known of it.
        ``asked`` is the monotonic time before the end was asked for, ``now_ms`` that of this server's clock.
        """
        if self.last_ms < 0:
            return None
        return min(now_ms, self.last_ms + max(0, int(1_000 * (asked - self.last_seen))))

    def described(self) -> Mapping[str, Any] | None:
        """The group now, as ``Group.describe`` has it; None: there is none."""
        return next((group.describe() for group in self.engine.groups()), None)


@dataclass(frozen=True, slots=True)
class _About:
    """What is asked of the cluster now and then: topic, names, retention."""

    identity: TopicIdentity
    context: Context
    asked: float


class LiveLogs:
    """The groups of one cluster whose pages are open."""

    def __init__(
        self,
        cluster: Cluster,
        redaction: Redaction | None = None,
        trouble: Callable[[], str | None] = lambda: None,
    ) -> None:
        """``trouble``: why no broker answers, None when one does."""
        self._connection = Connection(cluster)
        self._trouble = trouble
        self._redaction = redaction
        self._groups: OrderedDict[str, LiveGroupLog] = OrderedDict()
        self._about: _About | None = None
        self._refused: tuple[GroupReplayError, float] | None = None
        self._lock = threading.Lock()

    @property
    def context(self) -> Context | None:
        """What was asked of the cluster last; None before the first answer."""
        return None if self._about is None else self._about.context

    def kept(self, group_id: str) -> LiveGroupLog | None:
        """What was read before of the log of a group, if it was read to its end once."""
        with self._lock:
            found = self._groups.get(group_id)
        return None if found is None or found.known_ms is None else found

    def read(self, group_id: str, now_ms: int) -> LiveGroupLog:
        """The log of a group up to its present end. Hold its ``lock`` while it is used.

        Raises:
            LogUnreadError: there is more of it than could be read in the time; the next call goes on.
            GroupReplayError: no broker answers, or this login may not read the topic.
        """
        about = self._ask()
        with self._lock:
            found = self._groups.get(group_id)
            if found is None or found.era != about.identity.era:
                found = self._groups[group_id] = self._opened(group_id, about)
            self._groups.move_to_end(group_id)
            self._shrink()
        with found.lock:
            self._catch_up(found, now_ms)
        return found

    def _ask(self) -> _About:
        about = self._about
        if (trouble := self._trouble()) is not None:
            raise UnreachableError(trouble)
        if self._refused is not None and time.monotonic() - self._refused[1] < _PAUSE_SECONDS:
            raise self._refused[0]
        if about is None or time.monotonic() - about.asked > _ASK_AGAIN_SECONDS:
            try:
                about = self._about = self._asked()
            except GroupReplayError as error:
                self._refused = (error, time.monotonic())
                raise
        return about

    def _asked(self) -> _About:
        identity = self._connection.identify(OFFSETS_TOPIC)
        context = Context(
            cluster_id=identity.cluster_id,
            era=identity.era,
            topic_names=self._connection.topic_names(),
            member_events=True,
            redaction=self._redaction,
            **replace(
                effective_retention(RetentionFlags(), self._connection),
                own_settings=own_settings_now(self._connection),
            ).for_context(),
        )
        return _About(identity, context, time.monotonic())

    def _opened(self, group_id: str, about: _About) -> LiveGroupLog:
        count = about.identity.partitions
        number = partition_for(group_id, count)
        first = self._connection.first_offsets(OFFSETS_TOPIC, count)[number]
        return LiveGroupLog(
            group_id=group_id,
            era=about.identity.era,
            partition=number,
            engine=Live(about.context, [group_id]),
            logs=GroupLogs([group_id], gaps=LogGaps()),
            first=first,
            following=first,
        )

    def _shrink(self) -> None:
        """Drops groups that were not asked for; those in use stay with whoever holds them."""
        while len(self._groups) > 1 and (
            len(self._groups) > _MOST_GROUPS or sum(one.rows for one in self._groups.values()) > _MOST_ROWS
        ):
            self._groups.popitem(last=False)

    def _catch_up(self, found: LiveGroupLog, now_ms: int) -> None:
        place, asked = (OFFSETS_TOPIC, found.partition), time.monotonic()
        ends_at = self._connection.partition_ends([place], IsolationLevel.READ_UNCOMMITTED, ANSWER_SECONDS)
        if place not in ends_at:
            # librdkafka may ask the leader that it knew before.
            self._connection.forget_admin()
            raise UnreachableError("the group's partition gives no answer", where=OFFSETS_TOPIC)
        end, answered = ends_at[place].offset, time.monotonic()
        kept: list[pa.RecordBatch] = []
        try:
            with closing(self._batches(found, end)) as batches:
                for batch in batches:
                    found.logs.gaps.see(batch)
                    if (at_ms := batch.column("timestamp")[-1].as_py()) >= 0:
                        found.last_ms, found.last_seen = at_ms, answered
                    mine = of_group(batch, found.group_id)
                    found.rows += mine.num_rows
                    kept.append(mine)
                    if time.monotonic() > answered + READ_SECONDS:
                        break
        finally:
            # Also when the brokers go away meanwhile: what was read is not read again.
            is_whole = found.following >= end
            self._advance(found, kept, found.passed_ms(now_ms, asked) if is_whole else None)
            if is_whole:
                found.known_ms = now_ms
        if not is_whole:
            raise LogUnreadError(
                f"{found.following - found.first} of {end - found.first} records of its partition were read so far",
                fix="ask again",
            )

    def _batches(self, found: LiveGroupLog, end: int) -> Generator[pa.RecordBatch, None, None]:
        """The new records of the partition; moves on while they are read."""
        place = {found.partition: found.following}
        for batch in read_messages(
            self._connection, OFFSETS_TOPIC, place, {found.partition: end}, SILENCE_SECONDS
        ):
            found.following = batch.column("offset")[-1].as_py() + 1
            yield batch
        # Behind the last record may be markers of transactions.
        found.following = max(end, found.following)

    def _advance(self, found: LiveGroupLog, kept: Sequence[pa.RecordBatch], passed_ms: int | None) -> None:
        """Applies records; ``passed_ms``: all from before that time were read, so deadlines up to then pass."""
        engine = found.engine
        rows = Rows(engine.context.cluster_id, engine.context.era, found.logs.reading(iter(kept)))
        passed = () if passed_ms is None else engine.tick(passed_ms)
        for row in chain(engine.take(rows), passed):
            if row.output is Output.EVENTS and row.value is not None:
                event = json.loads(row.value)
                if str(event["type"]).startswith(_MEMBER):
                    found.member_events.append(event)


def of_group(batch: pa.RecordBatch, group_id: str) -> pa.RecordBatch:
    """The rows whose key contains the id of a group; few others, which the replay leaves out."""
    if not group_id:
        return batch
    return batch.filter(pc.match_substring(batch["key"].cast(pa.large_binary()), group_id.encode()))
