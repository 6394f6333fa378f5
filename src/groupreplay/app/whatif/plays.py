"""The histories of groups from the rows of any input, and plays of them.

A play goes from one draw of what the log does not show to the records of the model's coordinator, which are read in
the one way in which recorded ones are.
"""

from __future__ import annotations

import random
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Final

import pyarrow as pa

from groupreplay.codecs import encode_key, encode_value, uuid_text
from groupreplay.coordinator.requests import Outcome
from groupreplay.coordinator.simulation.consumer import topic_id
from groupreplay.coordinator.simulation.script import Script
from groupreplay.coordinator.simulation.simulated_group import SimulatedGroup
from groupreplay.state import Context
from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.contract.log import ROW_SCHEMA, ProgressCallback, no_progress
from groupreplay.streaming.engine.group_log import GroupLogs
from groupreplay.streaming.engine.replay import Replay, events_by_group
from groupreplay.streaming.sources.source import Rows
from groupreplay.timeline.event_reading import read_events
from groupreplay.timeline.group_history import GroupHistory
from groupreplay.timeline.whatif.costs import Costs, costs
from groupreplay.timeline.whatif.draws import WARM_UP_MS, Draw
from groupreplay.timeline.whatif.inputs import PlayInputs
from groupreplay.timeline.whatif.quiet_times import QuietTimes
from groupreplay.timeline.whatif.settings import CHECK, RETENTION, PlaySettings

_MINUTE_MS: Final = 60_000


def group_histories(
    rows: Rows,
    context: Context,
    groups: Container[str] | None,
    *,
    until_ms: int | None = None,
    end_ms: int | None = None,
) -> tuple[dict[str, GroupHistory], Replay]:
    """The histories by group id, and the replay for its counts; the context must enable member events.

    ``end_ms``: the time up to which the log is complete; None: its last record.
    """
    logs = GroupLogs(groups, until_ms)
    rows = replace(rows, batches=logs.reading(rows.batches))
    replay = Replay(context, groups, until_ms=until_ms, now_ms=end_ms)
    events = events_by_group(replay, rows)
    return {
        group_id: GroupHistory(
            group_id=group_id,
            events=read_events(events.get(group_id, ())),
            commits=log.commits(),
            end_ms=replay.latest_ms,
        )
        for group_id, log in logs.logs.items()
    }, replay


@dataclass(frozen=True, slots=True, kw_only=True)
class Plays:
    """The plays of one history; the same seed gives the same costs. ``quiet``: what of it is not played."""

    inputs: PlayInputs
    quiet: QuietTimes
    draws: int
    seed: int

    def costs(self, settings: PlaySettings, progress: ProgressCallback = no_progress) -> list[Costs]:
        """The costs of each draw with these settings; the clients' steps are those of the recorded ones."""
        names = [f"{self.inputs.group_id}-{number}" for number in range(self.draws)]
        rows = Rows("whatif", "whatif", self._batches(names, settings, progress))
        histories, _ = group_histories(rows, _context(names, settings), None, end_ms=self._end_ms)
        return [costs(histories[name], self.inputs.begin_ms, self.inputs.interval_ms) for name in names]

    def history(self, settings: PlaySettings, number: int) -> GroupHistory:
        """One of the plays, as it would be recorded: without the quiet times."""
        name = f"{self.inputs.group_id}-{number}"
        rows = Rows("whatif", "whatif", iter([self._batch(name, number, settings)]))
        histories, _ = group_histories(rows, _context([name], settings), None, end_ms=self._end_ms)
        return histories[name]

    @property
    def _end_ms(self) -> int:
        return self.quiet.played_ms(self.inputs.end_ms)

    def _batches(
        self, names: Sequence[str], settings: PlaySettings, progress: ProgressCallback
    ) -> Iterator[pa.RecordBatch]:
        """A draw in a partition."""
        for number, name in enumerate(names):
            batch = self._batch(name, number, settings)
            progress(number + 1, len(names))
            yield batch

    def _batch(self, name: str, number: int, settings: PlaySettings) -> pa.RecordBatch:
        """The records of one play."""
        return _played(number, self._play(name, number, settings))

    def _play(self, name: str, number: int, settings: PlaySettings) -> Iterator[Outcome]:
        inputs = self.inputs
        # The steps are drawn apart from the rest, so that both settings get the same ones.
        steps = Draw(
            moments=inputs.moments,
            settings=inputs.settings,
            interval_ms=inputs.interval_ms,
            begin_ms=inputs.begin_ms,
            numbers=_numbers(self.seed, number, "steps"),
        ).steps(self.quiet)
        # The last heartbeat before a crash decides when the session ends.
        script = Script(steps=steps, partitions=inputs.partitions, exact=True, **settings.script_fields())
        begin_ms = inputs.begin_ms - WARM_UP_MS
        group = SimulatedGroup(
            name, script, settings.broker_settings(), begin_ms, _numbers(self.seed, number, "play")
        )
        # No record shows when the brokers look for offsets to remove, except where they found some.
        check_ms = begin_ms + _numbers(self.seed, number, "checks").randint(1, settings[CHECK])
        while True:
            due_ms = group.next_ms()
            now_ms = check_ms if due_ms is None else min(due_ms, check_ms)
            if now_ms > self._end_ms:
                return
            if now_ms == check_ms:
                yield from group.clean_up(now_ms)
                check_ms += settings[CHECK]
            else:
                yield from group.run(now_ms)


def _numbers(seed: int, number: int, what: str) -> random.Random:
    # A string as seed does not depend on Python's randomized hashes.
    return random.Random(f"{seed} {number} {what}")  # noqa: S311 -- made to be repeated


def _context(names: Sequence[str], settings: PlaySettings) -> Context:
    topics = [f"{name}-input" for name in names]
    return Context(
        cluster_id="whatif",
        era="whatif",
        complete_since_ms=0,
        member_events=True,
        topic_names={uuid_text(topic_id(topic)): topic for topic in topics},
        retention_ms=settings[RETENTION] * _MINUTE_MS,
        retention_check_interval_ms=settings[CHECK],
    )


def _played(partition: int, outcomes: Iterable[Outcome]) -> pa.RecordBatch:
    """The records of one draw as rows."""
    encoded = cache(encode_key)
    rows, offset = list[tuple[object, ...]](), 0
    for operation in chain.from_iterable(outcome.operations for outcome in outcomes):
        for key, value in operation.records:
            encoded_value = None if value is None else encode_value(value)
            at_ms = operation.timestamp_ms
            rows.append((OFFSETS_TOPIC, partition, offset, at_ms, 0, encoded(key), encoded_value))
            offset += 1
        # Another group writes between two operations: adjacent records of one time are one operation.
        offset += 1
    columns = list(zip(*rows, strict=True)) or [()] * len(ROW_SCHEMA)
    arrays = [pa.array(column, each.type) for column, each in zip(columns, ROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)
