"""The steps of a scenario's events, and what each makes the clients of one group do, in the order of time.

A step that is impossible has no effect: the start of a client that runs, or the end of one that does not.
"""

from __future__ import annotations

import heapq
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import ClassVar, Final, Literal, TypeAlias

from groupreplay.coordinator.simulation.script import (
    CRASH,
    HANG,
    MINUTE_MS,
    RESUME,
    SECOND_MS,
    START,
    STOP,
    Between,
    ClientAction,
    ClientStep,
    Time,
    least_time_ms,
    time_ms,
)

#: The time within which all members of a group start.
_STARTS_MS: Final = 4_000
#: The time within which all members of a group shut down in a deployment.
_ENDS_MS: Final = 2_000
_LATEST_BEGIN_MS: Final = 10 * MINUTE_MS
#: The least time between two occurrences of an event.
_LEAST_EVERY_MS: Final = 1_000

#: How long a member is down that is restarted, and what is between the two halves of a deployment.
_RESTART_MS: Final = Between(5 * SECOND_MS, 15 * SECOND_MS)
_DEPLOY_GAP_MS: Final = Between(10 * SECOND_MS, MINUTE_MS)

#: A member by its number, from 0; a random one of those that run; the next one in turn; all that run. For ``Start``
#: they are those of the beginning that do not run.
Member: TypeAlias = int | Literal["random", "next", "all"]
DeployOrder: TypeAlias = Literal["stop-first", "start-first", "either"]


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
        self.next_client = max(self.members, 1 + max(_numbered(events), default=-1))
        for event in events:
            first_ms = max(starts_ms) + self.time_ms(event.after_ms)
            self.schedule(first_ms, partial(self._occur, event, 0))
        while self._agenda:
            at_ms, _, action = heapq.heappop(self._agenda)
            action(at_ms)
        return max(starts_ms)

    def schedule(self, at_ms: int, action: Callable[[int], object]) -> None:
        """Do something at this time."""
        self._scheduled += 1
        heapq.heappush(self._agenda, (at_ms, self._scheduled, action))

    def time_ms(self, value: Time) -> int:
        """A time of the scenario, drawn if it is a range."""
        return time_ms(self.numbers, value, duration_ms=self.duration_ms, members=self.members)

    def _occur(self, event: ScriptedEvent, count: int, at_ms: int) -> None:
        if at_ms >= self.duration_ms:
            return
        for step in event.steps or event.cycle[count % len(event.cycle)]:
            self.schedule(at_ms + self.time_ms(step.at_ms), partial(step.occur, self))
        if event.every_ms is not None:
            self.schedule(at_ms + self.time_ms(event.every_ms), partial(self._occur, event, count + 1))

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

    def restart(self, client: int, crash: float, down_ms: Time, at_ms: int) -> None:
        """End a client that runs, and start it again."""
        if self.end(crash, client, at_ms):
            self.schedule(at_ms + self.time_ms(down_ms), partial(self.act, START, client))

    def chosen(self, member: Member, *, running: bool = True) -> list[int]:
        """The clients that a step names; of those at the beginning if it names clients that do not run."""
        if isinstance(member, int):
            return [member]
        able = sorted(self.running) if running else sorted({*range(self.members)} - {*self.running})
        if member == "all" or not able:
            return able
        if member == "random":
            return [self.numbers.choice(able)]
        self._turn = next((client for client in able if client > self._turn), able[0])
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


@dataclass(frozen=True)
class ScriptedStep(ABC):
    """A step of an event; ``at_ms`` is the time since the event."""

    _: KW_ONLY
    at_ms: Time = 0

    def occur(self, plan: StepPlan, at_ms: int) -> None:
        """Append what clients do at this time, and schedule what they do later."""
        self._occur(plan, at_ms)

    @abstractmethod
    def _occur(self, plan: StepPlan, at_ms: int) -> None: ...


@dataclass(frozen=True)
class _MemberStep(ScriptedStep):
    """The same action of each member that is named."""

    member: Member
    action: ClassVar[ClientAction]

    def _occur(self, plan: StepPlan, at_ms: int) -> None:
        for client in plan.chosen(self.member, running=self.action is not START):
            plan.act(self.action, client, at_ms)


class Start(_MemberStep):
    """A member that does not run starts; a number above those of the group is a new client."""

    action = START


class Crash(_MemberStep):
    """A member ends without leaving the group."""

    action = CRASH


class Hang(_MemberStep):
    """A member does not poll until ``Resume``; it leaves after max.poll.interval.ms."""

    action = HANG


class Resume(_MemberStep):
    """A member that hangs polls again."""

    action = RESUME


@dataclass(frozen=True)
class Stop(ScriptedStep):
    """A member shuts down in order; ``crash`` is the share of cases in which it crashes instead."""

    member: Member
    crash: float = 0.0

    def _occur(self, plan: StepPlan, at_ms: int) -> None:
        # Members that end together end in the same way.
        crash = float(self.crash > 0 and plan.numbers.random() < self.crash)
        for client in plan.chosen(self.member):
            plan.end(crash, client, at_ms)


@dataclass(frozen=True)
class SlowPoll(ScriptedStep):
    """A member needs this time for the records of one poll."""

    member: Member
    takes_ms: Time

    def _occur(self, plan: StepPlan, at_ms: int) -> None:
        for client in plan.chosen(self.member):
            if plan.act(HANG, client, at_ms):
                plan.schedule(at_ms + plan.time_ms(self.takes_ms), partial(plan.act, RESUME, client))


@dataclass(frozen=True)
class Restart(ScriptedStep):
    """A member stops, or crashes, and starts again after ``down_ms``."""

    member: Member
    down_ms: Time = _RESTART_MS
    crash: float = 0.0

    def _occur(self, plan: StepPlan, at_ms: int) -> None:
        for client in plan.chosen(self.member):
            plan.restart(client, self.crash, self.down_ms, at_ms)


@dataclass(frozen=True)
class Roll(ScriptedStep):
    """All members that run are restarted one after another, ``pace_ms`` apart.

    ``killed``: so many of them, drawn at random, are killed instead of stopped.
    """

    pace_ms: int = 30 * SECOND_MS
    down_ms: Time = _RESTART_MS
    crash: float = 0.0
    killed: int = 0

    def _occur(self, plan: StepPlan, at_ms: int) -> None:
        killed = plan.some(self.killed)
        for place, client in enumerate(sorted(plan.running)):
            crash = 1.0 if client in killed else self.crash
            restart = partial(plan.restart, client, crash, self.down_ms)
            plan.schedule(at_ms + place * self.pace_ms, restart)


@dataclass(frozen=True)
class Deploy(ScriptedStep):
    """All members that run are replaced by as many new clients.

    ``order``: ``either`` is drawn each time; ``gap_ms`` is between the two. ``killed``: so many members, drawn at
    random, are killed instead of stopped.
    """

    order: DeployOrder = "stop-first"
    gap_ms: Time = _DEPLOY_GAP_MS
    killed: int = 0

    def _occur(self, plan: StepPlan, at_ms: int) -> None:
        numbers, old = plan.numbers, list(plan.running)
        order = numbers.choice(("stop-first", "start-first")) if self.order == "either" else self.order
        gap_ms = plan.time_ms(self.gap_ms)
        ends_ms, starts_ms = (at_ms, at_ms + gap_ms) if order == "stop-first" else (at_ms + gap_ms, at_ms)
        killed = plan.some(self.killed)
        for client in old:
            action = CRASH if client in killed else STOP
            plan.schedule(ends_ms + numbers.randrange(_ENDS_MS), partial(plan.act, action, client))
        for client in plan.new_clients(len(old)):
            plan.schedule(starts_ms + numbers.randrange(_STARTS_MS), partial(plan.act, START, client))


@dataclass(frozen=True)
class Scale(ScriptedStep):
    """One member more or less, at random, from ``least`` to ``most``; each one that starts is a new client."""

    least: int
    most: int

    def _occur(self, plan: StepPlan, at_ms: int) -> None:
        size = len(plan.running)
        if size < self.most and (size <= self.least or plan.numbers.random() < 1 / 2):
            # Each member that is started is a new client, with its own name and host.
            plan.act(START, plan.new_clients(1)[0], at_ms)
        elif size > self.least:
            plan.act(STOP, plan.running[-1], at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedEvent:
    """Steps that happen once, or again and again with ``every_ms``, which is one second or more.

    ``after_ms``: the time from the last start of the group's first members to the first occurrence. ``cycle``: lists
    of steps that take turns, instead of ``steps``.
    """

    after_ms: Time = MINUTE_MS
    every_ms: Time | None = None
    steps: tuple[ScriptedStep, ...] = ()
    cycle: tuple[tuple[ScriptedStep, ...], ...] = ()

    def __post_init__(self) -> None:
        if bool(self.steps) == bool(self.cycle):
            raise ValueError("an event has either steps or cycle, and not empty")
        # Otherwise the simulation would not end.
        if self.every_ms is not None and least_time_ms(self.every_ms) < _LEAST_EVERY_MS:
            raise ValueError("every_ms must be 1000 or more, About(...) 2000 or more")


def _numbered(events: Iterable[ScriptedEvent]) -> Iterable[int]:
    """The numbers of clients in the steps."""
    for event in events:
        for step in (*event.steps, *(step for steps in event.cycle for step in steps)):
            member = getattr(step, "member", None)
            if isinstance(member, int):
                yield member
