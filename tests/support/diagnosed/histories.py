"""Incidents as histories written by hand: what no simulated client does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from groupreplay.codecs import MemberMetadata
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.snapshot.observations import PendingTransaction, PendingTransactions, Probe
from groupreplay.timeline.states import CoordinatorSeen
from support.diagnosed.worlds import HOUR, MINUTE, SECOND, World, history
from support.histories import modern_builders
from support.histories.builders import Raw, asked_for, commit, emptied, generation, gone, member, no_offset
from support.histories.probed import PROBING, probe, rounds

#: 2026-01-01T00:00:00Z
BEGIN = 1_767_225_600_000
COMPLETE = replace(PROBING, complete_since_ms=0)
_EVERY = 5 * SECOND


def _commits(since: int, until: int, *, first: int = 100) -> Iterator[Raw]:
    """Commits of all four partitions every five seconds; some repeat the last offset."""
    for number, at in enumerate(range(BEGIN + since, BEGIN + until, _EVERY)):
        for partition in range(4):
            offset = first + number - (number % 5 == 4)
            yield commit("t", partition, offset, at=at + partition, leader_epoch=3)


def _pair() -> tuple[MemberMetadata, MemberMetadata]:
    return (
        member("a", [0, 1], rebalance_ms=300_000, host="/10.0.0.1"),
        member("b", [2, 3], rebalance_ms=300_000, host="/10.0.0.2"),
    )


def _two(number: int, at: int, since: int | None = None) -> Raw:
    return generation(number, *_pair(), at=BEGIN + at, since=since)


def _new_group(at: int = 0) -> list[Raw]:
    return [asked_for(at=BEGIN + at), _two(1, at + 3 * SECOND)]


def slow_leader(seconds: int, times: int = 1) -> World:
    """The leader of two members needs so long for the assignment of each of so many generations."""
    records = [*_new_group(), *_commits(5 * SECOND, 10 * MINUTE)]
    for number in range(times):
        at = 10 * MINUTE + number * 5 * MINUTE
        synced = at + 4 * SECOND + seconds * SECOND
        records.append(_two(2 + number, synced, since=BEGIN + at + 4 * SECOND))
        records += _commits(synced + 5 * SECOND, at + 5 * MINUTE, first=900 + 100 * number)
    return history(records, context=COMPLETE)


def silent_member() -> tuple[list[Raw], list[Probe]]:
    """Member b commits nothing from minute 9 on; c joins at minute 10, and b is removed after five minutes."""
    began = BEGIN + 10 * MINUTE
    mine = [
        raw
        for raw in _commits(5 * SECOND, 10 * MINUTE)
        if raw.key.partition < 2 or raw.at < BEGIN + 9 * MINUTE
    ]
    third = member("c", [2, 3], host="/10.0.0.3")
    ended = generation(2, _pair()[0], third, at=began + 5 * MINUTE)
    after = _commits(15 * MINUTE + _EVERY, 20 * MINUTE, first=900)
    answers = rounds(began + 5 * SECOND, began + 5 * MINUTE - SECOND, "PreparingRebalance", "a", "b")
    return [*_new_group(), *mine, ended, *after], answers


def silent_records() -> list[Raw]:
    """The same, without the answers."""
    return silent_member()[0]


def leader_does_not_sync() -> World:
    """The members have joined, and the leader has sent nothing for four minutes when the log ends."""
    began = BEGIN + 10 * MINUTE
    answers = [
        *rounds(began, began + 10 * SECOND, "PreparingRebalance", "a", "b"),
        *rounds(began + 20 * SECOND, began + 4 * MINUTE, "CompletingRebalance", "a", "b"),
    ]
    records = [*_new_group(), *_commits(5 * SECOND, 10 * MINUTE)]
    return history(records, probes=answers, until=began + 4 * MINUTE, context=COMPLETE)


def failed_generations(number: int) -> World:
    """So many generations are begun in ten minutes, and none is completed but the last."""
    began, records = BEGIN + 10 * MINUTE, [*_new_group(), *_commits(5 * SECOND, 10 * MINUTE)]
    answers = [
        probe(at, ("PreparingRebalance", "CompletingRebalance")[at // 10_000 % 2], "a", "b")
        for at in range(began, began + 10 * MINUTE, 10 * SECOND)
    ]
    records += [_two(2 + number, 20 * MINUTE), *_commits(20 * MINUTE + _EVERY, 30 * MINUTE, first=900)]
    return history(records, probes=answers, context=COMPLETE)


def not_revoked() -> World:
    """Member a of a KIP-848 group keeps a partition for which member b waits."""
    return history(modern_builders.handover(BEGIN), until=BEGIN + 2 * MINUTE, context=COMPLETE)


def no_assignment() -> World:
    """The group epoch rises, and no target assignment follows."""
    joined = modern_builders.operation(
        BEGIN + MINUTE, modern_builders.described("b"), modern_builders.group_epoch(3)
    )
    first = modern_builders.first_join("a", at=BEGIN)
    return history(first, joined, until=BEGIN + 4 * MINUTE, context=COMPLETE)


def kept_member() -> World:
    """Member a never takes the epoch that came with b, and is not removed."""
    first = modern_builders.first_join("a", at=BEGIN, rebalance_ms=300_000)
    joined = modern_builders.operation(
        BEGIN + MINUTE,
        modern_builders.described("b", rebalance_ms=300_000),
        modern_builders.group_epoch(3),
        modern_builders.target("b", []),
        modern_builders.target_epoch(3),
        modern_builders.current("b", 3),
    )
    return history(first, joined, until=BEGIN + 6 * MINUTE, context=COMPLETE)


def moving_instance_id(moves: int) -> World:
    """The instance id i goes from one host to another and back, so many times one way."""
    records = [asked_for(at=BEGIN)]
    for number in range(1, moves + 2):
        holder = member(
            f"i-{number}", [0], instance_id="i", host=("/10.0.0.1", "/10.0.0.2")[number % 2], client_id="c"
        )
        records.append(
            generation(number, holder, member("other", [1]), at=BEGIN + number * MINUTE + 3 * SECOND)
        )
    return history(records, context=COMPLETE)


def changing_subscription() -> World:
    """Member b subscribes to one more topic, and to one less, every 20 seconds."""
    records = [asked_for(at=BEGIN)]
    for number in range(1, 31):
        topics = ("t", "u") if number % 2 else ("t",)
        records.append(
            generation(
                number,
                member("a", [0, 1], host="/10.0.0.1"),
                member("b", [2, 3], host="/10.0.0.2", subscribed=topics),
                at=BEGIN + number * 20 * SECOND,
            )
        )
    return history(records, context=COMPLETE)


def _known(at: int, *transactions: PendingTransaction, topic: str = "group-probes") -> PendingTransactions:
    """What the prober has found out of the group's transactions, or who read the log behind its stable offset."""
    return PendingTransactions(
        taken_ms=BEGIN + at, topic=topic, partition=0, offset=at, transactions=transactions
    )


def open_transaction(open_ms: int | None, behind: int = 0) -> World:
    """A producer leaves a transaction with commits of all partitions open; None: when the log ends it still is.

    Meanwhile readers get no commit of the group. Producers ``behind`` it leave one open as well, which only the log
    shows.
    """
    began, ends = 10 * MINUTE, (20 if open_ms is None else 5) * MINUTE + (open_ms or 0)
    producers = [
        PendingTransaction(
            log_partition=0,
            first_offset=1_000_000 + number,
            held_from=1_000_000,
            producer_id=4_711 + number,
            producer_epoch=0,
            since_ms=BEGIN + began + number * SECOND,
            partitions=(("t", "0-3"),),
            count=4,
        )
        for number in range(behind + 1)
    ]
    records, answers = (
        [*_new_group(), *_commits(5 * SECOND, began)],
        [],
    )
    answers = [_known(began, *producers, topic=OFFSETS_TOPIC)]
    if open_ms is not None:
        answers = [_known(began + 15 * SECOND, *producers), _known(began + open_ms)]
        records += _commits(began + open_ms + SECOND, began + ends, first=900)
    return history(records, probes=answers, until=BEGIN + began + ends, context=COMPLETE)


def _quiet_for_five_minutes(*seen: CoordinatorSeen) -> World:
    records = [
        *_new_group(),
        *_commits(5 * SECOND, 10 * MINUTE),
        *_commits(15 * MINUTE, 20 * MINUTE, first=900),
    ]
    return history(records, context=COMPLETE, coordinators=seen)


def moved() -> World:
    """Nobody commits for five minutes, which begin when another broker becomes the coordinator."""
    return _quiet_for_five_minutes(
        CoordinatorSeen(BEGIN, BEGIN, 1, None),
        CoordinatorSeen(BEGIN + 10 * MINUTE - 3 * SECOND, BEGIN + 10 * MINUTE + 7 * SECOND, 2, None),
    )


def unreachable() -> World:
    """Nobody commits for five minutes, in which the coordinator does not answer the prober either."""
    error = "_TRANSPORT: Broker transport failure"
    return _quiet_for_five_minutes(
        CoordinatorSeen(BEGIN, BEGIN, 1, None),
        CoordinatorSeen(BEGIN + 10 * MINUTE - 3 * SECOND, BEGIN + 10 * MINUTE + 7 * SECOND, 1, error),
        CoordinatorSeen(BEGIN + 15 * MINUTE - 13 * SECOND, BEGIN + 15 * MINUTE - 3 * SECOND, 1, None),
    )


def offsets_set(by: int, sync_seconds: int = 0) -> World:
    """The group ends; its offsets are set by so many records a partition; it comes back."""
    ended, back = 10 * MINUTE, 20 * MINUTE
    last = 100 + 10 * MINUTE // _EVERY - 1
    records = [
        *_new_group(),
        *_commits(5 * SECOND, ended),
        emptied(2, at=BEGIN + ended + SECOND),
        *(
            commit("t", partition, last + by, at=BEGIN + 15 * MINUTE + partition, leader_epoch=-1)
            for partition in range(4)
        ),
        _two(3, back + sync_seconds * SECOND, since=BEGIN + back),
        *_commits(back + sync_seconds * SECOND + _EVERY, back + 5 * MINUTE, first=last + by),
    ]
    return history(records, context=COMPLETE)


def expired(retention_ms: int | None = HOUR) -> World:
    """The group ends, its offsets expire after an hour (None: after a week), and it begins again at 0."""
    return _removed(13 * MINUTE + (retention_ms or 7 * 24 * HOUR), retention_ms)


def deleted() -> World:
    """The group ends, an administrator deletes it, and it begins again at 0."""
    return _removed(12 * MINUTE, HOUR)


def _removed(removed: int, retention_ms: int | None) -> World:
    """The group ends after ten minutes, is removed with its offsets, and begins again at 0."""
    records = [
        *_new_group(),
        *_commits(5 * SECOND, 10 * MINUTE),
        emptied(2, at=BEGIN + 10 * MINUTE + SECOND),
        *(no_offset("t", partition, at=BEGIN + removed) for partition in range(4)),
        gone(at=BEGIN + removed),
        *_new_group(removed + 10 * MINUTE),
        *_commits(removed + 11 * MINUTE, removed + 15 * MINUTE, first=0),
    ]
    return history(records, context=replace(COMPLETE, retention_ms=retention_ms))


def quiet_topic() -> World:
    """Clients that commit only what they have read: ten minutes without a record, then records again."""

    def progress(since: int, until: int, first: int) -> Iterator[Raw]:
        for number, at in enumerate(range(BEGIN + since, BEGIN + until, _EVERY)):
            for partition in range(4):
                yield commit("t", partition, first + number, at=at + partition, leader_epoch=3)

    records = [
        *_new_group(),
        *progress(5 * SECOND, 10 * MINUTE, 100),
        *progress(20 * MINUTE, 30 * MINUTE, 400),
    ]
    return history(records, context=COMPLETE)
