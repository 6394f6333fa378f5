"""The lag of groups: their committed offsets beside the recorded ends of partitions, and beside those of now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from groupreplay.state.phrases import interval, milliseconds
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.sources.recorded_ends import RecordedEnds
from groupreplay.timeline.lag import Committed, EndSpan, Lag, Range, lag_at, total

if TYPE_CHECKING:
    from groupreplay.streaming.kafka.clients import Connection

#: What ``Group.describe()`` returns.
Description = Mapping[str, Any]
#: Types of groups whose members own partitions of topics; those of streams groups own tasks.
_OWN_PARTITIONS: Final = ("classic", "consumer")


class KnownEnds(Protocol):
    """The ends of partitions, wherever they are from."""

    def spans(self, topic: str, partition: int) -> tuple[EndSpan, ...]:
        """All that is known of a partition, in the order of its times."""


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """The log of a partition beside a committed offset, as fields of the offset; None: not known.

    The truth is between ``lag_least`` and ``lag_most`` (None: no bound is known), the time lag likewise.
    ``earliest_replays`` and ``latest_skips``: records that a consumer reads again from the log's start, or skips, if it
    loses the committed offset and starts at ``auto.offset.reset``. ``lag_notes``: what else is to be known of it.
    """

    log_start_offset: int | None
    log_end_offset: int | None
    lag: int | None
    lag_least: int | None
    lag_most: int | None
    time_lag_ms: int | None
    time_lag_least_ms: int | None
    time_lag_most_ms: int | None
    earliest_replays: int | None
    latest_skips: int | None
    lag_notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupLags:
    """The lags of groups at a moment."""

    ends: RecordedEnds
    at_ms: int

    def __bool__(self) -> bool:
        return bool(self.ends)

    def of(self, topic: str, partition: int, offset: Description | None) -> Lag:
        """The lag of a committed offset (None: there is none)."""
        return _lag(self.ends, self.at_ms, (topic, partition), offset)

    def beside(self, groups: Sequence[Description]) -> list[dict[str, Any]]:
        """The same groups; each offset has also the fields of ``PartitionLag``. Without any ends nothing is added."""
        if not self:
            return [dict(group) for group in groups]
        return [
            {**group, "offsets": [self._measured(offset) for offset in group["offsets"]]} for group in groups
        ]

    def totals(self, group: Description) -> tuple[Range | None, Range | None, int]:
        """Records and time of a group, and the number of its partitions whose lag is not known."""
        return group_lag(self.ends, self.at_ms, group)

    def with_now(self, groups: Sequence[Description], connection: Connection) -> GroupLags:
        """The lags of now, with what the leaders answer at this moment.

        Raises:
            GroupReplayError: the cluster does not answer.
        """
        return GroupLags(self.ends, max(self.at_ms, add_ends_now(self.ends, groups, connection)))

    def _measured(self, offset: Description) -> dict[str, Any]:
        lag = self.of(offset["topic"], offset["partition"], offset)
        return {**offset, **msgspec.structs.asdict(_fields(lag, offset["offset"]))}


def group_lag(ends: KnownEnds, at_ms: int, group: Description) -> tuple[Range | None, Range | None, int]:
    """Records and time of a group, and the number of its partitions whose lag is not known."""
    committed = {(offset["topic"], offset["partition"]): offset for offset in group["offsets"]}
    places = sorted(set(partitions_of([group])))
    return total(_lag(ends, at_ms, place, committed.get(place)) for place in places)


def _lag(ends: KnownEnds, at_ms: int, place: tuple[str, int], offset: Description | None) -> Lag:
    committed = offset and Committed(offset["offset"], offset.get("commit_timestamp_ms"))
    return lag_at(ends.spans(*place), committed or None, at_ms)


def lag_fields(records: Range | None, time: Range | None) -> dict[str, int | None]:
    """The fields of a lag in records and in time: estimate, least and most of each; None: not known."""
    fields: dict[str, int | None] = {}
    for name, unit, value in (("lag", "", records), ("time_lag", "_ms", time)):
        estimate, least, most = (None,) * 3 if value is None else (value.estimate, value.least, value.most)
        fields |= {f"{name}{unit}": estimate, f"{name}_least{unit}": least, f"{name}_most{unit}": most}
    return fields


def _fields(lag: Lag, offset: int) -> PartitionLag:
    start, end = lag.start, lag.end
    is_there = start is not None and end is not None
    return PartitionLag(
        log_start_offset=start,
        log_end_offset=end,
        **lag_fields(lag.records, lag.time_ms),
        earliest_replays=max(0, min(offset, end or 0) - (start or 0)) if is_there else None,
        latest_skips=max(0, (end or 0) - offset) if is_there else None,
        lag_notes=lag.notes,
    )


def partitions_of(groups: Sequence[Description]) -> Iterator[tuple[str, int]]:
    """The partitions that have a committed offset or an owner; some of them twice."""
    for group in groups:
        for offset in group["offsets"]:
            yield offset["topic"], offset["partition"]
        for member in group["members"] if group["type"] in _OWN_PARTITIONS else ():
            for topic, numbers in member["partitions"].items():
                for number in numbers:
                    yield topic, number


def add_ends_now(ends: RecordedEnds, groups: Sequence[Description], connection: Connection) -> int:
    """Ask the leaders of all partitions that have a committed offset or an owner; returns the time of the answers.

    Raises:
        GroupReplayError: the cluster does not answer.
    """
    from groupreplay.streaming.kafka.log_ends import read_ends, readable_topics

    places = set(partitions_of(groups))
    topics = readable_topics(connection, {topic for topic, _ in places}, internal=True)
    layouts = topics.layouts
    if topics.refused and not layouts:
        reason = next(iter(topics.refused.values()))
        raise GroupReplayError(f"no topic could be described: {reason}", where="ends of partitions")
    led = {name: set(layout.led) for name, layout in layouts.items()}
    answers = read_ends(connection, [place for place in places if place[1] in led.get(place[0], ())])
    at_ms = now_ms()
    for (topic, number), answer in answers.items():
        ends.add_now(layouts[topic].topic_id, topic, number, answer, at_ms)
    return at_ms


def time_lag_text(least_ms: int | None, most_ms: int | None) -> str | None:
    """``10.0 s .. 14.0 s``, ``at least 2 min 0 s``; None: not known."""
    if least_ms is None:
        return None
    return f"at least {milliseconds(least_ms)}" if most_ms is None else interval(least_ms, most_ms)
