"""The log of one group that the simulation writes for a script."""

from __future__ import annotations

import random
from collections.abc import Iterable

from groupreplay.coordinator.requests import Settings
from groupreplay.coordinator.simulation.script import (
    CRASH,
    EVERY_START,
    START,
    STATIC,
    STOP,
    ClientStep,
    Script,
)
from groupreplay.coordinator.simulation.simulated_group import SimulatedGroup
from support.histories.builders import GROUP, Raw

SECOND = 1_000
MINUTE = 60 * SECOND
BEGIN = 1_000 * MINUTE


def simulated(
    script: Script, duration_ms: int, *, begin_ms: int = BEGIN, moves: Iterable[int] = ()
) -> list[Raw]:
    """The log of the script; ``moves`` are the times since the begin at which the coordinator moves."""
    group = SimulatedGroup(GROUP, script, Settings(), begin_ms, random.Random(1))
    moves_ms = [begin_ms + move for move in moves]
    records: list[Raw] = []
    offset = 100
    while (due_ms := group.next_ms()) is not None:
        now_ms = min([due_ms, *moves_ms[:1]])
        if now_ms >= begin_ms + duration_ms:
            break
        outcomes = group.move(moves_ms.pop(0)) if now_ms in moves_ms else group.run(now_ms)
        for operation in (operation for outcome in outcomes for operation in outcome.operations):
            for key, value in operation.records:
                records.append(Raw(key, value, offset, operation.timestamp_ms))
                offset += 1
            # Another group has written a record in between.
            offset += 1
    return records


def starts(members: Iterable[int], at_ms: int = 0) -> list[ClientStep]:
    """These clients start, one every 100 ms."""
    return [ClientStep(at_ms + 100 * number, START, member) for number, member in enumerate(members)]


def rolling_restart(
    members: int,
    *,
    pause_ms: int = 20 * SECOND,
    at_ms: int = 60 * MINUTE,
    moved: bool = False,
    crashing: int = 0,
    kip848: bool = False,
    static: bool = False,
    cooperative: bool = False,
    **fields: object,
) -> Script:
    """All members start; later each is stopped, the first ``crashing`` ones crash, and starts again after 5 s.

    ``moved``: a new client starts in the place of each that is stopped.
    """
    steps = starts(range(members))
    for member in range(members):
        begin_ms = at_ms + member * pause_ms
        steps.append(ClientStep(begin_ms, CRASH if member < crashing else STOP, member))
        steps.append(ClientStep(begin_ms + 5 * SECOND, START, member + members * moved))
    fields = {"partitions": 20, "commit_interval_ms": MINUTE, **fields}
    return Script(
        steps=tuple(sorted(steps, key=lambda step: step.at_ms)),
        consumer_starts=EVERY_START if kip848 else range(0),
        instance_id=STATIC if static else None,
        strategies=("cooperative-sticky",) if cooperative else ("range",),
        **fields,  # type: ignore[arg-type]
    )
