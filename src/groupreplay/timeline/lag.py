"""How far a group is behind at any moment: in records, and in time; each with the bounds that the records prove.

The ends of a partition are recorded at an interval, the commits with their own times. Between two answers the end is
known in bounds only, so a lag is an estimate in a range. What is not known is absent: never 0, never negative.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from groupreplay.state.phrases import counted, counted_verb, milliseconds, timestamp

#: The clocks of brokers and of the prober may differ by so much.
_CLOCKS_MS: Final = 1_000
#: Ends that were recorded so long ago show no lag of now, whatever the interval of the prober.
OLD_ENDS_MS: Final = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSpan:
    """The ends of one partition, unchanged from a first answer to a last one.

    From ``first_ms`` on, when the first answer was there, the log had at least ``end`` records. Up to ``last_ms``, when
    the last request was made, it had no more: of a single answer ``last_ms`` is before ``first_ms``. An end that was
    recorded rounded had up to ``more`` records more. ``stable`` is the last stable offset, ``epoch`` that of the leader
    (-1: not known). ``unknown``: why there was no answer; the offsets mean nothing then.
    """

    topic_id: str
    first_ms: int
    last_ms: int
    start: int = 0
    end: int = 0
    stable: int = 0
    unknown: str = ""
    more: int = 0
    epoch: int = -1

    @property
    def most(self) -> int:
        """The end at most."""
        return self.end + self.more

    @property
    def estimate(self) -> float:
        """The end, if it was rounded the middle of its bounds."""
        return self.end + self.more / 2


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset and when the broker has written it; ``at_ms`` None: not known."""

    offset: int
    at_ms: int | None


@dataclass(frozen=True, slots=True)
class Range:
    """An estimate and the bounds of the truth; ``most`` None: no bound is known."""

    estimate: int
    least: int
    most: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The lag of one partition; ``records`` None: unknown, and ``notes`` begin with the reason.

    ``time_ms``: how long ago the end passed the committed offset. ``start`` and ``end`` are those of the last answer.
    """

    records: Range | None = None
    time_ms: Range | None = None
    start: int | None = None
    end: int | None = None
    notes: tuple[str, ...] = ()


def lag_at(spans: Sequence[EndSpan], committed: Committed | None, at_ms: int) -> Lag:
    """The lag at a moment, from all spans of the partition in the order of ``first_ms``."""
    if not any(span.first_ms <= at_ms for span in spans):
        until = f" before {timestamp(spans[0].first_ms)}" if spans else ""
        return Lag(notes=(f"the ends of the partition were not recorded{until}",))
    log, before = _log_of(spans, at_ms)
    answers = [span for span in log if not span.unknown]
    past = [span for span in answers if span.first_ms <= at_ms]
    silent = _silence(log, at_ms)
    if not past:
        return Lag(notes=silent or ("the ends of the partition are not known",))
    last = past[-1]
    loss = _loss(before, log[0])
    seen_ms = max(max(span.first_ms, span.last_ms) for span in past)
    is_old = seen_ms < at_ms - OLD_ENDS_MS and not any(span.last_ms >= at_ms for span in answers)
    if is_old and not silent:
        silent = (f"the end was last recorded at {timestamp(seen_ms)}",)
    why = _contradiction(log[0], past, committed, before) or _after_all_ends(last, seen_ms, committed)
    if committed is None or why:
        return Lag(start=last.start, end=last.end, notes=(why, *loss, *silent))
    return Lag(
        records=_records(answers, committed.offset, at_ms),
        time_ms=_time(answers, committed.offset, at_ms),
        start=last.start,
        end=last.end,
        notes=(*_remarks(last, committed.offset), *loss, *silent),
    )


def _contradiction(
    first: EndSpan, past: Sequence[EndSpan], committed: Committed | None, before: EndSpan | None
) -> str:
    """Why a known end gives no lag; empty: it does. ``before``: the last span of the log before."""
    if committed is None:
        return "the group has no committed offset here"
    is_recreated = before is not None and before.topic_id != first.topic_id
    if is_recreated and (committed.at_ms is None or committed.at_ms < first.first_ms):
        return "the topic was deleted and created again; the commit may be of the one before"
    beyond = _beyond(past, committed)
    if beyond:
        return f"the committed offset is {beyond:,} past the end of the log, which was cut or is another one"
    return ""


def _after_all_ends(last: EndSpan, seen_ms: int, committed: Committed | None) -> str:
    """That what was committed is of a time of which no end is known; empty: one is."""
    if committed is None or committed.at_ms is None or committed.offset <= last.most:
        return ""
    late_ms = committed.at_ms - seen_ms
    return (
        f"the offset was committed {milliseconds(late_ms)} after the last recorded end"
        if late_ms > OLD_ENDS_MS
        else ""
    )


def _loss(before: EndSpan | None, after: EndSpan) -> tuple[str, ...]:
    """That records were lost, if the log begins where another one of the same topic was cut.

    A new leader answers with no end before its high watermark is that of its own epoch (KIP-207): it lacks records if
    its end is lower.
    """
    if before is None or before.topic_id != after.topic_id:
        return ()
    how = ": the log was cut, or is another one"
    if -1 < before.epoch < after.epoch:
        how = f", when a leader was elected without them (epoch {before.epoch}, then {after.epoch})"
    lost = counted_verb(before.end - after.most, "record", "was", "were")
    return (f"at least {lost} lost between {timestamp(before.last_ms)} and {timestamp(after.first_ms)}{how}",)


def total(lags: Iterable[Lag]) -> tuple[Range | None, Range | None, int]:
    """Of several partitions: the sum of the records, the longest time, and how many partitions are not known."""
    every = list(lags)
    records = [lag.records for lag in every if lag.records is not None]
    times = [lag.time_ms for lag in every if lag.time_ms is not None]
    return (
        _joined(records, sum) if records else None,
        _joined(times, max) if times else None,
        len(every) - len(records),
    )


def _joined(ranges: Sequence[Range], join: Callable[[Sequence[int]], int]) -> Range:
    bounds = [item.most for item in ranges if item.most is not None]
    return Range(
        join([item.estimate for item in ranges]),
        join([item.least for item in ranges]),
        join(bounds) if len(bounds) == len(ranges) else None,
    )


def _log_of(spans: Sequence[EndSpan], at_ms: int) -> tuple[Sequence[EndSpan], EndSpan | None]:
    """The spans of the log that there is at that moment, and the last one with an end of the log before it."""
    here = max(place for place, span in enumerate(spans) if span.first_ms <= at_ms)
    begins = log_begins(spans)
    first, last = begins[here], bisect_right(begins, begins[here])
    return spans[first:last], spans[last_end(spans, first)] if first else None


def log_begins(spans: Sequence[EndSpan]) -> list[int]:
    """For each span the index of the first one of the same log.

    A log that was cut is another log: its end passes an offset twice. A leader that lacks records may be elected when
    there was none for a while, so what counts is the last end before.
    """
    begins, known = list[int](), None
    for place, span in enumerate(spans):
        is_first = not place or spans[place - 1].topic_id != span.topic_id
        if is_first or (known is not None and not span.unknown and not _goes_on(known, span)):
            begins.append(place)
            known = None
        else:
            begins.append(begins[-1])
        known = known if span.unknown else span
    return begins


def last_end(spans: Sequence[EndSpan], place: int) -> int:
    """The index of the last span before this one that has an end; of the first one, if none has."""
    return next((at for at in range(place - 1, -1, -1) if not spans[at].unknown), 0)


def _goes_on(before: EndSpan, after: EndSpan) -> bool:
    # Two probers may answer in another order than the brokers did: only what contradicts itself was cut.
    return before.end <= after.most or before.first_ms > after.last_ms


def _silence(log: Sequence[EndSpan], at_ms: int) -> tuple[str, ...]:
    last = [span for span in log if span.first_ms <= at_ms][-1]
    return (f"{last.unknown}, since {timestamp(last.first_ms)}",) if last.unknown else ()


def _beyond(past: Sequence[EndSpan], committed: Committed) -> int:
    """By how many offsets a commit is past the end that a later request has returned; 0: it is not."""
    if committed.at_ms is None:
        return max(0, committed.offset - past[-1].most)
    later = [span.most for span in past if span.last_ms >= committed.at_ms + _CLOCKS_MS]
    return max(0, committed.offset - later[-1]) if later else 0


def _records(answers: Sequence[EndSpan], offset: int, at_ms: int) -> Range:
    lower = max((span for span in answers if span.first_ms <= at_ms), key=lambda span: span.end)
    least = max(0, lower.end - offset)
    later = [span for span in answers if span.last_ms >= at_ms]
    if not later:
        return Range(least, least, None)
    upper = min(later, key=lambda span: span.most)
    most = max(least, upper.most - offset)
    # From the last moment with one end to the first moment with the other.
    low_ms, high_ms = max(lower.first_ms, lower.last_ms), min(upper.first_ms, upper.last_ms)
    end = _between(at_ms, (low_ms, lower.estimate), (high_ms, upper.estimate))
    return Range(min(most, max(least, round(end) - offset)), least, most)


def _time(answers: Sequence[EndSpan], offset: int, at_ms: int) -> Range:
    """How long before the moment the end passed the offset: when the first record that is not consumed was written."""
    before = max((span for span in answers if span.most <= offset), key=lambda s: s.last_ms, default=None)
    after = min((span for span in answers if span.end > offset), key=lambda s: s.first_ms, default=None)
    least = 0 if after is None else max(0, at_ms - after.first_ms)
    if before is None:
        return Range(least, least, None)
    most = max(least, at_ms - before.last_ms)
    if after is None:
        is_behind_none = any(span.first_ms <= at_ms <= span.last_ms for span in answers)
        return Range(0, 0, 0 if is_behind_none else most)
    # The middle of the record: one that is alone in its interval may be anywhere in it.
    passed_ms = _between(offset + 0.5, (before.estimate, before.last_ms), (after.estimate, after.first_ms))
    return Range(min(most, max(least, round(at_ms - passed_ms))), least, most)


def _between(at: float, low: tuple[float, float], high: tuple[float, float]) -> float:
    """The value at ``at`` on the line through two points; that of the first one if they are at one place."""
    if high[0] <= low[0]:
        return low[1]
    share = min(1.0, max(0.0, (at - low[0]) / (high[0] - low[0])))
    return low[1] + share * (high[1] - low[1])


def _remarks(last: EndSpan, offset: int) -> tuple[str, ...]:
    remarks = []
    if last.start > offset:
        remarks.append(f"records are already gone: {last.start - offset:,}")
    waiting = last.end - max(last.stable, offset)
    if last.stable < last.end and waiting > 0:
        remarks.append(
            f"behind an open transaction, unreadable with read_committed: {counted(waiting, 'record')}"
        )
    return tuple(remarks)
