"""Advice on committed offsets: those that a pause may cost, commits that are too many, groups that nobody uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from groupreplay.codecs.kafka_terms import Phase
from groupreplay.state.phrases import counted, milliseconds
from groupreplay.timeline.advice.evidence import exactly, finding
from groupreplay.timeline.advice.finding import Effect, Finding, Kind
from groupreplay.timeline.advice.inputs import AdviceInput, states_named
from groupreplay.timeline.states import StateSpan

#: An Empty time of this part of the retention is a risk.
_SHARE_OF_RETENTION: Final = 0.4
#: The advised retention is so many times the longest absence, which is then no risk any more.
_TIMES_OF_ABSENCE: Final = 3
#: It recurs, or has cost offsets already.
_LEAST_TIMES: Final = 2
#: Kafka's default of ``auto.commit.interval.ms``.
_USUAL_COMMITS_MS: Final = 5_000
#: Commits that are not more frequent than usual by this part are no finding: rebalances have some of their own.
_LEAST_SPARED: Final = 0.2
#: A group that writes this part of the topic is worth a word.
_LEAST_SHARE: Final = 0.2
_DAY_MS: Final = 24 * 3_600_000
_LEAST_UNUSED_MS: Final = 7 * _DAY_MS


def offsets_at_risk(history: AdviceInput) -> Iterator[Finding]:
    """A group that is Empty again and again, for a large part of the retention of its offsets; or has lost some."""
    retention_ms = history.use.retention_ms
    empty = _absences(history)
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
    days = -(-_TIMES_OF_ABSENCE * longest_ms // _DAY_MS)
    yield finding(
        history,
        Kind.OFFSETS_AT_RISK,
        f"the group had no members {counted(len(empty), 'time')}, at most for {milliseconds(longest_ms)}; offsets are "
        f"kept for {milliseconds(retention_ms)}{were}",
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


def _absences(history: AdviceInput) -> list[tuple[int, int]]:
    """When the group had no members; the last time may still go on.

    A group whose last offset has expired is Dead, and its members are away for longer than it was Empty.
    """
    absences = list[tuple[int, int]]()
    states = (Phase.EMPTY.value, Phase.DEAD.value)
    spans = sorted((each for state in states for each in states_named(history, state)), key=_since_ms)
    for span, end_ms in spans:
        until_ms = history.until_ms if end_ms is None else end_ms
        if absences and span.since_ms == absences[-1][1]:
            absences[-1] = absences[-1][0], until_ms
        elif span.state == Phase.EMPTY.value and span.since_ms >= history.complete_ms:
            absences.append((span.since_ms, until_ms))
    return absences


def _since_ms(state: tuple[StateSpan, int | None]) -> int:
    return state[0].since_ms


def frequent_commits(history: AdviceInput) -> Iterator[Finding]:
    """A group that commits more often than each five seconds, and writes much of the offsets topic."""
    load, partitions = history.use.load, len(history.commits.places)
    if load is None or not partitions or load.share < _LEAST_SHARE:
        return
    spared, doubt = _spared(history)
    if spared < _LEAST_SPARED:
        return
    yield finding(
        history,
        Kind.FREQUENT_COMMITS,
        f"{load.commits_per_second:.3g} commits a second on {counted(partitions, 'partition')} are "
        f"{100 * load.share:.0f} % of the bytes in the offsets topic",
        ("auto.commit.interval.ms", "5000 or more; or commit after a batch of records instead of after each"),
        [
            Effect(
                measure="bytes",
                least=int(load.commit_bytes * max(spared - doubt, 0)),
                most=int(load.commit_bytes * min(spared + doubt, 1)),
                how="bytes of the group's commits in the topic, less those of one commit of each partition in five "
                "seconds where it was worked on; one more or less for each rebalance and each pause. Compaction "
                "removes them later",
            )
        ],
        (),
    )


def _spared(history: AdviceInput) -> tuple[float, float]:
    """The share of the commits that there would not have been with one in five seconds of each partition.

    Of two commits that are further apart the second one would have been there all the same. The second number is the
    doubt: a member commits once more before it gives partitions up, and its timer begins anew after that and after a
    pause.
    """
    gaps = [np.diff(times) for times in history.commit_times.of_place.values()]
    commits = sum(len(gap) + 1 for gap in gaps)
    if not commits:
        return 0, 0
    needed = sum(1 + float(np.minimum(gap / _USUAL_COMMITS_MS, 1).sum()) for gap in gaps)
    pauses = sum(int((gap > _USUAL_COMMITS_MS).sum()) for gap in gaps)
    return 1 - needed / commits, (len(gaps) * len(history.rebalances) + pauses) / commits


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
        [exactly("partitions", partitions, "partitions of which the group has a committed offset")],
        history.named("group.emptied"),
    )
