"""How a ``watch`` begins: its settings, the log that it follows, and the context of its events."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka import TopicPartition
from msgspec.structs import replace

from groupreplay.state import OFFSETS_TOPIC, Context
from groupreplay.state.policy.context import Redaction
from groupreplay.state.policy.rules import Policy
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.logs import report_progress
from groupreplay.streaming.config.settings import Cluster, RetentionFlags
from groupreplay.streaming.kafka.broker_config import RetentionWatch
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.log_watch import LogLostError, lost_log
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from groupreplay.streaming.kafka.topic_reader import batch_of, consume
from groupreplay.streaming.run.identity import next_event_era
from groupreplay.streaming.run.status import JobIdentity
from groupreplay.streaming.watch.log_clock import REPLICATION_MS, LogClock
from groupreplay.streaming.watch.state_file import Owner, StateFile
from groupreplay.version import __version__

#: So long it waits for a record that shows the brokers' time: consumers commit every 5 s, by default.
_CLOCK_SECONDS: Final = 5.0
#: Heartbeats at least this often; the ends of the log are asked for eight times in it.
TRIGGER_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """What ``watch`` was asked for. ``since_ms``: also events of the past from then on, as far as the log has them.

    ``admin_only``: the log cannot be read, and only the prober's answers are applied.
    """

    source: Cluster
    state: Path | None = None
    since_ms: int | None = None
    probe_interval_seconds: float | None = 10.0
    ends_interval_seconds: float | None = None
    retention: RetentionFlags = field(default_factory=RetentionFlags)
    policy: Policy = field(default_factory=Policy)
    labels: Mapping[str, str] = field(default_factory=dict)
    redaction: Redaction | None = None
    member_events: bool = False
    admin_only: bool = False


def without_log(connection: Connection) -> TopicIdentity:
    """Stands for the topic in ids and in the state file."""
    return TopicIdentity(connection.cluster_id(), OFFSETS_TOPIC, "admin-only", partitions=0, leaders={})


def identified(connection: Connection) -> TopicIdentity:
    """The offsets topic. Raises what ``Connection.identify`` raises, with what is left where the topic is hidden."""
    try:
        return connection.identify(OFFSETS_TOPIC)
    except GroupReplayError as error:
        if error.exit_code is not ExitCode.DATA:
            raise
        raise GroupReplayError(
            "the cluster shows no offsets topic: no group has committed yet, this login may not see it, or a hosted "
            "Kafka hides it or has it under another name",
            where=f"{OFFSETS_TOPIC}, {connection.cluster.bootstrap_servers}",
            fix=f"groupreplay watch --admin-only reports without it which classic groups are stuck; to see the topic: "
            f"{error.fix}",
            exit_code=ExitCode.DATA,
        ) from None


class LogGoneError(Exception):
    """The log is not the one that was read: what ``owner`` owns must be built anew."""

    def __init__(self, lost: LogLostError, owner: Owner) -> None:
        super().__init__(str(lost))
        self.lost, self.owner = lost, owner


def owner_of(
    settings: WatchSettings,
    connection: Connection,
    identity: TopicIdentity,
    file: StateFile | None,
    after: LogGoneError | None,
    now_ms: int,
) -> Owner:
    """The owner of the state, which begins anew if the log is not the one that was read.

    Raises:
        GroupReplayError: the file is another cluster's, or damaged.
    """
    first = Owner(
        cluster_id=identity.cluster_id,
        era=identity.era,
        partitions=identity.partitions,
        first_start_ms=now_ms,
        job_id=f"watch-{uuid.uuid4().hex[:12]}",
    )
    former, lost = (None, None) if after is None else (after.owner, after.lost)
    if file is not None and (former := file.owner()) is not None and not settings.admin_only:
        is_known = former.cluster_id == identity.cluster_id
        lost = lost or (lost_log(file.read_to(), former, connection) if is_known else None)
    if former is not None and lost is not None:
        report_progress(f"{lost.what} ({lost.where}): the state is built anew")
        event_era = next_event_era(former.era, former.era_of_events, identity.era)
        first = replace(first, job_id=former.job_id, event_era=event_era, gap=lost.gap)
        if file is not None:
            file.begin_anew(first)
    return first if file is None else file.claim(first)


def start_ms(clock: LogClock, connection: Connection, partitions: int) -> int:
    """The time of the start, by the brokers' time if this machine's clock may be ahead and somebody commits now.

    Events begin with that time: one that is ahead would hide them. If nobody commits, the clock is believed.

    Raises:
        GroupReplayError: a partition does not answer, or the reader is refused.
    """
    ends = clock.ask(lambda: connection.high_watermarks(OFFSETS_TOPIC, partitions))
    newest_ms = connection.newest_ms(OFFSETS_TOPIC, partitions)
    if newest_ms is None or clock.now_ms() - newest_ms <= REPLICATION_MS:
        return clock.now_ms()
    deadline = time.monotonic() + _CLOCK_SECONDS
    with closing(connection.consumer()) as consumer:
        consumer.assign([TopicPartition(OFFSETS_TOPIC, number, end) for number, end in ends.items()])
        while (left := deadline - time.monotonic()) > 0:
            messages = [one for one in consume(consumer, connection, left) if one.error() is None]
            clock.learn(batch_of([message]) for message in messages)
            if messages:
                dated_ms = max(message.timestamp()[1] for message in messages)
                return min(clock.now_ms(), dated_ms) if clock.correction_ms < 0 else clock.now_ms()
    return clock.now_ms()


def job_identity(settings: WatchSettings, owner: Owner, now_ms: int) -> JobIdentity:
    """What this process is in its own heartbeats."""
    return JobIdentity(
        cluster_id=owner.cluster_id,
        era=owner.era_of_events,
        job_id=owner.job_id,
        run_id=uuid.uuid4().hex,
        first_start_ms=owner.first_start_ms,
        started_ms=now_ms,
        trigger_seconds=TRIGGER_SECONDS,
        host=socket.gethostname(),
        checkpoint="" if settings.state is None else str(settings.state),
        hides_names=settings.redaction is not None,
    )


def first_context(settings: WatchSettings, owner: Owner, connection: Connection) -> Context:
    """As the first start of ``run`` has it: events from now on, or from ``since_ms`` on.

    Those of before a gap were emitted, with other ids.
    """
    since_ms = settings.since_ms if owner.gap is None else None
    return Context(
        cluster_id=owner.cluster_id,
        era=owner.era_of_events,
        emit_since_ms=owner.first_start_ms if since_ms is None else since_ms,
        complete_since_ms=owner.first_start_ms,
        topic_names=connection.topic_names(),
        member_events=settings.member_events,
        probing=settings.probe_interval_seconds is not None,
        labels=dict(settings.labels),
        redaction=settings.redaction,
        policy=settings.policy,
        release=__version__,
        job_id=owner.job_id,
        **RetentionWatch(settings.retention, lambda: connection).known.for_context(),
    )
