"""What a stop cost: the backlog of a group at the begin and the end of a rebalance, or of a time without commits.

Commits are joined with the recorded ends of partitions. Each number has the bounds that those prove (``timeline.lag``);
where no ends were recorded the cost is not known, never 0.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.events.event import Cause, Event, Evidence, History
from groupreplay.state.events.lag_events import RebalanceCost, StopCost
from groupreplay.state.phrases import Data, counted, milliseconds, rebalance_length
from groupreplay.timeline.commit_rates import CommitLog, CommittedOffsets, Ints, committed_offsets, pauses
from groupreplay.timeline.lag import EndSpan, Lag, lag_at, last_end, log_begins, total

#: A topic and the number of a partition.
Place: TypeAlias = tuple[str, int]
#: From when to when.
Span: TypeAlias = tuple[int, int]
#: The recorded ends of a partition, in the order of ``first_ms``.
EndsOf: TypeAlias = Callable[[str, int], Sequence[EndSpan]]
#: Spans beside a moment that a lag needs; more than one, because two probers may answer in turn.
_NEAR: Final = 6
#: Of amounts of records.
_UNITS: Final = ((10**9, "G"), (10**6, "M"), (10**3, "k"))
#: Moments at which the highest backlog is sought.
_MOMENTS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietTime:
    """A time without commits on partitions that had commits before, while records came; and its cost."""

    topics: tuple[str, ...]
    cost: StopCost


@dataclass(slots=True)
class _Partition:
    """One partition: its committed offsets, and its recorded ends."""

    commits: CommittedOffsets
    spans: Sequence[EndSpan]
    begins: Sequence[int] = field(default_factory=list)
    _firsts: list[int] = field(default_factory=list)
    _answers: tuple[Ints, Ints] | None = None

    def __post_init__(self) -> None:
        self.begins = log_begins(self.spans)
        self._firsts = [span.first_ms for span in self.spans]

    def lag(self, at_ms: int) -> Lag:
        """The lag at a moment, from the spans near it and those that show another log before."""
        here = bisect_right(self._firsts, at_ms)
        begin = self.begins[here - 1] if here else 0
        near = self.spans[max(begin + 1, here - _NEAR) : here + _NEAR]
        return lag_at(
            [*self.spans[last_end(self.spans, begin) : begin + 1], *near], self.commits.at(at_ms), at_ms
        )

    def backlog(self, moments: Ints) -> Ints:
        """The last recorded end minus the committed offset, at least, at these moments; 0 where one is not known."""
        first_ms, end = self.answers()
        place = np.searchsorted(first_ms, moments, side="right") - 1
        commit = np.searchsorted(self.commits.at_ms, moments, side="right") - 1
        is_known = (place >= 0) & (commit >= 0)
        if not len(first_ms) or not len(self.commits.at_ms):
            return np.zeros(len(moments), np.int64)
        return np.where(is_known, np.maximum(end[place] - self.commits.offset[commit], 0), 0)

    def answers(self) -> tuple[Ints, Ints]:
        """When each recorded end was answered, and the end."""
        if self._answers is None:
            answers = [(span.first_ms, span.end) for span in self.spans if not span.unknown]
            table = np.array(answers, np.int64).reshape(len(answers), 2)
            self._answers = table[:, 0], table[:, 1]
        return self._answers

    def caught_up_ms(self, since_ms: int, backlog: int, offset: int) -> int | None:
        """The first moment from ``since_ms`` on, then or at a commit, at which all below an offset is consumed.

        And the last recorded end is no further away than ``backlog``.
        """
        first = int(np.searchsorted(self.commits.at_ms, since_ms, side="right"))
        moments = np.concatenate([np.array([since_ms], np.int64), self.commits.at_ms[first:]])
        commits = self.commits.offset[max(first - 1, 0) :]
        caught_up = np.flatnonzero((commits >= offset) & (self.backlog(moments) <= backlog))
        return int(moments[caught_up[0]]) if len(caught_up) else None


class Backlog:
    """The backlog of one group over time, from all of its commits and the recorded ends."""

    def __init__(self, commits: CommitLog, ends_of: EndsOf) -> None:
        self._commits = commits
        self._partitions = {
            place: _Partition(committed, ends_of(*place)) for place, committed in committed_offsets(commits)
        }

    def __bool__(self) -> bool:
        return any(partition.spans for partition in self._partitions.values())

    def cost(self, since_ms: int, until_ms: int, *, is_whole: bool = True) -> StopCost | None:
        """What a stop of all partitions cost; None: that is not known.

        ``is_whole`` false: it may have begun before ``since_ms``.
        """
        return self._cost(dict.fromkeys(self._partitions, (since_ms, until_ms)), is_whole=is_whole)

    def _cost(self, spans: Mapping[Place, Span], *, is_whole: bool = True) -> StopCost | None:
        """The same of partitions that stopped each for a time of its own."""
        pairs = [
            (part, part.lag(begin_ms), part.lag(end_ms), end_ms)
            for place, (begin_ms, end_ms) in spans.items()
            if (part := self._partitions[place]).commits.at(end_ms) is not None
        ]
        known = [_Grown.of(*pair) for pair in pairs if all(lag.records is not None for lag in pair[1:3])]
        if not known:
            return None
        least, added, most = (sum(column) for column in zip(*(grown.bounds for grown in known), strict=True))
        begin, end = (total(getattr(grown, name) for grown in known)[0] for name in ("begin", "end"))
        assert begin is not None
        assert end is not None
        since_ms, until_ms = min(span[0] for span in spans.values()), max(span[1] for span in spans.values())
        times = [grown.caught_up_ms() for grown in known]
        caught_up_ms = None if None in times else max(time for time in times if time is not None)
        count = sum(grown.bounds[1] > 0 for grown in known)
        has_most = is_whole and all(grown.has_most for grown in known)
        unknown = len(pairs) - len(known)
        return StopCost(
            since_ms=since_ms,
            until_ms=until_ms,
            partitions=count,
            added=added,
            added_least=least,
            added_most=most if has_most else None,
            lag_begin=begin.estimate,
            lag_end=end.estimate,
            lag_peak=max(begin.estimate, end.estimate, self._peak(known, since_ms, caught_up_ms)),
            caught_up_ms=caught_up_ms,
            lag_unknown=unknown,
            text=_text(added, count, unknown, None if caught_up_ms is None else caught_up_ms - until_ms),
        )

    def quiet_times(self, since_ms: int = 0, until_ms: int | None = None) -> list[QuietTime]:
        """The times without commits in which records came, in order; without recorded ends none is known.

        ``until_ms`` None: up to the last commit of the group.
        """
        if until_ms is None:
            until_ms = int(self._commits.at_ms.max(initial=0))
        spans = pauses(self._commits, since_ms, until_ms) if self else {}
        stops = list[tuple[int, dict[Place, Span]]]()
        for begin_ms, end_ms, place in sorted(
            # The commit that ends a stop is of records that were read after it.
            (begin_ms, end_ms - 1, place)
            for place, parts in spans.items()
            for begin_ms, end_ms in parts
        ):
            if not stops or begin_ms >= stops[-1][0] or place in stops[-1][1]:
                stops.append((end_ms, {}))
            last_ms, of_stop = stops[-1]
            of_stop[place] = begin_ms, end_ms
            stops[-1] = max(last_ms, end_ms), of_stop
        made = [(self._cost(of_stop), of_stop) for _, of_stop in stops]
        return [
            QuietTime(topics=tuple(sorted({topic for topic, _ in of_stop})), cost=cost)
            for cost, of_stop in made
            if cost is not None and cost.added
        ]

    @staticmethod
    def _peak(known: Sequence[_Grown], since_ms: int, until_ms: int | None) -> int:
        """The highest sum of the backlogs, at the moments at which ends were recorded."""
        parts = [grown.partition for grown in known]
        times = np.unique(np.concatenate([part.answers()[0] for part in parts]))
        times = times[(times >= since_ms) & ((times <= until_ms) if until_ms is not None else True)]
        times = times[:: max(1, -(-len(times) // _MOMENTS))]
        sums = sum((part.backlog(times) for part in parts), np.zeros(len(times), np.int64))
        return int(sums.max(initial=0))


@dataclass(frozen=True, slots=True)
class _Grown:
    """A partition with its lag at the begin and the end of a stop; ``bounds``: least, estimate, most of its growth."""

    partition: _Partition
    begin: Lag
    end: Lag
    bounds: tuple[int, int, int]
    has_most: bool
    end_ms: int

    @classmethod
    def of(cls, partition: _Partition, begin: Lag, end: Lag, end_ms: int) -> _Grown:
        """Both lags are known."""
        before, after = begin.records, end.records
        assert before is not None
        assert after is not None
        most = after.estimate if after.most is None else after.most
        least = 0 if before.most is None else max(0, after.least - before.most)
        estimate = max(least, after.estimate - before.estimate)
        bounds = least, estimate, max(estimate, most - before.least)
        return cls(partition, begin, end, bounds, after.most is not None, end_ms)

    def caught_up_ms(self) -> int | None:
        """When the partition was no further behind than at the begin."""
        before, after, committed = (
            self.begin.records,
            self.end.records,
            self.partition.commits.at(self.end_ms),
        )
        assert before is not None
        assert after is not None
        assert committed is not None
        # Ends that were recorded before the stop show none of what came in it.
        made_up = committed.offset + after.estimate - before.estimate
        backlog = before.estimate if before.most is None else before.most
        return self.partition.caught_up_ms(self.end_ms, backlog, made_up)


def rebalance_cost(backlog: Backlog, at_ms: int, data: Data) -> StopCost | None:
    """What a rebalance cost by the time and ``data`` of its ``rebalance.completed``; None: that is not known."""
    length = rebalance_length(data)
    longest_ms = length.least_ms if length.most_ms is None else length.most_ms
    return backlog.cost(at_ms - longest_ms, at_ms, is_whole=length.most_ms is not None)


def cost_event(completed: Mapping[str, Any], cost: StopCost, known_ms: int) -> Event:
    """The event ``rebalance.cost`` for the CloudEvent of a ``rebalance.completed``; its id follows from that one.

    ``known_ms``: when the cost was known, if it was not caught up by then.
    """
    data = completed["data"]
    cause = data["cause"] and Cause(**data["cause"])
    fact = RebalanceCost(
        rebalance_id=data["rebalance_id"],
        generation=data["generation"],
        completed_event=completed["id"],
        cost=cost,
    )
    return Event(
        fact=fact,
        group_id=data["group_id"],
        group_type=GroupType(data["group_type"]),
        simple=data["simple"],
        time_ms=known_ms if cost.caught_up_ms is None else cost.caught_up_ms,
        evidence=Evidence.INFERRED,
        history=History(data["history"]),
        cause=cause or None,
        labels=data["labels"],
    )


def _text(added: int, partitions: int, unknown: int, later_ms: int | None) -> str:
    """``+ 1.2 M records on 6 partitions, caught up 12 min 3 s later``."""
    missing = f"; the lag of {counted(unknown, 'partition')} is not known" if unknown else ""
    if not added:
        return f"no records waited{missing}"
    after = "not caught up yet"
    if later_ms is not None:
        after = f"caught up {milliseconds(later_ms)} later" if later_ms > 0 else "caught up at its end"
    return f"+ {_amount(added)} on {counted(partitions, 'partition')}, {after}{missing}"


def _amount(records: int) -> str:
    """``1 record``, ``940 records``, ``34 k records``, ``1.2 M records``."""
    if records < 10_000:
        return counted(records, "record")
    size, unit = next((size, unit) for size, unit in _UNITS if records >= size)
    return f"{records / size:.{0 if records >= 10 * size else 1}f} {unit} records"
