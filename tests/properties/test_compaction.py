"""Logs of every type of group, cleaned in every window: the group is the same, and no event is untrue.

A window may cut an operation in two, as in the cleaner (see ``cleaner``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import pytest

from groupreplay.coordinator.classic.classic_group import ClassicGroup
from groupreplay.coordinator.consumer.consumer_group import ConsumerGroup
from groupreplay.coordinator.requests import DeleteGroup, Settings
from groupreplay.state import Event
from groupreplay.state.replay import report
from support.histories.builders import GROUP, Raw, placed, read
from support.histories.cleaner import cleaned, overtaken, settled, untrue, windows
from support.histories.group_writer import GroupWriter
from support.histories.strategies import WrittenLog
from support.model.classic_lives import HAPPENINGS as CLASSIC_HAPPENINGS
from support.model.consumer_clients import ConsumerClients
from support.model.consumer_lives import NAMED

#: The fields that must not depend on the cleaner. ``since_ms`` and ``history`` may: they state what is known.
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


def _settle(clients: ConsumerClients) -> None:
    """All members do what the coordinator requests."""
    if isinstance(clients.coordinator.group, ConsumerGroup):
        clients.settle_all()
    else:
        CLASSIC_HAPPENINGS["settle"](clients, 0)


def _commit(clients: ConsumerClients, member_id: str, partition: int = 0) -> None:
    group = clients.coordinator.group
    epoch = group.generation if isinstance(group, ClassicGroup) else clients.member(member_id).epoch
    assert clients.commit(clients.now, partition=partition, member_id=member_id, generation=epoch) == "NONE"


def _classic() -> WrittenLog:
    clients = ConsumerClients()
    (a,) = clients.stable("a")
    _commit(clients, a)
    _, b = clients.join("b")
    _settle(clients)
    _commit(clients, a)
    clients.leave(a)
    _settle(clients)
    clients.leave(b)
    clients.commit(2, partition=1)
    clients.ask(DeleteGroup())
    a, c = clients.stable("a", "c")
    clients.join("b")
    _settle(clients)
    _commit(clients, c, 2)
    for member_id in list(clients.group.members):
        clients.leave(member_id)
    clients.wait(600_000)
    return WrittenLog(clients.log)


def _consumer() -> WrittenLog:
    clients = ConsumerClients(Settings(consumer_assignment_interval_ms=1_000))
    clients.enter("a")
    _commit(clients, "a")
    clients.enter("b")
    _settle(clients)
    clients.depart("b")
    _settle(clients)
    clients.enter("b")
    clients.wait(1_000)
    # Member a has to revoke a partition, and is fenced at its rebalance timeout.
    clients.beat("a")
    clients.wait(30_000)
    _settle(clients)
    assert list(clients.consumers.members) == ["b"]
    return WrittenLog(clients.log)


def _consumer_before_4_3() -> WrittenLog:
    writer = GroupWriter(first_epoch=1)
    writer.join("a")
    writer.settle()
    writer.commit(0, 5)
    writer.join("b")
    writer.settle()
    writer.leave("b")
    writer.settle()
    writer.join("b")
    writer.leave("a", fenced=True)
    writer.settle()
    return WrittenLog(placed(writer.log))


def _two_groups() -> WrittenLog:
    clients = ConsumerClients()
    clients.enter("a")
    _commit(clients, "a")
    clients.depart("a")
    clients.ask(DeleteGroup())
    clients.enter("b")
    clients.beat("b", client_host="/moved")
    clients.enter("a")
    _settle(clients)
    clients.depart("b")
    return WrittenLog(clients.log)


def _static() -> WrittenLog:
    clients = ConsumerClients()
    clients.enter("s-1", instance_id="s")
    clients.away("s-1")
    clients.enter("s-2", instance_id="s")
    clients.enter("a")
    _settle(clients)
    clients.away("s-2")
    clients.beat("a")
    clients.enter("s-3", instance_id="s")
    _settle(clients)
    clients.away("s-3")
    clients.depart("s-3")
    _settle(clients)
    return WrittenLog(clients.log)


def _regex() -> WrittenLog:
    writer = GroupWriter()
    writer.join("a", regex="t.*")
    writer.settle()
    writer.refresh()
    writer.join("b")
    writer.settle()
    writer.leave("a")
    writer.settle()
    writer.grow("b")
    return WrittenLog(placed(writer.log))


def _upgrade() -> WrittenLog:
    clients = ConsumerClients()
    (a,) = clients.stable("a")
    _commit(clients, a)
    clients.join("b")
    _settle(clients)
    clients.enter("n")
    _settle(clients)
    _commit(clients, "n", 1)
    clients.leave(a)
    _settle(clients)
    return WrittenLog(clients.log)


def _there_and_back() -> WrittenLog:
    clients = ConsumerClients()
    # An upgrade at generation 1 would lead to epoch 2, with which new groups begin: after a cut inside the downgrade
    # the replay takes such a group for a new one.
    (a,) = clients.stable("a")
    clients.join("b")
    _settle(clients)
    _commit(clients, a)
    clients.enter("n")
    _settle(clients)
    clients.depart("n")
    clients.leave(a)
    _settle(clients)
    return WrittenLog(clients.log)


def _empty_there_and_back() -> WrittenLog:
    clients = ConsumerClients()
    (a,) = clients.stable("a")
    clients.leave(a)
    clients.enter("n")
    _commit(clients, "n")
    clients.depart("n")
    clients.stable("a")
    return WrittenLog(clients.log)


def _writer(kind: str) -> WrittenLog:
    writer = GroupWriter(kind=kind)
    writer.join("a")
    writer.settle()
    writer.commit(0, 5)
    writer.join("b")
    writer.settle()
    writer.leave("a")
    writer.leave("b")
    writer.delete()
    writer.join("c")
    return WrittenLog(placed(writer.log))


LOGS: dict[str, Callable[[], WrittenLog]] = {
    "classic": _classic,
    "consumer": _consumer,
    "consumer before 4.3": _consumer_before_4_3,
    "consumer with an assignment interval": _consumer,
    "two groups": _two_groups,
    "static": _static,
    "regex": _regex,
    "upgrade": _upgrade,
    "there and back": _there_and_back,
    "empty there and back": _empty_there_and_back,
    "share": lambda: _writer("share"),
    "streams": lambda: _writer("streams"),
}
every_log = pytest.mark.parametrize("log", LOGS)


def end(described: dict[str, Any]) -> dict[str, Any]:
    """The part of a group's description that must be the same."""
    return {
        **{name: described[name] for name in STEADY},
        "members": [{name: member[name] for name in MEMBER} for member in described["members"]],
        "offsets": described["offsets"],
    }


class Reader:
    """Replays cleaned logs, each only once: many windows leave the same records."""

    def __init__(self, log: WrittenLog) -> None:
        self.log, self.ends = log.records, log.ends
        self._seen: dict[tuple[int, ...], tuple[list[Event], dict[str, Any]]] = {}
        self.whole = self(self.log)

    def __call__(self, records: Sequence[Raw]) -> tuple[list[Event], dict[str, Any]]:
        """All events, and the group at the end."""
        place = tuple(raw.offset for raw in records)
        if place not in self._seen:
            group, events = read(records, NAMED)
            self._seen[place] = events, group.describe()
        return self._seen[place]


@pytest.fixture(scope="module", autouse=True)
def every_event() -> Iterator[None]:
    """A log that was cleaned lacks the first of two equal events, and then the second one is emitted: not here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "_INTERVAL_MS", 0)
        yield


@cache
def reader_of(log: str) -> Reader:
    """One reader for all tests of a log, which share its results."""
    return Reader(LOGS[log]())


@every_log
def test_every_window_ends_the_same(log: str) -> None:
    """Type, state, epochs, members, subscriptions and offsets, with tombstones and without."""
    reader = reader_of(log)
    _, group = reader.whole
    for window in windows(reader.log):
        for tombstones in (True, False):
            _, now = reader(cleaned(reader.log, *window, tombstones=tombstones))
            assert end(now) == end(group), (window, tombstones)


@every_log
@pytest.mark.parametrize("whole_operations", [True, False])
def test_a_cleaned_log_says_nothing_untrue(log: str, whole_operations: bool) -> None:
    """Every event with a full history is one of the uncleaned log, with the same time.

    Only null or "unknown" fields may differ, and the id of a rebalance, which depends on its first record.
    A log that is cleaned up to the middle of an operation, as when the cleaner's map of keys is full, shows the hole in
    the rest of the operation. A reader that the cleaner overtook is left out: it cannot notice every hole.
    """
    reader = reader_of(log)
    events, _ = reader.whole
    everywhere, edges = range(1, len(reader.log) + 1), (0, *reader.ends)
    for c in reader.ends if whole_operations else everywhere:
        for p in (place for place in (range(c) if whole_operations else edges) if place < c):
            said, _ = reader(settled(reader.log, p, c))
            assert untrue(said, events) == [], (p, c)


@every_log
def test_a_reader_that_the_cleaner_overtook_ends_the_same(log: str) -> None:
    """As long as the tombstones remain: the last record of every key decides.

    A reader that is slower than their retention cannot know all deletions; it must not fail.
    """
    reader = reader_of(log)
    _, group = reader.whole
    for window in windows(reader.log):
        _, now = reader(overtaken(reader.log, *window, tombstones=True))
        assert end(now) == end(group), window
        _, blind = reader(overtaken(reader.log, *window, tombstones=False))
        assert blind["group_id"] == GROUP
