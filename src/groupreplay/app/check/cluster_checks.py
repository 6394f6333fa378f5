"""Checks of the clusters: connection, rights, offsets topic, transactions, clocks, retention, output topics.

They only read: nothing is created, written or committed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Final

from groupreplay.app.check import CheckResult, CheckSettings, Subject, failed, ok, unknown, warning
from groupreplay.state.phrases import counted
from groupreplay.state.policy.context import DEFAULT_CHECK_INTERVAL_MS, OFFSETS_TOPIC
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.properties import iam_options
from groupreplay.streaming.config.retention import contradiction
from groupreplay.streaming.kafka import rights as all_rights
from groupreplay.streaming.kafka.broker_config import effective_retention, lists_transactions, release_text
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.group_admin import GroupAdmin
from groupreplay.streaming.kafka.iam import iam_policy
from groupreplay.streaming.kafka.output_topics import create_topics, describe_topics, remedy, topic_problems
from groupreplay.streaming.kafka.rights import Held, Right, grant_line
from groupreplay.streaming.kafka.topic_identity import NO_ERA
from groupreplay.streaming.spark import preflight

#: The default of a broker's transaction.max.timeout.ms, the longest timeout that a producer may request.
_HANGING_MS: Final = 900_000
#: The default of a producer's transaction.timeout.ms.
_LONG_MS: Final = 60_000
_LOOKED_AT: Final = 10
#: A larger difference between the brokers' clocks and this machine's clock is a warning.
_SKEW_MS: Final = 5_000
_CLOCK_SECONDS: Final = 6.0
_CLOCK_POLL_SECONDS: Final = 0.5
_POLICY: Final = (
    "what IAM has to allow the login, with the names in the ARN of the cluster in place of the capitals"
)


def cluster(name: str, connection: Connection) -> Sequence[CheckResult]:
    """Whether the cluster answers; its id, address, brokers and release."""
    metadata = connection.metadata("cluster")
    address, brokers = connection.cluster.bootstrap_servers, len(metadata.brokers)
    answer = (
        f"{metadata.cluster_id or 'unknown'} at {address}, brokers: {brokers}, {release_text(connection)}"
    )
    return [ok(name, answer)]


def source_rights(subject: Subject) -> Sequence[CheckResult]:
    """Each right on the source cluster."""
    return list(_rights(subject.source, source_rights_of(subject.settings)))


def source_rights_of(settings: CheckSettings) -> list[Right]:
    """The rights that ``run`` with these settings needs on the source cluster."""
    return all_rights.source_rights(
        probe=settings.probe, ask_retention=settings.retention.retention_minutes is None, ends=settings.ends
    )


def sink_rights(subject: Subject) -> Sequence[CheckResult]:
    """Each right on the cluster of the job's topics that ``source_rights`` does not cover."""
    wanted = all_rights.sink_rights(subject.settings.topics)
    if subject.sink is subject.source:
        wanted = [right for right in wanted if right.kind == "topic"]
    return list(_rights(subject.sink, wanted))


def iam_policies(subject: Subject) -> Sequence[CheckResult]:
    """The IAM policy of each login that needs one; AWS is not asked."""
    settings, topics = subject.settings, subject.settings.topics
    of_source, of_sink = source_rights_of(settings), all_rights.sink_rights(topics)
    created = [getattr(topics, item.name) for item in fields(topics)]
    if settings.sink in (None, settings.source):
        needed = [(settings.source, [*of_source, *of_sink], created)]
    else:
        needed = [(settings.source, of_source, []), (settings.sink, of_sink, created)]
    return [
        replace(
            ok("iam policy", f"{_POLICY} ({cluster.bootstrap_servers})"), fix=json.dumps(policy, indent=2)
        )
        for cluster, rights, names in needed
        if iam_options(cluster.properties) is not None
        and (policy := iam_policy(list(dict.fromkeys(rights)), cluster, names))
    ]


def offsets_topic(subject: Subject) -> Sequence[CheckResult]:
    """Whether the offsets topic exists, one of its records can be read, and every partition answers."""
    topic = subject.offsets_topic
    ends = GroupAdmin(subject.source).ends(topic.partitions)
    silent = [number for number in range(topic.partitions) if number not in ends]
    if silent:
        leaders = ", ".join(f"{number}: {topic.leaders.get(number, '-')}" for number in silent[:_LOOKED_AT])
        raise GroupReplayError(
            f"{len(silent)} of {topic.partitions} partitions do not answer",
            where=f"partition: leader: {leaders}",
            fix="check these brokers; the job sees no groups of these partitions until they answer",
            exit_code=ExitCode.CONNECTION,
        )
    total = sum(high for high, _ in ends.values())
    topic_id = "no id (topics have one since Kafka 2.8)" if topic.era == NO_ERA else f"id {topic.era}"
    size = f"{OFFSETS_TOPIC}: {topic.partitions} partitions, sum of end offsets {total:,}, {topic_id}"
    return [ok("offsets topic", size)]


def transactions(subject: Subject) -> Sequence[CheckResult]:
    """Whether open transactions hold back records from the job; their age is that of their first record."""
    topic = subject.offsets_topic
    ends = GroupAdmin(subject.source).ends(topic.partitions)
    stable_ends = {number: stable for number, (high, stable) in ends.items() if stable < high}
    ages = {
        number: _age_ms(subject.source, number, stable_ends[number])
        for number in sorted(stable_ends)[:_LOOKED_AT]
    }
    if not ages:
        return [ok("transactions", "none open")]
    oldest = max(ages, key=lambda number: ages[number])
    where = f"partition {oldest}, leader {topic.leaders.get(oldest, '-')}"
    partitions = counted(len(stable_ends), "partition")
    transactions = f"open in {partitions}, the oldest for {ages[oldest] / 1000:.0f} s ({where})"
    if ages[oldest] <= _LONG_MS:
        return [ok("transactions", transactions)]
    fix = _end_transaction(subject, oldest, stable_ends[oldest])
    if ages[oldest] <= _HANGING_MS:
        return [warning("transactions", f"{transactions}: later records cannot be read until it ends", fix)]
    what = f"a transaction hangs, and later records cannot be read: {transactions}"
    return [failed("transactions", GroupReplayError(what, fix=fix, exit_code=ExitCode.DATA))]


def clock(subject: Subject) -> Sequence[CheckResult]:
    """Difference between the brokers' clocks and this machine's, from records written during the check."""
    skew = _skew(subject)
    if skew is None:
        return [unknown("clock", f"unknown: no record was written to {OFFSETS_TOPIC} in the last seconds")]
    least_ms, most_ms = skew
    text = f"according to the newest record the brokers' clocks are {_span(least_ms, most_ms)} this machine's"
    if least_ms > _SKEW_MS or most_ms < -_SKEW_MS:
        fix = "synchronise the clocks of the brokers and of this machine (NTP): deadlines are off by as much"
        return [warning("clock", text, fix)]
    return [ok("clock", text)]


def retention(subject: Subject) -> Sequence[CheckResult]:
    """The brokers' retention of offsets, from which the job computes when offsets expire."""
    flags = subject.settings.retention
    kept = effective_retention(flags, subject.source)
    if kept.retention_ms is None:
        rights = all_rights.source_rights(probe=False, ask_retention=True)
        grant = next(
            grant_line(right, subject.settings.source) for right in rights if right.kind == "cluster"
        )
        fix = f"{grant}\nor give it: --retention-minutes"
        text = "offsets.retention.minutes is unknown; 7 days are assumed, events about expiry are inferred"
        return [warning("retention", text, fix)]
    source = "--retention-minutes" if flags.retention_minutes is not None else "a broker"
    text = (
        f"offsets are kept for {kept.retention_ms // 60_000:,} minutes (from {source}), "
        f"checked every {(kept.check_interval_ms or DEFAULT_CHECK_INTERVAL_MS) / 1000:g} s"
    )
    if odd := contradiction(kept.retention_ms, kept.check_interval_ms):
        fix = f"set offsets.retention.check.interval.ms of the brokers to at most {kept.retention_ms}"
        return [warning("retention", odd, fix)]
    return [ok("retention", text)]


def output_topics(subject: Subject) -> Sequence[CheckResult]:
    """Each topic of the job: its settings, or that it will be created."""
    names = subject.settings.topics
    there = {topic.kind: topic for topic in describe_topics(subject.sink, names)}
    missing = [item.name for item in fields(names) if item.name not in there]
    results = [ok(f"topic {getattr(names, kind)}", "is missing and will be created") for kind in missing]
    if missing:
        try:
            create_topics(subject.sink, names, missing, only_try=True)
        except GroupReplayError as error:
            results = [failed("output topics", error)]
    for topic in there.values():
        problems = list(topic_problems(topic))
        about = f"topic {topic.name}"
        if not problems:
            seen = _settings_text(topic.settings)
            results.append(ok(about, f"{topic.partitions} partitions, {topic.replicas} replicas, {seen}"))
            continue
        what = "; ".join(problem.what for problem in problems)
        fix = "\n".join(remedy(subject.sink, topic, problem) for problem in problems)
        if any(problem.fatal for problem in problems):
            results.append(failed(about, GroupReplayError(what, fix=fix, exit_code=ExitCode.DATA)))
        else:
            results.append(warning(about, what, fix))
    return results


def _rights(connection: Connection, wanted: Sequence[Right]) -> Iterator[CheckResult]:
    for right, has in all_rights.held(connection, wanted).items():
        line = grant_line(right, connection.cluster)
        if has is Held.NO and right.needed:
            error = GroupReplayError(f"missing: {right.why}", fix=line, exit_code=ExitCode.AUTHORISATION)
            yield failed(str(right), error)
        elif has is Held.NO:
            yield warning(str(right), f"missing: {right.why}", line)
        elif has in (Held.YES, Held.NO_SETTINGS):
            yield ok(str(right), has.value)
        else:
            yield unknown(str(right), has.value)


def _age_ms(connection: Connection, partition: int, offset: int) -> int:
    """Age of the first record of an open transaction; 0 if the transaction has ended meanwhile."""
    message = preflight.record_at(connection, partition, offset, "read_uncommitted")
    return 0 if message is None else max(0, now_ms() - message.timestamp()[1])


def _end_transaction(subject: Subject, partition: int, first_offset: int) -> str:
    if not lists_transactions(subject.source):
        return (
            "start its producer again with the same transactional.id, which aborts it (brokers before Kafka 3.0 cannot "
            "list transactions)"
        )
    # `find-hanging` prints nothing while the transaction's coordinator knows of it.
    tool = f"kafka-transactions.sh --bootstrap-server {subject.settings.source.bootstrap_servers}"
    place = f"--topic {OFFSETS_TOPIC} --partition {partition}"
    return (
        f"{tool} describe-producers {place}\n"
        f"shows its producer; if that is gone: {tool} abort {place} --start-offset {first_offset}"
    )


def _skew(subject: Subject) -> tuple[int, int] | None:
    """The brokers' clock minus this machine's, at least and at most, in milliseconds; None if unknown.

    A record behind the end that a partition had at one request, and before its end at the next one, got its timestamp
    between them. Without such a record, an old one proves nothing, and a timestamp in the future proves that the
    brokers are ahead.
    """
    source, partitions = subject.source, subject.offsets_topic.partitions
    started_ms = asked_ms = now_ms()
    ends = source.high_watermarks(OFFSETS_TOPIC, partitions)
    deadline = time.monotonic() + _CLOCK_SECONDS
    while time.monotonic() < deadline:
        time.sleep(_CLOCK_POLL_SECONDS)
        asking_ms = now_ms()
        later = source.high_watermarks(OFFSETS_TOPIC, partitions)
        answered_ms = now_ms()
        for number in (place for place, end in later.items() if end > ends[place]):
            message = preflight.record_at(source, number, ends[number], "read_uncommitted")
            # Where only control records were written, the next record may be a later one.
            if message is not None and message.offset() < later[number]:
                written_ms = message.timestamp()[1]
                return written_ms - answered_ms, written_ms - asked_ms
        asked_ms, ends = asking_ms, later
    newest_ms = source.newest_ms(OFFSETS_TOPIC, partitions)
    if newest_ms is not None and newest_ms > started_ms:
        return newest_ms - started_ms, newest_ms - started_ms
    return None


def _span(least_ms: int, most_ms: int) -> str:
    if least_ms <= 0 <= most_ms:
        return f"within {max(-least_ms, most_ms) / 1000:.1f} s of"
    near, side = (least_ms, "ahead of") if least_ms > 0 else (-most_ms, "behind")
    return f"{near / 1000:.1f} s {side}"


def _settings_text(settings: Mapping[str, str] | None) -> str:
    if settings is None:
        return "settings hidden from this login"
    shown = (
        "cleanup.policy",
        "message.timestamp.type",
        "retention.ms",
        "max.message.bytes",
        "min.insync.replicas",
    )
    return ", ".join(f"{name}={settings[name]}" for name in shown if name in settings)
