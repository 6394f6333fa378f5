"""Words for writing histories: a test reads as a log and what is said of it.

A history is a list of raw records of one group in log order; ``observed`` folds it as the reader does, slowly
and obviously.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from groupreplay.codecs import (
    Assignment,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    Subscription,
    TopicPartitions,
    encode_blob,
)
from groupreplay.state import (
    COMMITS,
    STEPS,
    CommitRun,
    Context,
    Event,
    Extent,
    Group,
    GroupRecord,
    Observations,
)
from groupreplay.state.plausible_times import SETBACK_MS
from groupreplay.state.snapshot.commit_intervals import BUCKETS, RHYTHM, SPAN_MS
from groupreplay.state.snapshot.observations import LULL_MS, LULLS, REST_MS, SILENCE_MS, STAY_MS

GROUP = "g"
PARTITION = 3
#: All events of the log are emitted, also those about members.
CONTEXT = Context(cluster_id="test-cluster", era="era-1", member_events=True)


@dataclass(frozen=True)
class Raw:
    """One record of the log, as key and value objects."""

    key: Any
    value: Any
    offset: int = -1
    at: int = -1


def commit(topic: str, partition: int, offset: int, at: int = -1, **fields: Any) -> Raw:
    """An offset commit with a value."""
    value = OffsetCommitValue(
        version=fields.pop("version", 4),
        offset=offset,
        metadata=fields.pop("metadata", ""),
        commit_timestamp_ms=fields.pop("commit_at", at),
        **fields,
    )
    return Raw(OffsetCommitKey(group=GROUP, topic=topic, partition=partition), value, at=at)


def no_offset(topic: str, partition: int, at: int = -1) -> Raw:
    """The tombstone of a committed offset."""
    return Raw(OffsetCommitKey(group=GROUP, topic=topic, partition=partition), None, at=at)


def member(
    member_id: str,
    owns: Sequence[int] = (),
    *,
    topic: str = "t",
    instance_id: str | None = None,
    client_id: str | None = None,
    host: str | None = None,
    rebalance_ms: int = 300_000,
    session_ms: int = 45_000,
    subscribed: Sequence[str] | None = None,
) -> MemberMetadata:
    """A member of a consumer-type group that owns partitions of one topic."""
    subscription = Subscription(
        version=1, topics=tuple(subscribed or (topic,)), user_data=None, owned_partitions=()
    )
    assigned = (TopicPartitions(topic=topic, partitions=tuple(owns)),) if owns else ()
    return MemberMetadata(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id=client_id or f"client-{member_id}",
        client_host=host or f"/10.0.0.{len(member_id)}",
        rebalance_timeout_ms=rebalance_ms,
        session_timeout_ms=session_ms,
        subscription=encode_blob(subscription),
        assignment=encode_blob(Assignment(version=1, assigned_partitions=assigned, user_data=None)),
    )


def generation(
    number: int,
    *members: MemberMetadata,
    at: int = -1,
    since: int | None = None,
    protocol_type: str = "consumer",
    leader: str | None = None,
) -> Raw:
    """A group record; ``since`` is its ``currentStateTimestamp``, else 10 ms before it was written."""
    value = GroupMetadataValue(
        version=3,
        protocol_type=protocol_type,
        generation=number,
        protocol="range" if members else None,
        leader=leader or (members[0].member_id if members else None),
        current_state_timestamp_ms=at - 10 if since is None else since,
        members=members,
    )
    return Raw(GroupMetadataKey(group=GROUP), value, at=at)


def with_protocol(record: Raw, protocol: str) -> Raw:
    """A generation that has chosen this assignor."""
    assert isinstance(record.value, GroupMetadataValue)
    return replace(record, value=replace(record.value, protocol=protocol))


def asked_for(at: int = -1) -> Raw:
    """The record that the coordinator writes at the first JoinGroup for an unknown group."""
    return generation(0, at=at, since=at, protocol_type="")


def emptied(number: int, at: int = -1) -> Raw:
    """The record of a group whose last member has left."""
    return generation(number, at=at, since=at)


def gone(at: int = -1) -> Raw:
    """The group's tombstone."""
    return Raw(GroupMetadataKey(group=GROUP), None, at=at)


def placed(history: Iterable[Raw], *, first: int = 100, step: int = 2) -> list[Raw]:
    """The history with offsets, and gaps for records of other groups (``step`` 1: one operation per timestamp).

    Neighbours with the same timestamp are one operation: their offsets are adjacent.
    """
    records: list[Raw] = []
    for raw in history:
        last = records[-1] if records else Raw(None, None, offset=first - step)
        records.append(replace(raw, offset=last.offset + (1 if raw.at == last.at else step)))
    return records


def observed(records: Sequence[Raw], *, seen_to: int | None = None) -> Observations:
    """These records as the observations of one batch."""
    items: list[GroupRecord | CommitRun] = []
    run: list[Raw] = []
    stays: dict[Any, _Stay] = {}
    for raw in records:
        is_commit = isinstance(raw.value, OffsetCommitValue)
        before = stays.get(raw.key) if is_commit else None
        rests = before is not None and raw.at - before.committed_ms >= REST_MS
        if before is not None and (rests or before.moved_ms(raw) >= STAY_MS):
            # Commits of one request stay together.
            request = [one for one in run if one.at == raw.at]
            items += [_run(run[: len(run) - len(request)])] if len(run) > len(request) else []
            run = request
            if rests:
                stays = {one.key: _Stay(one.at, one.value.offset, one.at) for one in request}
        if run and (not is_commit or not -SETBACK_MS <= raw.at - run[-1].at < SILENCE_MS):
            items.append(_run(run))
            run, stays = [], {}
        if is_commit:
            run.append(raw)
            stays[raw.key] = _stay(stays.get(raw.key), raw)
        else:
            items.append(group_record(raw))
    if run:
        items.append(_run(run))
    last = records[-1].offset if records else -1
    return Observations(items=items, seen_to=last if seen_to is None else seen_to)


class _Stay(NamedTuple):
    """Of one partition in a run, as if no offset had stayed for long: its last commit, and since when it has stayed."""

    committed_ms: int
    offset: int
    since_ms: int

    def moved_ms(self, raw: Raw) -> int:
        """For how long the offset that this commit moves had stayed; 0: it does not move it."""
        return 0 if self.offset == raw.value.offset else raw.at - self.since_ms


def _stay(before: _Stay | None, raw: Raw) -> _Stay:
    is_same = before is not None and before.offset == raw.value.offset
    return _Stay(raw.at, raw.value.offset, before.since_ms if is_same and before is not None else raw.at)


def group_record(raw: Raw) -> GroupRecord:
    """The record as the replay gets it."""
    return GroupRecord(
        partition=PARTITION, offset=raw.offset, timestamp_ms=raw.at, key=raw.key, value=raw.value
    )


def _run(commits: Sequence[Raw]) -> CommitRun:
    topics = sorted({raw.key.topic for raw in commits})
    rows: dict[tuple[str, int], dict[str, int]] = {}
    places: dict[tuple[str, int], int] = {}
    steps = []
    metadata: dict[tuple[str, int], str] = {}
    lulls = []
    gaps: list[tuple[int, int]] = []
    repeats: list[bool] = []
    for raw in commits:
        place = (raw.key.topic, raw.key.partition)
        row = rows.get(place)
        if row is None:
            places[place] = len(rows)
            row = rows[place] = {
                "topic": topics.index(raw.key.topic),
                "partition": raw.key.partition,
                "count": 0,
                "first_offset": raw.value.offset,
                "first_log_offset": raw.offset,
                "first_timestamp_ms": raw.at,
                "first_commit_timestamp_ms": raw.value.commit_timestamp_ms,
                "changed_ms": -1,
                "moved_ms": -1,
                "first_leader_epoch": raw.value.leader_epoch,
            }
        else:
            before_ms, after_ms = row["commit_timestamp_ms"], raw.value.commit_timestamp_ms
            gaps.append((raw.at, max(0, after_ms) - max(0, before_ms)))
            repeats.append(raw.value.offset == row["offset"])
            if gaps[-1][1] >= LULL_MS:
                lulls.append((places[place], before_ms, raw.at))
            if raw.value.offset != row["offset"]:
                row["changed_ms"] = raw.value.commit_timestamp_ms
                row["moved_ms"] = raw.at if row["moved_ms"] < 0 else row["moved_ms"]
            epochs = row["leader_epoch"], raw.value.leader_epoch
            if is_step(row["offset"], raw.value.offset, *epochs, gaps[-1][1]):
                steps.append((places[place], row["offset"], raw.value.offset, raw.offset, raw.at, *epochs))
        row.update(
            offset=raw.value.offset,
            leader_epoch=raw.value.leader_epoch,
            count=row["count"] + 1,
            commit_timestamp_ms=raw.value.commit_timestamp_ms,
            expire_timestamp_ms=raw.value.expire_timestamp_ms,
            log_offset=raw.offset,
            timestamp_ms=raw.at,
        )
        metadata[place] = raw.value.metadata
    table = np.array([tuple(row[name] for name in COMMITS.names or ()) for row in rows.values()], COMMITS)
    return CommitRun(
        partition=PARTITION,
        topics=tuple(topics),
        rows=table,
        extent=Extent.of(table),
        steps=np.array(steps, STEPS),
        lulls=np.array(sorted(lulls, key=itemgetter(0)), LULLS),
        metadata={index: metadata[place] for index, place in enumerate(rows) if metadata[place]},
        rhythm=rhythm_of(gaps, repeats),
    )


def is_step(old: int, new: int, old_epoch: int, epoch: int, gap_ms: int) -> bool:
    """Whether the second of two commits may be more than progress."""
    if new <= old:
        return new < old
    if gap_ms >= 10_000:
        return True
    return epoch < 0 and (old_epoch >= 0 or gap_ms >= 1_000)


def rhythm_of(gaps: Sequence[tuple[int, int]], repeats: Sequence[bool]) -> np.ndarray[Any, Any]:
    """A histogram of the gaps (end, length) between commits."""
    rows: dict[int, list[int]] = {}
    for (ended_ms, gap_ms), repeated in zip(gaps, repeats, strict=True):
        row = rows.setdefault(ended_ms // SPAN_MS, [0] * (BUCKETS + 1))
        row[0] += repeated
        row[1 + min(BUCKETS - 1, (max(0, gap_ms) // 64).bit_length())] += 1
    return np.array([(span, row[0], tuple(row[1:])) for span, row in sorted(rows.items())], RHYTHM)


def replay(history: Iterable[Raw], context: Context = CONTEXT) -> tuple[Group, list[Event]]:
    """The group and all events after the whole history was read and the log is known past its end."""
    return read(placed(history), context)


def read(
    records: Sequence[Raw], context: Context = CONTEXT, end_ms: int | None = None
) -> tuple[Group, list[Event]]:
    """The group and all events after these records in one batch; the log is known up to ``end_ms``."""
    group = Group(GROUP, context)
    events = group.apply(observed(records), now_ms=0)
    past_ms = max((raw.at for raw in records), default=0) + 1
    return group, events + group.expire(past_ms if end_ms is None else end_ms)


def read_in_batches(
    batches: Iterable[Sequence[Raw]], context: Context, end_ms: int
) -> tuple[Group, list[Event]]:
    """The group and all events after these batches, with a restart from what a driver keeps after each."""
    events: list[Event] = []
    group = Group(GROUP, context)
    for batch in batches:
        events += group.apply(observed(batch), 0)
        group.take_document()
        group = Group(GROUP, context) if group.gone else Group.from_snapshot(GROUP, context, group.snapshot())
    events += group.expire(end_ms)
    group.take_document()
    return group, events


def facts(events: Iterable[Event]) -> list[Any]:
    """The facts alone, in order."""
    return [event.fact for event in events]


def names(events: Iterable[Event]) -> list[str]:
    """The names of the events."""
    return [event.fact.NAME for event in events]


def check(shown: Any, **expected: Any) -> None:
    """Compares these fields of a fact or of a document."""
    found = {name: shown[name] if isinstance(shown, dict) else getattr(shown, name) for name in expected}
    assert found == expected, f"{found} != {expected}"
