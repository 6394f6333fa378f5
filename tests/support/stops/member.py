"""A group whose member stops for known times: it is away, or it is there and does not answer a rebalance."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaException

from groupreplay.streaming.base.clock import now_ms
from support.kafka.clients import new_consumer
from support.stops.feed import Feed, Written

_TURN_SECONDS = 0.25
_COMMIT_SECONDS = 1.0
#: A member consumes so many times the rate of the topic.
_SPEED = 4


@dataclass(frozen=True, kw_only=True)
class Stop:
    """What was done: from the last commit before to the first one after, by the client's clock.

    ``offsets``: what was committed meanwhile; ``written``: to the log, about ``rate`` records a second.
    ``caught_up_ms``: the member had consumed all there was.
    """

    group: str
    topic: str
    kind: str
    began_ms: int
    ended_ms: int
    caught_up_ms: int
    offsets: dict[int, int]
    written: Written = field(repr=False)
    rate: int


@dataclass
class PlayedGroup:
    """A group with one member, which stops again and again."""

    feed: Feed
    group: str
    protocol: str
    show: Callable[[str], None]
    stops: list[Stop] = field(default_factory=list)
    _committed_ms: int = 0
    _caught_up_ms: int = 0
    _offsets: dict[int, int] = field(default_factory=dict)

    def play(self, kinds: list[str], seconds: float, pause_seconds: float) -> None:
        """Stops once for each kind (``away``, ``stuck``), for so many seconds, with a pause between."""
        member = self._joined()
        self._consume_until_caught_up(member, pause_seconds)
        for number, kind in enumerate(kinds):
            if self.feed.kind == "recreated" and number == len(kinds) // 2:
                member.close()
                self.feed.create_again()
                member = self._joined()
                self._consume_until_caught_up(member, pause_seconds)
            began_ms, offsets = self._committed_ms, dict(self._offsets)
            with suppress(KafkaException):
                committed = member.committed(member.assignment(), 30)
                offsets = {place.partition: place.offset for place in committed if place.offset >= 0}
            member = self._stopped(member, kind, seconds)
            self._committed_ms = 0
            self._consume_until_caught_up(member, 0, is_first=True)
            ended_ms = self._first_ms
            self.show(f"{self.group}: {kind} for {(ended_ms - began_ms) / 1000:.0f} s")
            self.stops.append(
                Stop(
                    group=self.group,
                    topic=self.feed.topic,
                    kind=kind,
                    began_ms=began_ms,
                    ended_ms=ended_ms,
                    caught_up_ms=self._caught_up_ms,
                    offsets=offsets,
                    written=self.feed.written,
                    rate=self.feed.rate,
                )
            )
            self._consume_until_caught_up(member, pause_seconds)
        member.close()

    def _joined(self) -> Consumer:
        return new_consumer(
            self.feed.servers,
            self.group,
            self.feed.topic,
            group_protocol=self.protocol,
            auto_offset_reset="earliest",
            topic_metadata_refresh_interval_ms=2_000,
            **({"session.timeout.ms": 60_000} if self.protocol == "classic" else {}),
        )

    def _stopped(self, member: Consumer, kind: str, seconds: float) -> Consumer:
        if kind == "away":
            member.close()
            time.sleep(seconds)
            return self._joined()
        # Somebody joins, and the group waits for the member that does not poll.
        other, end = self._joined(), threading.Event()
        thread = threading.Thread(target=self._accompany, args=(other, end))
        thread.start()
        time.sleep(seconds)
        other_ends = threading.Timer(3.0, end.set)
        other_ends.start()
        return member

    @staticmethod
    def _accompany(other: Consumer, end: threading.Event) -> None:
        while not end.wait(0):
            other.poll(0.2)
        other.close()

    def _consume_until_caught_up(self, member: Consumer, seconds: float, *, is_first: bool = False) -> None:
        """Consumes at a limited speed, until all is consumed and the time is over; commits every second."""
        until, deadline = time.monotonic() + seconds, time.monotonic() + 300
        self._first_ms, self._caught_up_ms = 0, 0
        last_commit, most = 0.0, int(_SPEED * self.feed.rate * _TURN_SECONDS)
        while time.monotonic() < deadline:
            began = time.monotonic()
            messages = [m for m in member.consume(most, _TURN_SECONDS) if m.error() is None]
            if time.monotonic() - last_commit >= _COMMIT_SECONDS and (messages or not is_first):
                last_commit = time.monotonic()
                self._commit(member)
            if self._first_ms and len(messages) < most:
                self._caught_up_ms = self._caught_up_ms or now_ms()
            if self._caught_up_ms and time.monotonic() >= until:
                self._commit(member)
                return
            time.sleep(max(0.0, _TURN_SECONDS - (time.monotonic() - began)))
        raise AssertionError(f"{self.group} did not catch up")

    def _commit(self, member: Consumer) -> None:
        with suppress(KafkaException):
            places: Any = member.commit(asynchronous=False)
            self._committed_ms = now_ms()
            self._first_ms = self._first_ms or self._committed_ms
            self._offsets |= {place.partition: place.offset for place in places}
