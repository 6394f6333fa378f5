"""What is waited for, how long, and what is printed meanwhile; the clock is that of the waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.run import outage as outage_module
from groupreplay.streaming.run.outage import Hindrance, Outage, cluster_hindrance

CLUSTER = Cluster(bootstrap_servers="b:9092")
AWAY = Hindrance("Kafka cannot be reached (b:9092)")
LEADERLESS = Hindrance("no broker leads t-0", is_sure=False)


class Waited:
    """An outage whose waits take no time and are noted."""

    def __init__(self, hindrance: Callable[[], Hindrance | None]) -> None:
        self.lines: list[str] = []
        self.pauses: list[float] = []
        self.stop = StopRequest()
        self.stop.wait = self._wait  # type: ignore[method-assign]
        self.outage = Outage(
            hindrance=hindrance, stop=self.stop, show=self.lines.append, seconds=lambda: sum(self.pauses)
        )

    def _wait(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        return self.stop.made

    def wait(self) -> float:
        """Waits once; how long."""
        before = sum(self.pauses)
        self.outage.wait("away")
        return sum(self.pauses) - before


def test_pauses_grow_and_begin_anew() -> None:
    """From one second to a minute; a success begins with one second again."""
    waited = Waited(lambda: None)
    assert [waited.wait() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    waited.outage.over()
    assert waited.wait() == 1


def test_a_cluster_that_answers_again_ends_the_wait() -> None:
    """However long the pause would have been."""
    answers: list[Hindrance | None] = [None] * 15
    waited = Waited(lambda: answers.pop(0) if answers else None)
    for _ in range(7):
        waited.wait()
    answers[:] = [AWAY, AWAY, None]
    assert waited.wait() == 10


def test_a_sure_hindrance_is_waited_for_without_end() -> None:
    """No query is started that is sure to fail, for hours."""
    answers: list[Hindrance | None] = [AWAY] * 1_000 + [None]
    waited = Waited(lambda: answers.pop(0))
    assert (waited.wait(), answers) == (5_000, [])


def test_wrong_metadata_is_not_waited_for_without_end() -> None:
    """A partition that seems to have no leader is tried after a minute."""
    assert Waited(lambda: LEADERLESS).wait() == 60


def test_lines_come_at_growing_intervals() -> None:
    """The first at once, the last one with the length of the outage."""
    answers: list[Hindrance | None] = [AWAY] * 300 + [None]
    waited = Waited(lambda: answers.pop(0))
    waited.wait()
    waited.outage.over()
    times = [10, 30, 70, 150, 310, 630, 1_230]
    assert waited.lines == ["away", *[f"away (for {at} s)" for at in times], "continuing after 1500 s"]


def test_no_line_without_an_outage() -> None:
    """A finished batch is the rule."""
    waited = Waited(lambda: None)
    waited.outage.over()
    waited.outage.note()
    assert waited.lines == []


def test_a_stop_ends_the_wait() -> None:
    """Nothing is asked any more."""
    waited = Waited(lambda: AWAY)
    waited.stop.make(15)
    assert waited.wait() == 0


def answering(monkeypatch: pytest.MonkeyPatch, leaders: Mapping[str, list[int]] | None) -> None:
    """The cluster has brokers 1 and 2 and topics with these leaders of their partitions; None: it does not answer."""

    def metadata(*_: Any, **__: Any) -> Any:
        if leaders is None:
            raise GroupReplayError("cannot reach the cluster")
        topics = {
            name: SimpleNamespace(partitions={at: SimpleNamespace(leader=one) for at, one in enumerate(them)})
            for name, them in leaders.items()
        }
        return SimpleNamespace(brokers={1: None, 2: None}, topics=topics)

    monkeypatch.setattr(outage_module, "Connection", lambda _: SimpleNamespace(metadata=metadata))


@pytest.mark.parametrize(
    ("leaders", "expected"),
    [
        (None, AWAY),
        ({"t": [1, 2], "other": [-1]}, None),
        ({"t": [-1]}, LEADERLESS),
        ({"t": [3]}, LEADERLESS),
        ({}, None),
        ({"t": [-1] * 7}, Hindrance("no broker leads t-0, t-1, t-2, t-3, t-4 and 2 more", is_sure=False)),
    ],
)
def test_what_a_cluster_lacks(
    monkeypatch: pytest.MonkeyPatch, leaders: Mapping[str, list[int]] | None, expected: Hindrance | None
) -> None:
    """No answer, or partitions of these topics without a living leader; a missing topic is found by the query."""
    answering(monkeypatch, leaders)
    assert cluster_hindrance(CLUSTER, ["t"]) == expected
