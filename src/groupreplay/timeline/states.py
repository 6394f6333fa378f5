"""The states of one group over time, each with the bounds of its begin (docs/states.md).

The broker writes a record when a classic rebalance is over. The record has the begin of CompletingRebalance, and its
own time is that of Stable. PreparingRebalance is written nowhere: it began after what is last known of the time before.
Groups of the newer kinds write every step, and their state follows from their records after each operation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Final, NamedTuple

from groupreplay.codecs import GroupMetadataKey, GroupMetadataValue
from groupreplay.codecs.kafka_terms import GroupType, Phase
from groupreplay.state.events.event import History
from groupreplay.state.policy.context import Redaction
from groupreplay.state.policy.pending import PendingCommit
from groupreplay.state.policy.rules import Policy
from groupreplay.state.replay.classic import step_of
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.group_state import BeginBounds
from groupreplay.state.snapshot.members import read_members
from groupreplay.state.snapshot.modern import Modern
from groupreplay.state.snapshot.observations import GroupRecord
from groupreplay.timeline.commit_rates import CommitLog
from groupreplay.timeline.document import TimelineSource, Unread
from groupreplay.timeline.stop_cost import EndsOf

_DEAD: Final = Phase.DEAD.value
_EMPTY: Final = Phase.EMPTY.value
_PREPARING: Final = Phase.PREPARING_REBALANCE.value
_COMPLETING: Final = Phase.COMPLETING_REBALANCE.value
_STABLE: Final = Phase.STABLE.value


class ProbedState(NamedTuple):
    """What the coordinator has answered to a prober about the group: asked and answered at these times.

    The prober asks about groups that are in a rebalance: ``unseen_ms`` before the question it did not find this one,
    unless there is an answer of that time; None: it does not say so. ``broker`` is the coordinator that answered.
    """

    asked_ms: int
    answered_ms: int
    state: str
    unseen_ms: int | None = None
    broker: int | None = None


class CoordinatorSeen(NamedTuple):
    """The broker that leads the group's partition of the offsets topic, as a round of the prober shows it.

    ``since_ms`` is that round, ``earliest_ms`` the one before, which showed something else. ``error``: why the broker
    did not answer; None: it did.
    """

    earliest_ms: int
    since_ms: int
    broker: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpan:
    """The group is in this state from ``since_ms`` at the latest, and from ``earliest_ms`` at the earliest.

    Both are equal where a record has the time; ``earliest_ms`` is None where nothing is known of the time before.
    ``generation`` is a group epoch for the newer kinds, and the one before in a rebalance that is not over.
    ``evidence``: ``record``; ``probe``: the later bound is the time of an answer; ``inferred``: it is the known end of
    the state. ``offset`` is that of the record.
    """

    group_type: str
    state: str
    generation: int | None
    since_ms: int
    earliest_ms: int | None
    evidence: str = "record"
    offset: int | None = None


def state_spans(records: Sequence[GroupRecord], answers: Sequence[ProbedState] = ()) -> list[StateSpan]:
    """All states of a group, in order.

    Args:
        records: all records of the group, in log order; of several incarnations of the topic those of one.
        answers: those of a prober about the group, ordered by the time of the question.
    """
    timeline = _Timeline(answers=sorted(answers))
    for operation in operations(records):
        timeline.apply(operation)
    timeline.end()
    return timeline.spans


def operations(records: Sequence[GroupRecord]) -> Iterator[list[GroupRecord]]:
    """The records of each operation of the coordinator, in order."""
    for _, operation in groupby(_numbered(records), key=lambda one: one[0]):
        yield [record for _, record in operation]


def _numbered(records: Sequence[GroupRecord]) -> list[tuple[int, GroupRecord]]:
    """Each record with the number of its operation: adjacent offsets and one time; a classic record ends one."""
    numbered, number = list[tuple[int, GroupRecord]](), 0
    for before, record in zip((None, *records), records, strict=False):
        if before is not None:
            number += before.ends_operation or not record.continues(before.offset, before.timestamp_ms)
        numbered.append((number, record))
    return numbered


@dataclass(slots=True)
class _Timeline:
    """The group so far; ``known_ms``: the last time at which no rebalance was in progress."""

    answers: Sequence[ProbedState]
    spans: list[StateSpan] = field(default_factory=list)
    known_ms: int | None = None
    group: Modern | None = None
    kind: GroupType = GroupType.CLASSIC
    generation: int | None = None
    history: History = History.PARTIAL

    @property
    def _last(self) -> StateSpan | None:
        return self.spans[-1] if self.spans else None

    @property
    def _state(self) -> str:
        return _DEAD if self._last is None else self._last.state

    def apply(self, records: Sequence[GroupRecord]) -> None:
        """One operation of the broker."""
        last = records[-1]
        for record in records:
            if record.key.KEY_TYPE in modern.RECORDS:
                self._apply_modern(record)
        classic = [one for one in records if isinstance(one.key, GroupMetadataKey)]
        written = next((one for one in reversed(classic) if one.value is not None), None)
        if written is not None:
            self._apply_classic(written)
        elif self.group is not None:
            self._derive(last)
        elif classic and self._state != _DEAD:
            self._add(last, _DEAD, None)
        elif self._state == _DEAD and any(one.value is not None for one in records):
            # A commit makes a group that has no record of its own.
            self._add(last, _EMPTY, None)
        if self._state in (_STABLE, _EMPTY) and (classic or self.known_ms is None):
            self.known_ms = last.timestamp_ms

    def _add(self, record: GroupRecord, state: str, generation: int | None, at_ms: int | None = None) -> None:
        since_ms = record.timestamp_ms if at_ms is None else at_ms
        self.spans.append(
            StateSpan(
                group_type=self.kind.value,
                state=state,
                generation=generation,
                since_ms=since_ms,
                earliest_ms=since_ms,
                offset=record.offset,
            )
        )

    # -- groups of the newer kinds

    def _apply_modern(self, record: GroupRecord) -> None:
        kind = modern.RECORDS[record.key.KEY_TYPE][0]
        if record.value is not None and (self.group is None or self.kind is not kind):
            self.group, self.kind = Modern(), kind
        if self.group is not None and self.kind is kind:
            modern.apply_record(self.group, record.key, record.value, record.timestamp_ms)

    def _derive(self, record: GroupRecord) -> None:
        """The state after an operation."""
        assert self.group is not None
        state, epoch = modern.state_of(self.kind, self.group), modern.group_epoch(self.group)
        last = self._last
        if last is None or (last.state, last.group_type) != (state, self.kind.value):
            self._add(record, state, epoch)
        if not self.group.exists:
            self.group, self.kind = None, GroupType.CLASSIC

    # -- classic groups

    def _apply_classic(self, record: GroupRecord) -> None:
        value = record.value
        assert isinstance(value, GroupMetadataValue)
        converted, last = self.group is not None, self._last
        self.group, self.kind = None, GroupType.CLASSIC
        begins = self._state == _DEAD or converted
        is_known = last is not None and not begins and last.generation == value.generation
        members = read_members(value)
        step = step_of(None if begins else self.generation, self.history, value.generation, members)
        if not is_known:
            self.generation, self.history = value.generation, step.history
        if not value.members:
            if begins:
                self._add(record, _EMPTY, value.generation)
            elif self._state != _EMPTY:
                self._add_rebalance(self._ended_ms(record, value))
                self._add(record, _EMPTY, value.generation)
        elif converted:
            self._add(record, _STABLE, value.generation)
        elif not is_known and step.is_doubtful(members):
            self._add_doubtful(record, value)
        elif not (is_known and self._state == _STABLE):
            completing_ms = self._ended_ms(record, value)
            self._add_rebalance(completing_ms)
            self._add(record, _COMPLETING, value.generation, completing_ms)
            self._add(record, _STABLE, value.generation)

    def _add_doubtful(self, record: GroupRecord, value: GroupMetadataValue) -> None:
        """Stable since the end of the join phase, or since the record that replaced a static member much later."""
        self._add_open(_STABLE, self._ended_ms(record, value), record.timestamp_ms, "inferred")
        self.spans[-1] = replace(self.spans[-1], generation=value.generation, offset=record.offset)

    def _ended_ms(self, record: GroupRecord, value: GroupMetadataValue) -> int:
        """The end of the join phase: in the record since its version 2; an impossible time is that of the record."""
        at_ms, least = value.current_state_timestamp_ms, self.known_ms or 0
        return at_ms if at_ms is not None and least <= at_ms <= record.timestamp_ms else record.timestamp_ms

    def _add_rebalance(self, until_ms: int) -> None:
        self._add_open(_PREPARING, *self._bounds(until_ms))

    def _bounds(
        self, until_ms: int, answers: Sequence[ProbedState] | None = None
    ) -> tuple[int | None, int, str]:
        """When a rebalance began that was in its join phase until then: after another answer, before the first one."""
        began = BeginBounds(self.known_ms)
        for answer in self._since_known() if answers is None else answers:
            if answer.answered_ms > until_ms:
                break
            if answer.state != _PREPARING:
                began = began.not_yet(answer.asked_ms)
            else:
                began = began.seen(answer.asked_ms, answer.answered_ms, answer.unseen_ms)
        if began.latest_ms is None:
            return began.earliest_ms, until_ms, "inferred"
        return began.earliest_ms, began.latest_ms, "probe"

    def _since_known(self) -> Sequence[ProbedState]:
        return self.answers[bisect_left(self.answers, ProbedState(self.known_ms or 0, 0, "")) :]

    def end(self) -> None:
        """A rebalance that is not over has no record: only answers tell of it."""
        answers = self._since_known()
        now = answers[-1].state if answers else None
        if now not in (_PREPARING, _COMPLETING) or self.group is not None or self._state == _DEAD:
            return
        # The answers from the last change of the state on.
        place = next(at for at in reversed(range(len(answers))) if at == 0 or answers[at - 1].state != now)
        first, before = answers[place], answers[:place]
        if now == _PREPARING:
            self._add_open(_PREPARING, *self._bounds(first.answered_ms, answers))
            return
        self._add_open(_PREPARING, *self._bounds(first.answered_ms, before))
        self._add_open(
            _COMPLETING, before[-1].asked_ms if before else self.known_ms, first.answered_ms, "probe"
        )

    def _add_open(self, state: str, earliest_ms: int | None, since_ms: int, evidence: str) -> None:
        span = StateSpan(
            group_type=self.kind.value,
            state=state,
            generation=None if self._last is None else self._last.generation,
            since_ms=since_ms,
            earliest_ms=earliest_ms,
            evidence=evidence,
        )
        self.spans.append(span)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineInput:
    """What a timeline is made from.

    ``events`` are the group's CloudEvents, parsed. Where a log or capture was read (``has_log``), ``records`` are the
    group's records in log order without its commits, except the first commit after each of them; ``commits`` are all of
    them, and ``answers`` those of a prober, whose rounds show the ``coordinators``. ``offsets`` are those of
    ``Group.describe()`` at the end, and ``pending`` the commits of open transactions; ``trace`` are lines of
    ``simulate --trace``. ``end_ms`` is the end of the log; ``undated`` counts records without a usable time.
    ``redaction`` is the one that the events were made with.
    ``assumed`` are the numbers that ``offsets`` rest on and that no broker has given. The log is known up to
    ``known_until_ms``, the events up to ``events_until_ms`` (None: the end of the document); ``unread`` is what
    could not be read. ``asked``: the prober's first and last round that are known; ``misdated`` counts answers that
    are not used for the sake of their times. ``runbook`` is the page of the runbook. ``ends_of``: the recorded ends of
    partitions; None: there are none.
    """

    group_id: str
    source: TimelineSource
    events: Sequence[Mapping[str, Any]]
    end_ms: int
    since_ms: int | None = None
    until_ms: int | None = None
    has_log: bool = False
    probed: bool = False
    records: Sequence[GroupRecord] = ()
    commits: CommitLog = field(default_factory=CommitLog)
    answers: Sequence[ProbedState] = ()
    coordinators: Sequence[CoordinatorSeen] = ()
    offsets: Sequence[Mapping[str, Any]] = ()
    pending: Sequence[PendingCommit] = ()
    topic_names: Mapping[str, str] = field(default_factory=dict)
    trace: Sequence[Mapping[str, Any]] = ()
    undated: int = 0
    redaction: Redaction | None = None
    known_until_ms: int | None = None
    events_until_ms: int | None = None
    unread: Sequence[Unread] = ()
    asked: tuple[int, int] | None = None
    misdated: int = 0
    assumed: Mapping[str, int] = field(default_factory=dict)
    runbook: str = Policy().runbook
    ends_of: EndsOf | None = None
