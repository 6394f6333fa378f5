"""Opens a prober and runs it, at an interval or once, and prints its rounds; for ``probe`` and ``run``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from groupreplay.state.conditions.job_blind import GRANT_DESCRIBE
from groupreplay.state.display.phrases import timestamp
from groupreplay.streaming.base.broker_clock import AppendedMessage, BrokerClock
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.signals import StopRequest, stop_requests
from groupreplay.streaming.config.logs import StatusReport
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.probe_messages import (
    ProbeMessage,
    RoundSummary,
    encode_message,
)
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.group_admin import GroupAdmin
from groupreplay.streaming.kafka.output_topics import ensure_topics
from groupreplay.streaming.kafka.publisher import MessageTooLargeError, Publisher, publish_smaller
from groupreplay.streaming.prober.prober import Prober, ProbeRound, ProberThread
from groupreplay.streaming.prober.probes_topic import last_rounds, read_clock

#: How far back a starting prober reads its topic to find groups that were rebalancing.
_MEMORY_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTarget:
    """The cluster to probe, the interval, and the topic of another cluster or the same that gets the rounds."""

    source: Cluster
    sink: Cluster
    topic: str
    cluster_id: str
    interval_seconds: float
    job_id: str | None = None


def open_prober(target: ProbeTarget, clock: BrokerClock) -> Prober:
    """A prober that continues where the previous one ended, according to the topic.

    Raises:
        GroupReplayError: the topic cannot be read.
    """
    sink = Connection(target.sink)
    memory = last_rounds(sink, target.topic, target.cluster_id, clock.now_ms() - _MEMORY_MS)
    return Prober(
        GroupAdmin(Connection(target.source)),
        cluster_id=target.cluster_id,
        clock=clock.now_ms,
        interval_ms=round(1_000 * target.interval_seconds),
        job_id=target.job_id,
        in_progress=memory.in_progress,
        listed_ms=memory.listed_ms,
        ahead_ms=lambda: clock.ahead_ms,
    )


def probe(source: Cluster, sink: Cluster, topics: TopicNames, interval_seconds: float) -> int:
    """Probe until SIGTERM or Ctrl-C; returns the exit code (128 + the signal's number).

    Raises:
        GroupReplayError: at the start, a cluster cannot be reached, or the topic does not exist and cannot be created.
    """
    with stop_requests() as stop:
        target = ProbeTarget(
            source=source,
            sink=sink,
            topic=topics.probes,
            cluster_id=Connection(source).cluster_id(),
            interval_seconds=interval_seconds,
        )
        ensure_topics(Connection(sink), topics, only=("probes",))
        status = StatusReport()

        def reported(taken: ProbeRound) -> None:
            line = round_line(taken.summary)
            status(line.partition(": ")[2], line)

        try:
            keep_probing(target, reported, stop)
        finally:
            status.close()
        return stop.exit_code


def keep_probing(target: ProbeTarget, on_round: Callable[[ProbeRound], None], stop: StopRequest) -> None:
    """Probe and write the rounds until ``stop``; ``on_round`` receives each one that was written."""
    publisher, clock = Publisher(target.sink), BrokerClock()

    def opened() -> Prober:
        read_clock(publisher, target.topic, target.cluster_id, clock)
        return open_prober(target, clock)

    prober = ProberThread(
        opened,
        interval_seconds=target.interval_seconds,
        write=lambda messages: clock.note(_written(publisher, target.topic, messages)),
        on_round=on_round,
    )
    prober.start()
    while not stop.wait(1.0):
        pass
    prober.close()


def _written(publisher: Publisher, topic: str, messages: Sequence[ProbeMessage]) -> list[AppendedMessage]:
    """Write a round; answers that the topic refuses as too large are shortened."""
    try:
        return publisher.publish(topic, map(encode_message, messages))
    except MessageTooLargeError:
        appended: list[AppendedMessage] = []
        # In order: the summary follows the answers.
        for message in messages:
            publish_smaller(
                lambda key, value: appended.extend(publisher.publish(topic, [(key, value)])),
                partial(encode_message, message),
            )
        return appended


def probe_once(source: Cluster) -> ProbeRound:
    """Probe once, without writing the result.

    Raises:
        GroupReplayError: the cluster cannot be reached.
    """
    connection = Connection(source)
    prober = Prober(GroupAdmin(connection), cluster_id=connection.cluster_id(), clock=now_ms)
    return prober.take()


def check_round(summary: RoundSummary) -> None:
    """Check that a round covers all groups.

    Raises:
        GroupReplayError: rights are missing, or brokers did not answer.
    """
    if summary.rights == "missing":
        raise GroupReplayError(
            "this login may not see all groups", fix=GRANT_DESCRIBE, exit_code=ExitCode.AUTHORISATION
        )
    for number, error in summary.brokers.items():
        if error is not None:
            raise GroupReplayError(
                f"a broker did not answer: {error}",
                where=f"broker {number}",
                fix="the groups that it coordinates are missing above; probe again when the broker is back",
                exit_code=ExitCode.CONNECTION,
            )


def round_line(summary: RoundSummary) -> str:
    """A round as one line of text."""
    silent = sum(error is not None for error in summary.brokers.values())
    parts = [
        f"{timestamp(summary.taken_ms)}: {summary.groups} groups rebalancing",
        f"{len(summary.brokers) - silent} of {len(summary.brokers)} brokers answered",
    ]
    held = sum(stable < high for high, stable in summary.partitions.values())
    if held:
        parts.append(f"{held} partitions with an open transaction")
    if summary.rights != "ok":
        parts.append(f"rights {summary.rights}")
    return ", ".join(parts)


def round_documents(taken: ProbeRound) -> list[Mapping[str, Any]]:
    """The answers as in the topic ``group-probes``."""
    return [msgspec.to_builtins(one) for one in taken.answers]
