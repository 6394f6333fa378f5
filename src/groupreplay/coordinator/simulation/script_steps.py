"""Turns the events of a scenario into the steps of clients, in the order of time.

A step that is impossible has no effect: the start of a client that runs, or the end of one that does not.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from groupreplay.coordinator.simulation import draws
from groupreplay.coordinator.simulation.scenario_file import (
    STEPS,
    CrashStep,
    DeployStep,
    HangStep,
    Member,
    RestartStep,
    ResumeStep,
    RollingStep,
    ScaleStep,
    ScriptedEvent,
    ScriptedStep,
    SlowPollStep,
    StartStep,
    StopStep,
    Time,
    TimeDraw,
    milliseconds,
)
from groupreplay.coordinator.simulation.script import (
    CRASH,
    HANG,
    RESUME,
    START,
    STOP,
    ClientAction,
    ClientStep,
)

_MINUTE_MS: Final = 60_000
#: The time within which all members of a group start.
_STARTS_MS: Final = 4_000
#: The time within which all members of a group shut down in a deployment.
_ENDS_MS: Final = 2_000
_LATEST_BEGIN_MS: Final = 10 * _MINUTE_MS


@dataclass(slots=True, kw_only=True)
class StepPlan:
    """The clients of one group while their steps are drawn. ``members``: those of the beginning, numbered from 0."""

    numbers: random.Random
    duration_ms: int
    members: int
    #: The clients that run, in the order of their starts.
    running: list[int] = field(default_factory=list)
    hanging: set[int] = field(default_factory=set)
    steps: list[ClientStep] = field(default_factory=list)
    #: The number of the next new client.
    next_client: int = 0
    #: The member that ``next`` chose last.
    _turn: int = -1
    _agenda: list[tuple[int, int, Callable[[int], object]]] = field(default_factory=list)
    _scheduled: int = 0

    def draw(self, events: Sequence[ScriptedEvent]) -> int:
        """Fill ``steps``; returns the time of the last start of the group's first members."""
        numbers, duration_ms = self.numbers, self.duration_ms
        begin_ms = numbers.randrange(max(1, min(duration_ms // 10, _LATEST_BEGIN_MS)))
        starts_ms = [begin_ms + numbers.randrange(_STARTS_MS) for _ in range(self.members)]
        for client, at_ms in enumerate(starts_ms):
            self.schedule(at_ms, partial(self.act, START, client))
        self.next_client = max(self.members, 1 + max(_named(events), default=-1))
        for event in events:
            first_ms = max(starts_ms) + self.time_ms(event.after)
            self.schedule(first_ms, partial(self._occur, event, 0))
        while self._agenda:
            at_ms, _, action = heapq.heappop(self._agenda)
            action(at_ms)
        return max(starts_ms)

    def schedule(self, at_ms: int, action: Callable[[int], object]) -> None:
        """Do something at this time."""
        self._scheduled += 1
        heapq.heappush(self._agenda, (at_ms, self._scheduled, action))

    def time_ms(self, value: Time | TimeDraw) -> int:
        """A time of the file, drawn if it is a range."""
        return draws.time_ms(self.numbers, value, duration_ms=self.duration_ms, members=self.members)

    def _occur(self, event: ScriptedEvent, count: int, at_ms: int) -> None:
        if at_ms >= self.duration_ms:
            return
        for step in event.steps or event.cycle[count % len(event.cycle)]:
            self.schedule(at_ms + self.time_ms(step.at), partial(_ACTIONS[type(step)], self, step))
        if event.every is not None:
            self.schedule(at_ms + self.time_ms(event.every), partial(self._occur, event, count + 1))

    def act(self, action: ClientAction, client: int, at_ms: int) -> bool:
        """Append a step; False if it is impossible."""
        runs = client in self.running
        if runs is (action is START) or (action is RESUME) > (client in self.hanging):
            return False
        if action is START:
            self.running.append(client)
        elif action is HANG:
            self.hanging.add(client)
        else:
            self.hanging.discard(client)
        if action in (STOP, CRASH):
            self.running.remove(client)
        self.steps.append(ClientStep(at_ms, action, client))
        return True

    def end(self, crash: float, client: int, at_ms: int) -> bool:
        """Stop a client; with this probability it crashes."""
        crashes = crash == 1 or (crash > 0 and self.numbers.random() < crash)
        return self.act(CRASH if crashes else STOP, client, at_ms)

    def chosen(self, member: Member, *, running: bool = True) -> list[int]:
        """The clients that a step names; of those at the beginning if it names clients that do not run."""
        if isinstance(member, int):
            return [member]
        able = sorted(self.running) if running else sorted({*range(self.members)} - {*self.running})
        if member == "all" or not able:
            return able
        if member == "random":
            return [self.numbers.choice(able)]
        self._turn = next((one for one in able if one > self._turn), able[0])
        return [self._turn]

    def some(self, count: int) -> frozenset[int]:
        """So many of the clients that run."""
        able = sorted(self.running)
        return frozenset(self.numbers.sample(able, min(count, len(able)))) if count else frozenset()

    def new_clients(self, count: int) -> list[int]:
        """The numbers of clients that have never run."""
        clients = list(range(self.next_client, self.next_client + count))
        self.next_client += count
        return clients


def _named(events: Iterable[ScriptedEvent]) -> Iterable[int]:
    """The numbers of clients in the steps."""
    for event in events:
        for step in (*event.steps, *(step for steps in event.cycle for step in steps)):
            member = getattr(step, "member", None)
            if isinstance(member, int):
                yield member


def _start(plan: StepPlan, step: StartStep, at_ms: int) -> None:
    for client in plan.chosen(step.member, running=False):
        plan.act(START, client, at_ms)


def _stop(plan: StepPlan, step: StopStep, at_ms: int) -> None:
    # Members that end together end in the same way.
    crash = float(step.crash > 0 and plan.numbers.random() < step.crash)
    for client in plan.chosen(step.member):
        plan.end(crash, client, at_ms)


def _simple(action: ClientAction) -> Callable[[StepPlan, CrashStep | HangStep | ResumeStep, int], None]:
    def act(plan: StepPlan, step: CrashStep | HangStep | ResumeStep, at_ms: int) -> None:
        for client in plan.chosen(step.member):
            plan.act(action, client, at_ms)

    return act


def _slow_poll(plan: StepPlan, step: SlowPollStep, at_ms: int) -> None:
    for client in plan.chosen(step.member):
        if plan.act(HANG, client, at_ms):
            plan.schedule(at_ms + plan.time_ms(step.takes), partial(plan.act, RESUME, client))


def _restart(plan: StepPlan, step: RestartStep, at_ms: int) -> None:
    for client in plan.chosen(step.member):
        _restart_one(plan, step, client, step.crash, at_ms)


def _restart_one(
    plan: StepPlan, step: RestartStep | RollingStep, client: int, crash: float, at_ms: int
) -> None:
    if plan.end(crash, client, at_ms):
        plan.schedule(at_ms + plan.time_ms(step.down), partial(plan.act, START, client))


def _rolling(plan: StepPlan, step: RollingStep, at_ms: int) -> None:
    killed = plan.some(step.killed)
    for place, client in enumerate(sorted(plan.running)):
        then_ms = at_ms + place * milliseconds(step.pace)
        crash = 1.0 if client in killed else step.crash
        plan.schedule(then_ms, partial(_restart_one, plan, step, client, crash))


def _deploy(plan: StepPlan, step: DeployStep, at_ms: int) -> None:
    numbers, old = plan.numbers, list(plan.running)
    order = numbers.choice(("stop-first", "start-first")) if step.order == "either" else step.order
    gap_ms = plan.time_ms(step.gap)
    ends_ms, starts_ms = (at_ms, at_ms + gap_ms) if order == "stop-first" else (at_ms + gap_ms, at_ms)
    killed = plan.some(step.killed)
    for client in old:
        action = CRASH if client in killed else STOP
        plan.schedule(ends_ms + numbers.randrange(_ENDS_MS), partial(plan.act, action, client))
    for client in plan.new_clients(len(old)):
        plan.schedule(starts_ms + numbers.randrange(_STARTS_MS), partial(plan.act, START, client))


def _scale(plan: StepPlan, step: ScaleStep, at_ms: int) -> None:
    size = len(plan.running)
    if size < step.most and (size <= step.least or plan.numbers.random() < 1 / 2):
        # Each member that is started is a new client, with its own name and host.
        plan.act(START, plan.new_clients(1)[0], at_ms)
    elif size > step.least:
        plan.act(STOP, plan.running[-1], at_ms)


_ACTIONS: Final[Mapping[type[ScriptedStep], Callable[[StepPlan, Any, int], None]]] = {
    StartStep: _start,
    StopStep: _stop,
    CrashStep: _simple(CRASH),
    HangStep: _simple(HANG),
    ResumeStep: _simple(RESUME),
    SlowPollStep: _slow_poll,
    RestartStep: _restart,
    RollingStep: _rolling,
    DeployStep: _deploy,
    ScaleStep: _scale,
}
assert set(_ACTIONS) == {*STEPS}
