"""The rule about times of records, one record after the other, slowly and obviously."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from groupreplay.codecs import Malformed, OffsetCommitValue, Skipped, decode_value
from groupreplay.state.job.bad_records import BadRecord
from groupreplay.state.snapshot.observations import REST_MS, SILENCE_MS, STAY_MS
from groupreplay.streaming.engine.packing.key_columns import usable_key
from support.histories.raw_records import Raw

DAY_MS = 86_400_000
YEAR_2100_MS = 4_102_444_800_000


class Dated(NamedTuple):
    """A record with the times with which it is applied; ``cut``: a run of commits ends before it."""

    raw: Raw
    key: Any
    value: Any
    cut: bool


def limit_of(caught_up_ms: int) -> int:
    """A day after the caught-up time, at most the year 2100."""
    return min(caught_up_ms + DAY_MS, YEAR_2100_MS) if caught_up_ms else YEAR_2100_MS


def inside_ms(value: Any) -> int:
    """The time inside a record; 0 for none."""
    for name in ("commit_timestamp_ms", "current_state_timestamp_ms", "assignment_timestamp_ms"):
        if hasattr(value, name):
            return int(getattr(value, name))
    return 0


def dated_records(rows: Sequence[Raw], caught_up_ms: int) -> tuple[list[Dated], list[BadRecord]]:
    """All records of one chunk and one partition in order, and what is reported of those with a wrong time."""
    limit_ms, last_ms = limit_of(caught_up_ms), dict[str, int]()
    committed_ms, begins = dict[tuple[str, str, int], int](), dict[str, int]()
    stays = dict[tuple[str, str, int], tuple[int, int]]()
    dated, wrong = list[Dated](), list[tuple[Dated, str]]()
    for raw in rows:
        key = usable_key(raw.key)
        value = key if isinstance(key, Skipped | Malformed) else decode_value(key, raw.value)
        if isinstance(key, Skipped | Malformed) or isinstance(value, Skipped | Malformed):
            dated.append(Dated(raw, key, value, False))
            continue
        inside = inside_ms(value)
        bad_record, bad_inside = (not -1 <= one <= limit_ms for one in (raw.timestamp_ms, inside))
        before_ms, at_ms = last_ms.get(key.group), raw.timestamp_ms
        if bad_record or at_ms == -1:
            at_ms = -1 if before_ms is None else before_ms
        if isinstance(value, OffsetCommitValue) and (bad_record or bad_inside or inside == -1):
            value = replace(value, commit_timestamp_ms=-2 if at_ms == -1 else at_ms)
        cut = before_ms is not None and _is_apart(before_ms, at_ms)
        begin = begins[key.group] = len(dated) if at_ms != before_ms else begins[key.group]
        if cut or not isinstance(value, OffsetCommitValue):
            stays = {place: stay for place, stay in stays.items() if place[0] != key.group}
        if isinstance(value, OffsetCommitValue):
            place = _place(key)
            rests = at_ms - committed_ms.get(place, at_ms) >= REST_MS and committed_ms[place] >= 0
            stays = _of_the_request(stays, key.group, committed_ms, at_ms) if rests else stays
            offset, since_ms = stays.get(place, (value.offset, at_ms))
            if rests or (offset != value.offset and at_ms - since_ms >= STAY_MS):
                # Before the first record of its request, which has the same time.
                cut = cut or begin == len(dated)
                dated[begin : begin + 1] = [one._replace(cut=True) for one in dated[begin : begin + 1]]
            committed_ms[place] = at_ms
            stays[place] = (offset, since_ms) if offset == value.offset else (value.offset, at_ms)
        last_ms[key.group] = at_ms
        one = Dated(raw._replace(timestamp_ms=at_ms), key, value, cut)
        dated.append(one)
        if bad_record or bad_inside:
            wrong.append((one._replace(raw=raw), "timestamp" if bad_record else _kafka_name(key.KEY_TYPE)))
    return dated, list(_reported(wrong, caught_up_ms, limit_ms))


def _place(key: Any) -> tuple[str, str, int]:
    return key.group, key.topic, key.partition


def _is_apart(before_ms: int, at_ms: int) -> bool:
    """Whether a run of commits ends between two records of a group."""
    is_silent = before_ms >= 0 and at_ms - before_ms >= SILENCE_MS
    return is_silent or at_ms < before_ms - 60_000 or (before_ms == -1 and at_ms != -1)


def _of_the_request(
    stays: Mapping[tuple[str, str, int], tuple[int, int]],
    group: str,
    committed_ms: Mapping[tuple[str, str, int], int],
    at_ms: int,
) -> dict[tuple[str, str, int], tuple[int, int]]:
    """How long offsets have stayed in a run that begins with this request."""
    return {
        place: stay if place[0] != group else (stay[0], at_ms)
        for place, stay in stays.items()
        if place[0] != group or committed_ms[place] == at_ms
    }


def _kafka_name(key_type: int) -> str:
    return {0: "commitTimestamp", 1: "commitTimestamp", 2: "currentStateTimestamp"}.get(
        key_type, "assignmentTimestamp"
    )


def _reported(wrong: Sequence[tuple[Dated, str]], caught_up_ms: int, limit_ms: int) -> Iterator[BadRecord]:
    """The first of them; all have the same caught-up time."""
    if not wrong:
        return
    (raw, key, _, _), field = wrong[0]
    at_ms = raw.timestamp_ms if field == "timestamp" else inside_ms(decode_value(key, raw.value))
    why = "is after the year 2100"
    if caught_up_ms:
        why = "is more than a day after the record had been read"
    if at_ms < 0:
        why = "is below zero"
    instead = "its record's time" if field != "timestamp" else "the time of the group's record before it"
    bad_time = raw.timestamp_ms < 0 or raw.timestamp_ms > limit_ms
    yield BadRecord(
        partition=raw.partition,
        offset=raw.offset,
        timestamp_ms=raw.timestamp_ms,
        group=key.group,
        kind="timestamp",
        key_type=key.KEY_TYPE,
        version=None,
        field=field,
        byte_position=None,
        reason=f"timestamp {at_ms} {why}; the record was applied with {instead}",
        read_ms=caught_up_ms if bad_time else None,
        others=len(wrong) - 1,
        seen_ms=caught_up_ms,
    )
