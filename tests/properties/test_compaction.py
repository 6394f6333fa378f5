"""Logs of every kind of group, compacted everywhere: the end is the same, and nothing said is untrue.

Windows cut operations in two, as the cleaner may (see ``cleaner``); from their end on nothing is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from groupreplay.state import Event, Group
from support.histories.builders import CONTEXT, GROUP, Raw, observed, placed
from support.histories.cleaner import cleaned, overtaken, settled, untrue, windows
from support.histories.group_writer import GroupWriter
from support.histories.modern_builders import TOPIC

NAMED = replace(CONTEXT, topic_names={TOPIC: "t"})
#: What must not depend on the cleaner. ``since_ms`` and ``history`` may: they say what is known.
STEADY = (
    "type",
    "state",
    "protocol_type",
    "protocol",
    "leader",
    "generation",
    "group_epoch",
    "target_epoch",
    "subscribed_topics",
)
MEMBER = ("member_id", "instance_id", "client_id", "client_host", "state", "epoch", "partitions")


def _classic() -> GroupWriter:
    life = GroupWriter()
    life.classic_round("a")
    life.commit(0, 5)
    life.classic_round("a", "b")
    life.commit(0, 7)
    life.classic_round("b")
    life.classic_round()
    life.commit(1, 2)
    life.delete()
    life.classic_round("a", "c")
    life.classic_round("a", "b", "c")
    life.commit(2, 9)
    life.classic_round()
    return life


def _consumer(first_epoch: int = 2, *, interval: bool = False) -> GroupWriter:
    life = GroupWriter(first_epoch=first_epoch, interval=interval)
    life.join("a")
    life.settle()
    life.commit(0, 5)
    life.join("b")
    life.settle()
    life.leave("b")
    life.settle()
    life.join("b")
    life.leave("a", fenced=True)
    life.settle()
    return life


def _consumer_before_4_3() -> GroupWriter:
    return _consumer(first_epoch=1)


def _consumer_with_an_assignment_interval() -> GroupWriter:
    return _consumer(interval=True)


def _two_lives() -> GroupWriter:
    life = GroupWriter()
    life.join("a")
    life.commit(0, 5)
    life.leave("a")
    life.delete()
    life.join("b")
    life.move("b")
    life.join("a")
    life.settle()
    life.leave("b")
    return life


def _static() -> GroupWriter:
    life = GroupWriter()
    life.join("s-1", instance="s")
    life.away("s-1")
    life.back("s-1", "s-2")
    life.join("a")
    life.settle()
    life.away("s-2")
    life.heartbeat("a")
    life.back("s-2", "s-3")
    life.settle()
    life.away("s-3")
    life.leave("s-3")
    life.settle()
    return life


def _regex() -> GroupWriter:
    life = GroupWriter()
    life.join("a", regex="t.*")
    life.settle()
    life.refresh()
    life.join("b")
    life.settle()
    life.leave("a")
    life.settle()
    life.grow("b")
    return life


def _upgrade() -> GroupWriter:
    life = GroupWriter()
    life.classic_round("a")
    life.commit(0, 5)
    life.classic_round("a", "b")
    life.upgrade("n")
    life.settle()
    life.commit(1, 5)
    life.leave("a")
    life.settle()
    return life


def _there_and_back() -> GroupWriter:
    life = GroupWriter()
    life.classic_round("a", "b")
    life.commit(0, 5)
    life.upgrade("n")
    life.settle()
    life.leave("n")
    life.classic_round("b")
    return life


def _empty_there_and_back() -> GroupWriter:
    life = GroupWriter()
    life.classic_round("a")
    life.classic_round()
    life.upgrade("n")
    life.commit(0, 1)
    life.leave("n")
    life.ask()
    life.classic_round("a")
    return life


def _life_of(kind: str) -> GroupWriter:
    life = GroupWriter(kind=kind)
    life.join("a")
    life.settle()
    life.commit(0, 5)
    life.join("b")
    life.settle()
    life.leave("a")
    life.leave("b")
    life.delete()
    life.join("c")
    return life


def _share() -> GroupWriter:
    return _life_of("share")


def _streams() -> GroupWriter:
    return _life_of("streams")


LIVES = (
    _classic,
    _consumer,
    _consumer_before_4_3,
    _consumer_with_an_assignment_interval,
    _two_lives,
    _static,
    _regex,
    _upgrade,
    _there_and_back,
    _empty_there_and_back,
    _share,
    _streams,
)
every_life = pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__.strip("_"))


def replayed(records: Sequence[Raw]) -> tuple[list[Event], dict[str, Any]]:
    """Everything said, and the group in the end."""
    group = Group(GROUP, NAMED)
    events = group.apply(observed(list(records)), 0)
    events += group.expire(max((raw.at for raw in records), default=0) + 1)
    return events, group.describe()


def end(described: dict[str, Any]) -> dict[str, Any]:
    """The part of a description that must be the same."""
    return {
        **{name: described[name] for name in STEADY},
        "members": [{name: member[name] for name in MEMBER} for member in described["members"]],
        "offsets": described["offsets"],
    }


class Reader:
    """Replays logs that differ only in what the cleaner took, each once: many windows leave the same."""

    def __init__(self, life: GroupWriter) -> None:
        self.log = placed(life.log)
        self.edges = [edge for edge, _ in life.edges]
        self._seen: dict[tuple[int, ...], tuple[list[Event], dict[str, Any]]] = {}
        self.whole = self(self.log)

    def __call__(self, records: Sequence[Raw]) -> tuple[list[Event], dict[str, Any]]:
        """Everything said, and the group in the end."""
        place = tuple(raw.offset for raw in records)
        if place not in self._seen:
            self._seen[place] = replayed(records)
        return self._seen[place]


@cache
def reader_of(life: Callable[[], GroupWriter]) -> Reader:
    """One reader for all tests of a life: they meet the same logs."""
    return Reader(life())


@every_life
def test_every_window_ends_the_same(life: Callable[[], GroupWriter]) -> None:
    """Type, state, epochs, members, subscriptions and offsets, with tombstones and without."""
    reader = reader_of(life)
    _, group = reader.whole
    for window in windows(reader.log):
        for tombstones in (True, False):
            _, now = reader(cleaned(reader.log, *window, tombstones=tombstones))
            assert end(now) == end(group), (window, tombstones)


@every_life
def test_a_cleaned_log_says_nothing_untrue(life: Callable[[], GroupWriter]) -> None:
    """Every fact with a full history is one of the whole log's, of the same time.

    It differs in fields that are null or "unknown", and in what a rebalance is called, which is the place of
    its first record. Held where no reader was overtaken: holes that nothing shows may then look like history.
    """
    reader = reader_of(life)
    events, _ = reader.whole
    for c in reader.edges:
        for p in range(c):
            said, _ = reader(settled(reader.log, p, c))
            assert untrue(said, events) == [], (p, c)


@every_life
def test_a_log_that_is_cleaned_up_to_the_middle_of_an_operation_says_nothing_untrue(
    life: Callable[[], GroupWriter],
) -> None:
    """As it happens when the cleaner's map of keys is full: the end of what is not there shows the hole."""
    reader = reader_of(life)
    events, _ = reader.whole
    for c in range(1, len(reader.log) + 1):
        for p in (edge for edge in (0, *reader.edges) if edge < c):
            said, _ = reader(settled(reader.log, p, c))
            assert untrue(said, events) == [], (p, c)


@every_life
def test_a_reader_that_the_cleaner_overtook_ends_the_same(life: Callable[[], GroupWriter]) -> None:
    """As long as tombstones are still there: the last record of every key decides, whatever came before.

    Slower than their retention, it cannot know what is gone; it goes on all the same.
    """
    reader = reader_of(life)
    _, group = reader.whole
    for window in windows(reader.log):
        _, now = reader(overtaken(reader.log, *window, tombstones=True))
        assert end(now) == end(group), window
        _, blind = reader(overtaken(reader.log, *window, tombstones=False))
        assert blind["group_id"] == GROUP
