"""A whole log through ``live``, and the events that it gives: which are selected, and in what order.

Uses no clock: an event is recorded at the time it happened, so that the same records give the same bytes.
"""

from __future__ import annotations

import heapq
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any, Final

import msgspec

from groupreplay.state import OFFSETS_TOPIC, Context
from groupreplay.state.events.event import Severity, name_of
from groupreplay.state.phrases import counted, timestamp
from groupreplay.state.policy.pending import PendingCommit
from groupreplay.state.snapshot.observations import PendingTransactions
from groupreplay.streaming.base.spawned import usable_processes
from groupreplay.streaming.contract.messages import Integer, Output, OutputRow
from groupreplay.streaming.engine.live import Call, Live, WaitingAnswer
from groupreplay.streaming.engine.replay_workers import replay_workers
from groupreplay.streaming.engine.wire import GROUP_TAG, PackedProbe, to_wire
from groupreplay.streaming.sources.pending_transactions import pending_transactions
from groupreplay.streaming.sources.source import Rows

#: To start a process takes a second of CPU time; so many packed bytes of a storm take several times that.
_ALONE_BYTES: Final = 2 << 20
_SPILL_BYTES: Final = 64 * 1024 * 1024
_SEPARATOR: Final = b"\0"
_SHOWN: Final = 6


class Replay(Live):
    """A log that has ended: ``feed`` it the rows once, then read ``groups``.

    ``until_ms`` ends the log: later records are ignored, but records that compaction has removed since then are
    missing. ``now_ms`` is the time up to which the log is complete, if that is later than its last record: deadlines up
    to then take effect. So many ``processes`` apply the records of a long log (None: one for each CPU); more than one
    only in a program whose main module may be imported again (``multiprocessing``).
    """

    def __init__(
        self,
        context: Context,
        groups: Container[str] | None = None,
        *,
        until_ms: int | None = None,
        now_ms: int | None = None,
        processes: int | None = 1,
    ) -> None:
        super().__init__(context, groups, until_ms=until_ms, otherwise_ms=now_ms or 0)
        self.latest_ms = now_ms or 0
        self._processes = processes or usable_processes()

    @property
    def end_ms(self) -> int:
        """The end of the time that was asked for, or of the log."""
        return self.latest_ms + 1 if self._until_ms is None else self._until_ms

    def reaches(self, since_ms: int | None) -> bool:
        """Whether anything is known of this time or later; a quiet time before the end of the log is known."""
        return since_ms is None or since_ms <= self.latest_ms

    def feed(self, rows: Rows) -> Iterator[OutputRow]:
        """All messages that the job would write for these rows. The end of the rows is the end of the log."""
        pending = dict(self._pending())
        answers = (_answer(group_id, commits) for group_id, commits in pending.items())
        yield from self.take(rows, pending=answers)
        # Records behind a last stable offset show that its transactions were open until then: their thresholds pass.
        open_ms = max((commit.open_ms for commits in pending.values() for commit in commits), default=0)
        if self._until_ms is not None:
            open_ms = min(open_ms, self._until_ms)
        self.latest_ms = max(self.latest_ms, min(open_ms, self._horizons.last_limit_ms()))
        yield from self._pass(self.latest_ms + 1, None)

    def apply(self, calls: Iterable[Call]) -> Iterator[OutputRow]:
        """See ``Live``; long logs are applied by several processes."""
        calls, size = iter(calls), 0
        for call in calls:
            yield from super().apply([call])
            size += call.size
            if self._processes > 1 and size >= _ALONE_BYTES:
                with replay_workers(self, self._processes) as workers:
                    yield from workers.apply(calls)

    def _pending(self) -> Iterator[tuple[str, Sequence[PendingCommit]]]:
        """The pending commits of each selected group, of which one was written before the end of the time."""
        for group_id, commits in self.context.pending.items():
            is_begun = self._until_ms is None or _since_ms(commits) <= self._until_ms
            if self.wants(group_id) and is_begun:
                yield group_id, commits


def _since_ms(commits: Sequence[PendingCommit]) -> int:
    return min(commit.since_ms for commit in commits)


def _answer(group_id: str, commits: Sequence[PendingCommit]) -> WaitingAnswer:
    """What the batches behind the last stable offsets say about a group, known since the first of them."""
    answer = PendingTransactions(
        taken_ms=_since_ms(commits),
        topic=OFFSETS_TOPIC,
        partition=commits[0].log_partition,
        offset=commits[0].log_offset,
        transactions=pending_transactions(commits),
    )
    return WaitingAnswer(GROUP_TAG + group_id.encode(), answer.heard_ms, to_wire(PackedProbe(answer)))


class EventHead(msgspec.Struct):
    """The attributes of a CloudEvent that decide its place and whether it is selected."""

    type: str
    time: str
    sequence: str
    severitynumber: Integer


_attributes: Final = msgspec.json.Decoder(EventHead)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which events are selected; times in milliseconds, ``until_ms`` excluded; None for all."""

    types: Collection[str] | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    least_severity: int = 0

    def __call__(self, event: EventHead) -> bool:
        """Whether an event is selected."""
        return (
            (self.types is None or event.type in self.types)
            and event.severitynumber >= self.least_severity
            and (self.since_ms is None or event.time >= timestamp(self.since_ms))
            and (self.until_ms is None or event.time < timestamp(self.until_ms))
        )


def events_in_order(rows: Iterable[OutputRow], wanted: Callable[[EventHead], bool]) -> Iterator[bytes]:
    """The selected CloudEvents among the rows, by time and then by their place in the log.

    The replay yields the events group by group, so they are sorted here: in memory while they are few, else in
    temporary files that are merged.
    """
    held: list[bytes] = []
    size = 0
    with ExitStack() as stack:
        runs: list[IO[bytes]] = []
        for row in rows:
            if row.output is not Output.EVENTS or row.value is None:
                continue
            event = _attributes.decode(row.value)
            if not wanted(event):
                continue
            # JSON has neither raw NUL nor raw line ends, so whole lines sort as their keys do.
            line = f"{event.time}/{event.sequence}".encode() + _SEPARATOR + row.value + b"\n"
            held.append(line)
            size += len(line)
            if size >= _SPILL_BYTES:
                runs.append(stack.enter_context(tempfile.TemporaryFile(prefix="groupreplay-events-")))
                runs[-1].writelines(sorted(held))
                runs[-1].seek(0)
                held, size = [], 0
        for line in heapq.merge(*runs, sorted(held)):
            yield line.partition(_SEPARATOR)[2].rstrip(b"\n")


class EventTally:
    """A filter of events that counts: ``seen`` all of them by name, ``shown`` those that it has selected."""

    def __init__(self, wanted: Callable[[EventHead], bool]) -> None:
        self.shown = 0
        self.seen: Counter[str] = Counter()
        self.severities: Counter[int] = Counter()
        self.first = ""
        self.last = ""
        self._wanted = wanted

    def __call__(self, event: EventHead) -> bool:
        """Whether the event is selected."""
        self.seen[name_of(event.type)] += 1
        self.severities[event.severitynumber] += 1
        self.first = min(self.first or event.time, event.time)
        self.last = max(self.last, event.time)
        selected = self._wanted(event)
        self.shown += selected
        return selected

    def text(self) -> str:
        """``12 events: rebalance.completed 10, group.created 2; INFO 12``."""
        names = [f"{name} {count}" for name, count in self.seen.most_common(_SHOWN)]
        others = len(self.seen) - _SHOWN
        more = f" and {counted(others, 'other kind')}" if others > 0 else ""
        known = {int(one): one.name for one in Severity}
        severities = [f"{known.get(one, one)} {count}" for one, count in sorted(self.severities.items())]
        total = self.seen.total()
        events = "1 event" if total == 1 else f"{total:,} events"
        return f"{events}: {', '.join(names)}{more}; {', '.join(severities)}"


def events_by_group(replay: Replay, rows: Rows) -> dict[str | None, list[dict[str, Any]]]:
    """All events that the replay makes of the rows, each group's in order; None: what is of no group."""
    events: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    for text in events_in_order(replay.feed(rows), Filter()):
        event = json.loads(text)
        events[event["data"]["group_id"]].append(event)
    return events
