"""One draw of what the log does not show: the steps of the clients, at times within their bounds."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from groupreplay.coordinator.simulation.script import (
    CRASH,
    HANG,
    RESUME,
    START,
    STOP,
    ClientAction,
    ClientStep,
)
from groupreplay.timeline.whatif.moments import Arrival, ClientHang, Departure, Moments, StaticRestart, Turn
from groupreplay.timeline.whatif.quiet_times import QuietTimes
from groupreplay.timeline.whatif.settings import CONSUMER_HEARTBEAT, INITIAL_DELAY, POLL, PlaySettings

#: So long before the history the clients of its first generation start.
WARM_UP_MS: Final = 120_000
_WARM_STARTS_MS: Final = 60_000
_STARTS_MS: Final = 2_000
#: Draws of one moment until it is within its bounds.
_TRIES: Final = 50
#: From the start of a process to its JoinGroup with a member id.
_JOINS_MS: Final = 50
#: The least time from the start of a process to the end of a join phase.
_SOONEST_MS: Final = 2


@dataclass(slots=True)
class Draw:
    """The steps of one draw; times are milliseconds since 1970."""

    moments: Moments
    settings: PlaySettings
    interval_ms: int
    begin_ms: int
    numbers: random.Random

    def steps(self, quiet: QuietTimes) -> tuple[ClientStep, ...]:
        """All steps without the quiet times, by the time since ``WARM_UP_MS`` before the begin."""
        actions = [*self._first(), *self._turns(), *self._restarts(), *self._hangs(), *self._silences()]
        origin_ms = self.begin_ms - WARM_UP_MS
        actions.sort(key=lambda action: action[0])
        return tuple(
            ClientStep(max(quiet.played_ms(at_ms) - origin_ms, 0), action, client)
            for at_ms, action, client in _possible(actions)
        )

    def _first(self) -> Iterator[tuple[int, ClientAction, int]]:
        origin_ms = self.begin_ms - WARM_UP_MS
        for arrival in self.moments.first:
            at_ms = origin_ms + self._within(0, _STARTS_MS)
            yield (
                self._aligned(arrival, at_ms, (origin_ms, origin_ms + _WARM_STARTS_MS)),
                START,
                arrival.client,
            )

    def _aligned(self, arrival: Arrival, at_ms: int, bounds: tuple[int, int]) -> int:
        """A time within the bounds from which on the regular commits come at the recorded times; else ``at_ms``."""
        if arrival.commit_ms is None or arrival.resumes:
            return at_ms
        least_ms, most_ms = bounds
        first_ms = arrival.commit_ms - (arrival.commit_ms - least_ms) // self.interval_ms * self.interval_ms
        starts_ms = range(first_ms, most_ms + 1, self.interval_ms)
        return self.numbers.choice(starts_ms) if starts_ms and first_ms >= least_ms else at_ms

    def _turns(self) -> Iterator[tuple[int, ClientAction, int]]:
        for turn in self.moments.turns:
            begins_ms = self._begins_ms(turn)
            after_ms = begins_ms
            for place, departure in enumerate(self._ordered(turn.departures)):
                at_ms, action = self._departs(turn, departure, begins_ms, is_first=not place)
                yield at_ms, action, departure.client
                if action is STOP and not place:
                    after_ms = begins_ms + 20
            yield from self._arrivals(turn, begins_ms, after_ms)

    def _ordered(self, departures: Iterable[Departure]) -> list[Departure]:
        """In an order that is drawn: the first one may have begun the rebalance."""
        drawn = [*departures]
        self.numbers.shuffle(drawn)
        return sorted(drawn, key=lambda departure: departure.reason != "left")

    def _begins_ms(self, turn: Turn) -> int:
        """When the rebalance began."""
        if turn.is_first:
            delay_ms: int = 0 if self.settings.is_consumer else self.settings[INITIAL_DELAY]
            return turn.joined_ms - delay_ms * (1 + (len(turn.arrivals) > 1)) - _JOINS_MS
        least_ms, most_ms = self._bounds(turn)
        begins_ms = least_ms
        for _ in range(_TRIES):
            phase_ms = int(self.settings.notice_ms * self.numbers.random()) if turn.stays else 0
            begins_ms = turn.joined_ms - turn.waited_ms - phase_ms - _JOINS_MS
            if least_ms <= begins_ms <= most_ms:
                break
        return min(max(begins_ms, least_ms), most_ms)

    def _bounds(self, turn: Turn) -> tuple[int, int]:
        """When it can have begun: whoever has left then had committed before, and made no further commit."""
        lasts = [
            each.last_ms for each in turn.departures if each.reason == "left" and each.last_ms is not None
        ]
        latest_ms = turn.joined_ms - 1
        if not lasts:
            return 0, latest_ms
        if closes := [each.last_ms for each in turn.departures if each.closed and each.last_ms is not None]:
            closes_ms = min(*closes, latest_ms)
            return closes_ms, closes_ms
        return min(max(lasts) + 1, latest_ms), max(
            min(min(lasts) + self.interval_ms, latest_ms), max(lasts) + 1
        )

    def _departs(
        self, turn: Turn, departure: Departure, begins_ms: int, *, is_first: bool
    ) -> tuple[int, ClientAction]:
        reason, last_ms = departure.reason, departure.last_ms
        ended_ms = turn.joined_ms if turn.waited_ms or self.settings.is_consumer else begins_ms
        if reason == "session_timeout":
            return self._crashes_ms(last_ms, ended_ms), CRASH
        if reason == "poll_timeout":
            return ended_ms - self.settings[POLL], HANG
        if reason == "rebalance_timeout":
            waited_ms = self.settings[POLL] if self.settings.is_consumer else 1
            return self._near(begins_ms - waited_ms, last_ms, begins_ms), HANG
        if is_first:
            return begins_ms, STOP
        if departure.closed and last_ms is not None:
            return max(last_ms, begins_ms), STOP
        return self._within(begins_ms, max(begins_ms, turn.joined_ms - _JOINS_MS)), STOP

    def _crashes_ms(self, last_ms: int | None, ended_ms: int) -> int:
        """A time after its last sign of life, which a session before its end was, and before the next one."""
        alive_ms = ended_ms - self.settings.session_ms
        least_ms, most_ms = alive_ms, alive_ms + self._alive_ms()
        if last_ms is not None and self.settings.is_consumer:
            # The end has a record of its own, and no commit keeps a session.
            least_ms, most_ms = max(least_ms, last_ms + 1), min(most_ms, last_ms + self.interval_ms)
            if least_ms <= most_ms:
                return self._within(least_ms, most_ms)
        return self._near(self._within(least_ms, most_ms), last_ms, ended_ms)

    def _alive_ms(self) -> int:
        """The time between two signs of life of a client of the model."""
        if self.settings.is_consumer:
            return int(self.settings[CONSUMER_HEARTBEAT])
        return max(min(self.interval_ms, self.settings.session_ms * 2 // 3), 1)

    def _near(self, at_ms: int, last_ms: int | None, before_ms: int) -> int:
        """A time between the last commit and the one that did not come, if they are known."""
        if last_ms is None:
            return at_ms
        return min(self._within(last_ms + 1, last_ms + self.interval_ms), before_ms - 1)

    def _arrivals(self, turn: Turn, begins_ms: int, after_ms: int) -> Iterator[tuple[int, ClientAction, int]]:
        latest_ms = max(after_ms, turn.joined_ms - 2 * _JOINS_MS)
        if turn.is_first and len(turn.arrivals) > 1:
            latest_ms = begins_ms + self.settings[INITIAL_DELAY] - 2 * _JOINS_MS
        stopped = any(departure.reason == "left" for departure in turn.departures)
        for place, arrival in enumerate(turn.arrivals):
            begins = not place and not stopped
            at_ms = begins_ms if begins else self._within(after_ms, latest_ms)
            if not turn.is_first:
                least_ms = latest_ms - turn.waited_ms - self.settings.notice_ms if begins else after_ms
                at_ms = self._aligned(arrival, at_ms, (least_ms, turn.joined_ms - _SOONEST_MS))
            yield at_ms, RESUME if arrival.resumes else START, arrival.client

    def _restarts(self) -> Iterator[tuple[int, ClientAction, int]]:
        for restart in self.moments.restarts:
            back_ms = restart.back_ms - _JOINS_MS
            yield self._away_ms(restart, back_ms), STOP, restart.client
            yield back_ms, START, restart.client

    def _away_ms(self, restart: StaticRestart, back_ms: int) -> int:
        last_ms = restart.last_ms
        if restart.closed and last_ms is not None:
            return min(last_ms, back_ms - 1)
        if last_ms is None or last_ms >= back_ms:
            return back_ms - self._within(1, self.interval_ms)
        return min(self._within(last_ms + 1, last_ms + self.interval_ms), back_ms - 1)

    def _hangs(self) -> Iterator[tuple[int, ClientAction, int]]:
        for hang in self.moments.hangs:
            since_ms, until_ms = self._hang(hang)
            yield since_ms, HANG, hang.client
            yield until_ms, RESUME, hang.client

    def _silences(self) -> Iterator[tuple[int, ClientAction, int]]:
        for silence in self.moments.silences:
            at_ms = self._within(silence.last_ms + 1, silence.last_ms + self.interval_ms)
            yield at_ms, HANG if silence.hangs else CRASH, silence.client

    def _hang(self, hang: ClientHang) -> tuple[int, int]:
        since_ms = self._within(hang.last_ms + 1, hang.last_ms + self.interval_ms)
        if hang.joins:
            return min(since_ms, hang.next_ms - 1), hang.next_ms - 1
        return since_ms, self._within(max(hang.next_ms - self.interval_ms, since_ms), hang.next_ms)

    def _within(self, least: int, most: int) -> int:
        return self.numbers.randint(least, max(least, most))


def _possible(actions: Iterable[tuple[int, ClientAction, int]]) -> Iterator[tuple[int, ClientAction, int]]:
    """Without those of clients that do not run; one that does not run begins where it would go on."""
    running, hanging = set[int](), set[int]()
    for at_ms, drawn, client in actions:
        action = START if drawn is RESUME and client not in running else drawn
        if (client in running) is (action is START) or (action is RESUME and client not in hanging):
            continue
        if action is HANG:
            hanging.add(client)
        else:
            hanging.discard(client)
        if action is START:
            running.add(client)
        elif action in (STOP, CRASH):
            running.discard(client)
        yield at_ms, action, client
