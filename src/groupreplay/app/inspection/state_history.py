"""``describe --states``: the states of groups over time, as rows and as a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from groupreplay.app.inspection.records import rows_of_groups
from groupreplay.app.text.tables import Cell, Moment, Table
from groupreplay.codecs import Malformed, Skipped, decode_key, decode_value
from groupreplay.state.phrases import interval, milliseconds
from groupreplay.state.snapshot.observations import GroupRecord
from groupreplay.streaming.contract.probe_messages import GroupAnswer, RoundSummary
from groupreplay.streaming.engine.probe_rows import ProbeFilter, group_probe, placed_messages
from groupreplay.streaming.sources.source import Rows
from groupreplay.timeline.document import StateBar
from groupreplay.timeline.states import CoordinatorSeen, ProbedState, StateSpan, state_spans

#: Of a broker that is not in the metadata.
_AWAY: Final = "not in the cluster"
_NEEDED: Final = ("partition", "offset", "timestamp", "key", "value")


class StateRow(msgspec.Struct, frozen=True, kw_only=True):
    """A state of a group in ``describe --states``.

    ``generation``: the group epoch for groups of the newer types. ``earliest_ms`` and ``since_ms``: the bounds of its
    begin (``earliest_ms`` None: not known). ``until_earliest_ms`` and ``until_ms``: those of the next state's begin
    (None: it holds at the end). ``partition`` and ``offset``: those of the record.
    """

    group_id: str
    group_type: str
    state: str
    generation: int | None
    since_ms: int
    earliest_ms: int | None
    until_ms: int | None
    until_earliest_ms: int | None
    evidence: str
    partition: int
    offset: int | None


def state_rows(rows: Rows, groups: Container[str] | None, *, until_ms: int | None = None) -> list[StateRow]:
    """The states of these groups (None: of all) in the rows up to a time, by group, in order.

    Records that cannot be decoded are left out.
    """
    answers = group_answers(rows, groups, until_ms)
    records: dict[str, list[GroupRecord]] = defaultdict(list)
    for record in _records(rows, groups, until_ms):
        records[record.key.group].append(record)
    return [
        row
        for group_id, of_group in sorted(records.items())
        for row in rows_of_states(
            group_id, of_group[0].partition, state_spans(of_group, answers.get(group_id, ()))
        )
    ]


def rows_of_states(
    group_id: str, partition: int, states: Sequence[StateSpan | StateBar]
) -> Iterator[StateRow]:
    """The rows of successive states of a group."""
    for state, after in pairwise([*states, None]):
        assert state is not None
        yield StateRow(
            group_id=group_id,
            group_type=state.group_type,
            state=state.state,
            generation=state.generation,
            since_ms=state.since_ms,
            earliest_ms=state.earliest_ms,
            until_ms=None if after is None else after.since_ms,
            until_earliest_ms=None if after is None else after.earliest_ms,
            evidence=state.evidence,
            partition=partition,
            offset=state.offset,
        )


def states_between(rows: Iterable[StateRow], since_ms: int | None, until_ms: int | None) -> list[StateRow]:
    """The states that held at some time from one time on and before another; None: no bound."""
    return [
        row
        for row in rows
        if (since_ms is None or row.until_ms is None or row.until_ms > since_ms)
        and (until_ms is None or (row.since_ms if row.earliest_ms is None else row.earliest_ms) < until_ms)
    ]


def _records(rows: Rows, groups: Container[str] | None, until_ms: int | None) -> Iterator[GroupRecord]:
    for batch in rows.batches:
        chosen = batch if groups is None else rows_of_groups(batch, groups)
        columns = (chosen[name].to_pylist() for name in _NEEDED)
        for partition, offset, at_ms, key_bytes, value_bytes in zip(*columns, strict=True):
            key = decode_key(key_bytes)
            if isinstance(key, Skipped | Malformed) or (until_ms is not None and at_ms > until_ms):
                continue
            value = decode_value(key, value_bytes)
            if not isinstance(value, Skipped | Malformed):
                yield GroupRecord(
                    partition=partition, offset=offset, timestamp_ms=at_ms, key=key, value=value
                )


def group_answers(
    rows: Rows, groups: Container[str] | None, until_ms: int | None
) -> dict[str, list[ProbedState]]:
    """The prober's answers about these groups (None: all) up to a time, in order, by group id."""
    answers: dict[str, list[ProbedState]] = defaultdict(list)
    probe_filter = ProbeFilter(topic=rows.probes_topic, cluster_id=rows.cluster_id)
    for batch in rows.probes:
        for message, place, append_ms in placed_messages(batch, probe_filter.topic):
            probe = group_probe(message, place, append_ms, probe_filter)
            if probe is None or (until_ms is not None and probe.taken_ms > until_ms):
                continue
            assert isinstance(message, GroupAnswer)
            if groups is None or message.group_id in groups:
                answer = ProbedState(
                    probe.asked_ms, probe.answered_ms, probe.state, message.unseen_ms, probe.broker
                )
                answers[message.group_id].append(answer)
    return {group_id: sorted(states) for group_id, states in answers.items()}


def coordinators(rows: Rows, until_ms: int | None) -> dict[int, list[CoordinatorSeen]]:
    """The leaders of each partition of the offsets topic in the prober's rounds up to a time: each change of them."""
    seen: dict[int, list[CoordinatorSeen]] = defaultdict(list)
    before_ms = None
    for batch in rows.probes:
        for message, _, _ in placed_messages(batch, rows.probes_topic):
            if not isinstance(message, RoundSummary) or message.cluster_id != rows.cluster_id:
                continue
            if until_ms is not None and message.taken_ms > until_ms:
                continue
            for partition, broker in message.leaders.items():
                error = message.brokers.get(broker, _AWAY)
                last = seen[partition][-1] if seen[partition] else None
                if last is None or (last.broker, last.error) != (broker, error):
                    earliest_ms = message.taken_ms if before_ms is None else before_ms
                    seen[partition].append(CoordinatorSeen(earliest_ms, message.taken_ms, broker, error))
            before_ms = message.taken_ms
    return seen


def state_table(rows: Iterable[StateRow]) -> Table:
    """The rows as a table; an interval is ``earliest .. latest``."""
    columns = ("GROUP", "TYPE", "STATE", "SINCE", "LASTED", "GENERATION", "EVIDENCE")
    cells = [
        (*(row.group_id, row.group_type, row.state), _since(row), _lasted(row), row.generation, row.evidence)
        for row in rows
    ]
    return Table(columns, cells)


def _since(row: StateRow) -> Cell:
    latest = Moment(row.since_ms)
    if row.earliest_ms is None:
        return "before ", latest
    return latest if row.earliest_ms == row.since_ms else (Moment(row.earliest_ms), " .. ", latest)


def _lasted(row: StateRow) -> str:
    """From the latest begin to the earliest end, up to the other way round."""
    if row.until_ms is None:
        return "holds at the end"
    end_ms = row.until_ms if row.until_earliest_ms is None else row.until_earliest_ms
    least = max(end_ms - row.since_ms, 0)
    if row.earliest_ms is None:
        return f"at least {milliseconds(least)}"
    return interval(least, row.until_ms - row.earliest_ms)
