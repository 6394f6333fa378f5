"""Advice on committed offsets: those that a pause may cost, commits that are too many, groups that nobody uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from groupreplay.codecs.kafka_terms import Phase
from groupreplay.state.phrases import counted, milliseconds
from groupreplay.timeline.advice.evidence import finding
from groupreplay.timeline.advice.finding import Effect, Finding, Kind
from groupreplay.timeline.advice.inputs import AdviceInput, states_named

#: An Empty time of this part of the retention is a risk.
_SHARE_OF_RETENTION: Final = 0.4
#: It recurs, or has cost offsets already.
_LEAST_TIMES: Final = 2
#: Commits a second and partition of Kafka's ``auto.commit.interval.ms`` of 5 s.
_USUAL_PER_PARTITION: Final = 0.2
#: A group that writes this part of the topic is worth a word.
_LEAST_SHARE: Final = 0.2
_LEAST_UNUSED_MS: Final = 7 * 24 * 3_600_000


def offsets_at_risk(history: AdviceInput) -> Iterator[Finding]:
    """A group that is Empty again and again, for a large part of the retention of its offsets; or has lost some."""
    retention_ms = history.use.retention_ms
    empty = _empty_times(history)
    lengths = [end_ms - since_ms for since_ms, end_ms in empty]
    risky = [length for length in lengths if retention_ms and length >= _SHARE_OF_RETENTION * retention_ms]
    # Those of a topic that nobody is subscribed to any more expire at other times, too.
    expired = [
        event
        for event in history.named("offsets.expired")
        if any(since_ms <= event.time_ms <= end_ms for since_ms, end_ms in empty)
    ]
    # A group that has stopped for good has lost nothing that anybody misses.
    is_back = bool(history.members)
    if not retention_ms or not is_back or (len(risky) < _LEAST_TIMES and not expired):
        return
    lost = sum(event.number("partition_count") or 0 for event in expired)
    longest_ms = max(lengths, default=0)
    were = f", and the offsets of {counted(lost, 'partition')} expired" if lost else ""
    days = -(-2 * longest_ms // (24 * 3_600_000))
    yield finding(
        history,
        Kind.OFFSETS_AT_RISK,
        f"the group was Empty {counted(len(empty), 'time')}, at most for {milliseconds(longest_ms)}; offsets are kept "
        f"for {milliseconds(retention_ms)}{were}",
        (
            "offsets.retention.minutes",
            f"{days * 24 * 60} ({days} days), of the brokers; or keep one member running",
        ),
        [
            Effect(
                measure="offsets_lost",
                least=lost,
                most=lost if lost else len(history.commits.places),
                how="partitions whose committed offsets expired; where none have yet, those that have offsets",
            )
        ],
        expired or history.named("group.emptied"),
        assumed={"retention_ms": retention_ms} if history.use.is_retention_assumed else None,
    )


def _empty_times(history: AdviceInput) -> list[tuple[int, int]]:
    """When the group was Empty; the last time may still go on."""
    return [
        (span.since_ms, history.until_ms if end_ms is None else end_ms)
        for span, end_ms in states_named(history, Phase.EMPTY.value)
        if span.since_ms >= history.complete_ms
    ]


def frequent_commits(history: AdviceInput) -> Iterator[Finding]:
    """A group that commits more often than each five seconds, and writes much of the offsets topic."""
    load, partitions = history.use.load, len(history.commits.places)
    if load is None or not partitions:
        return
    rate = load.commits_per_second / partitions
    if rate <= _USUAL_PER_PARTITION or load.share < _LEAST_SHARE:
        return
    saved = int(load.bytes * (1 - _USUAL_PER_PARTITION / rate))
    yield finding(
        history,
        Kind.FREQUENT_COMMITS,
        f"{load.commits_per_second:.3g} commits a second on {counted(partitions, 'partition')} are "
        f"{100 * load.share:.0f} % of the bytes in the offsets topic",
        ("auto.commit.interval.ms", "5000 or more; or commit after a batch of records instead of after each"),
        [
            Effect(
                measure="bytes",
                least=0,
                most=saved,
                how="bytes of the group in the topic, less those of one commit of each partition in five seconds; "
                "compaction removes them later",
            )
        ],
        (),
    )


def unused_group(history: AdviceInput) -> Iterator[Finding]:
    """A group without members that nobody has used for a week, as ``list --unused`` finds it."""
    if history.use.unused_ms is None or history.use.unused_ms < _LEAST_UNUSED_MS:
        return
    partitions = len(history.use.described.get("offsets") or ())
    yield finding(
        history,
        Kind.UNUSED_GROUP,
        f"nobody has used the group for {milliseconds(history.use.unused_ms)}; it has offsets of "
        f"{counted(partitions, 'partition')}",
        ("group", "delete it with kafka-consumer-groups.sh, if nobody needs its offsets"),
        [
            Effect(
                measure="partitions",
                least=partitions,
                most=partitions,
                how="partitions of which the group has a committed offset",
            )
        ],
        history.named("group.emptied"),
    )
