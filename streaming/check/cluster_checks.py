"""What ``check`` asks of the clusters: rights, the offsets topic, clocks, settings, the topics of the job.

Knows the questions, and what each answer means for the job; must not know how the answers are printed. Asks
only: nothing is created, written or committed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Final

from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.check.result import CheckResult, Subject, failed, ok, unknown, warning
from groupreplay.streaming.job import preflight
from groupreplay.streaming.kafka import rights as all_rights
from groupreplay.streaming.kafka.clients import REQUEST_SECONDS, Connection
from groupreplay.streaming.kafka.group_admin import LiveGroups
from groupreplay.streaming.kafka.retention import effective_retention
from groupreplay.streaming.kafka.rights import Right, grant_line
from groupreplay.streaming.kafka.topics import change_line, describe_topics, objections, try_create

#: The longest that a producer may ask for (transaction.max.timeout.ms) if the broker has not been told otherwise.
_HANGING_MS: Final = 900_000
#: A producer's own default, transaction.timeout.ms.
_LONG_MS: Final = 60_000
_LOOKED_AT: Final = 10
#: A record's timestamp and our clock may differ by so much before anybody has to care.
_SKEW_MS: Final = 5_000
_CLOCK_SECONDS: Final = 6.0
_CLOCK_POLL_SECONDS: Final = 0.5


def source_cluster(subject: Subject) -> Sequence[CheckResult]:
    """The cluster whose groups are followed."""
    return [_cluster("cluster", subject.source)]


def sink_cluster(subject: Subject) -> Sequence[CheckResult]:
    """The cluster of the topics, when it is another."""
    return [_cluster("sink cluster", subject.sink)]


def source_rights(subject: Subject) -> Sequence[CheckResult]:
    """Each right on the cluster of the groups."""
    settings = subject.settings
    wanted = all_rights.source_rights(
        probe=settings.probe, ask_retention=settings.retention.retention_minutes is None
    )
    return _rights(subject.source, wanted)


def sink_rights(subject: Subject) -> Sequence[CheckResult]:
    """Each right on the cluster of the topics that was not asked for before."""
    wanted = all_rights.sink_rights(subject.settings.topics)
    if subject.sink is subject.source:
        wanted = [one for one in wanted if one.kind == "topic"]
    return _rights(subject.sink, wanted)


def offsets_topic(subject: Subject) -> Sequence[CheckResult]:
    """Whether the log is there, one record of it can be read, and every partition answers."""
    topic = subject.offsets_topic
    ends = LiveGroups(subject.source).ends(topic.partitions)
    silent = [number for number in range(topic.partitions) if number not in ends]
    if silent:
        leaders = ", ".join(f"{number}: {topic.leaders.get(number, '-')}" for number in silent[:_LOOKED_AT])
        raise GroupReplayError(
            f"{len(silent)} of {topic.partitions} partitions do not answer",
            where=f"partition: leader: {leaders}",
            fix="look at these brokers; groups of these partitions are not seen until they answer",
            exit_code=ExitCode.CONNECTION,
        )
    total = sum(high for high, _ in ends.values())
    found = f"{OFFSETS_TOPIC}: {topic.partitions} partitions, end offsets {total:,} in sum, id {topic.era}"
    return [ok("offsets topic", found)]


def transactions(subject: Subject) -> Sequence[CheckResult]:
    """Whether an open transaction holds back what the job may read, and since when, by its first record."""
    topic = subject.offsets_topic
    ends = LiveGroups(subject.source).ends(topic.partitions)
    held = {number: stable for number, (high, stable) in ends.items() if stable < high}
    ages = {number: _age_ms(subject.source, number, held[number]) for number in sorted(held)[:_LOOKED_AT]}
    if not ages:
        return [ok("transactions", "none is open")]
    oldest = max(ages, key=lambda number: ages[number])
    where = f"partition {oldest}, leader {topic.leaders.get(oldest, '-')}"
    found = f"open in {len(held)} partitions, the oldest for {ages[oldest] / 1000:.0f} s ({where})"
    if ages[oldest] <= _LONG_MS:
        return [ok("transactions", found)]
    fix = (
        f"kafka-transactions.sh --bootstrap-server {subject.settings.source.bootstrap_servers} find-hanging "
        f"--broker-id {_broker_id(topic.leaders.get(oldest, ''))}"
    )
    if ages[oldest] <= _HANGING_MS:
        return [warning("transactions", f"{found}: nothing behind it can be read until it ends", fix)]
    what = f"a transaction hangs, and nothing behind it can be read: {found}"
    return [failed("transactions", GroupReplayError(what, fix=fix, exit_code=ExitCode.DATA))]


def clock(subject: Subject) -> Sequence[CheckResult]:
    """How far the brokers' clocks are from ours, by the records that coordinators write meanwhile."""
    from confluent_kafka import KafkaException

    try:
        found = _skew(subject)
    except KafkaException as error:
        return [
            ok("clock", f"not known: this broker does not tell its newest record ({error.args[0].str()})")
        ]
    if found is None:
        return [unknown("clock", f"not known: nobody wrote to {OFFSETS_TOPIC} in the last seconds")]
    least_ms, most_ms = found
    told = f"the newest record says that brokers are {_span(least_ms, most_ms)} our clock"
    if least_ms > _SKEW_MS or most_ms < -_SKEW_MS:
        fix = "let NTP set the clocks of the brokers and of this machine: deadlines are off by as much"
        return [warning("clock", told, fix)]
    return [ok("clock", told)]


def retention(subject: Subject) -> Sequence[CheckResult]:
    """How long offsets are kept, which forecasts of their end stand on."""
    flags = subject.settings.retention
    known = effective_retention(flags, subject.source)
    if known.retention_ms is None:
        fix = "\n".join(
            [
                *(grant_line(one, subject.settings.source) for one in _retention_rights()),
                "or say it: --retention-minutes",
            ]
        )
        found = "offsets.retention.minutes is not known; 7 days are assumed, events about expiry say inferred"
        return [warning("retention", found, fix)]
    source = "--retention-minutes" if flags.retention_minutes is not None else "a broker"
    found = (
        f"offsets are kept {known.retention_ms // 60_000:,} minutes (said by {source}), "
        f"looked at every {known.check_interval_ms / 1000:g} s"
    )
    return [ok("retention", found)]


def output_topics(subject: Subject) -> Sequence[CheckResult]:
    """Each topic of the job: as it is, or that it will be created."""
    names, there = subject.settings.topics, {}
    for topic in describe_topics(subject.sink, names):
        there[topic.kind] = topic
    missing = [item.name for item in fields(names) if item.name not in there]
    results = [ok(f"topic {getattr(names, kind)}", "is missing and will be created") for kind in missing]
    if missing:
        try:
            try_create(subject.sink, names, missing)
        except GroupReplayError as error:
            results = [failed("output topics", error)]
    for topic in there.values():
        found = objections(topic)
        seen = _settings_text(topic.settings)
        about, told = (
            f"topic {topic.name}",
            f"{topic.partitions} partitions, {topic.replicas} replicas, {seen}",
        )
        if not found:
            results.append(ok(about, told))
            continue
        what = "; ".join(one.what for one in found)
        fix = "\n".join(
            change_line(subject.sink, topic, one.mend)
            if one.mend
            else "make the topic anew, with one partition"
            for one in found
        )
        if any(one.fatal for one in found):
            results.append(failed(about, GroupReplayError(what, fix=fix, exit_code=ExitCode.DATA)))
        else:
            results.append(warning(about, what, fix))
    return results


def _cluster(name: str, connection: Connection) -> CheckResult:
    from confluent_kafka import KafkaException

    try:
        metadata = connection.admin().list_topics(timeout=REQUEST_SECONDS)
    except KafkaException as error:
        raise connection.explain(error, "cluster") from None
    brokers = len(metadata.brokers)
    found = (
        f"{metadata.cluster_id or 'unknown'} at {connection.cluster.bootstrap_servers}, brokers: {brokers}"
    )
    return ok(name, f"{found}, {_release(connection)}")


def _release(connection: Connection) -> str:
    """What a broker's settings tell of its release: 4.0 dropped the one that names it."""
    from confluent_kafka import KafkaException

    try:
        told = connection.broker_settings(("inter.broker.protocol.version", "broker.id", "node.id"))
    except KafkaException:
        return "Kafka of unknown release (DescribeConfigs on the cluster would tell)"
    version = told.get("inter.broker.protocol.version")
    return f"Kafka {version.partition('-')[0]}" if version else "Kafka 4.0 or later"


def _rights(connection: Connection, wanted: Sequence[Right]) -> list[CheckResult]:
    return list(_right_results(connection, wanted))


def _right_results(connection: Connection, wanted: Sequence[Right]) -> Iterator[CheckResult]:
    for right, has in all_rights.held(connection, wanted).items():
        line = grant_line(right, connection.cluster)
        if has is False and right.needed:
            error = GroupReplayError(f"missing: {right.why}", fix=line, exit_code=ExitCode.AUTHORISATION)
            yield failed(str(right), error)
        elif has is False:
            yield warning(str(right), f"missing: {right.why}", line)
        elif has:
            yield ok(str(right), "held")
        else:
            yield unknown(str(right), "cannot be known before the topic is there")


def _retention_rights() -> list[Right]:
    return [one for one in all_rights.source_rights(probe=False, ask_retention=True) if one.kind == "cluster"]


def _age_ms(connection: Connection, partition: int, offset: int) -> int:
    """How long ago the first record of an open transaction was written; 0 when it has ended meanwhile."""
    message = preflight.record_at(connection, partition, offset, "read_uncommitted")
    return 0 if message is None else max(0, now_ms() - message.timestamp()[1])


def _broker_id(leader: str) -> str:
    found = re.search(r"\((\d+)\)$", leader)
    return found[1] if found else "ID"


def _skew(subject: Subject) -> tuple[int, int] | None:
    """Brokers minus us, at least and at most, in milliseconds; None when nothing can be said.

    A record that appears between two looks was stamped by a broker between them. Without one, an old record
    proves nothing, and one from our future proves that the brokers are ahead.
    """
    partitions = subject.offsets_topic.partitions
    started_ms = asked_ms = now_ms()
    first_ms = subject.source.newest_ms(OFFSETS_TOPIC, partitions)
    deadline = time.monotonic() + _CLOCK_SECONDS
    while time.monotonic() < deadline:
        time.sleep(_CLOCK_POLL_SECONDS)
        asking_ms = now_ms()
        newest_ms = subject.source.newest_ms(OFFSETS_TOPIC, partitions)
        if newest_ms is not None and newest_ms != first_ms:
            return newest_ms - now_ms(), newest_ms - asked_ms
        asked_ms = asking_ms
    if first_ms is not None and first_ms > started_ms:
        return first_ms - started_ms, first_ms - started_ms
    return None


def _span(least_ms: int, most_ms: int) -> str:
    if least_ms <= 0 <= most_ms:
        return f"within {max(-least_ms, most_ms) / 1000:.1f} s of"
    near, side = (least_ms, "ahead of") if least_ms > 0 else (-most_ms, "behind")
    return f"{near / 1000:.1f} s {side}"


def _settings_text(settings: object) -> str:
    if not isinstance(settings, dict):
        return "settings hidden from this login"
    shown = ("cleanup.policy", "retention.ms", "max.message.bytes", "min.insync.replicas")
    return ", ".join(f"{name}={settings[name]}" for name in shown if name in settings)
