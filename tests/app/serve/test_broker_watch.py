"""Whether the brokers answer, and since when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from groupreplay.app.serve import broker_watch
from groupreplay.app.serve.broker_watch import Answers, BrokerWatch
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.kafka.waiting import wait_until
from support.kafka.written_topics import WrittenTopics


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks without a pause; a partition that is not there is waited for as long as an answer may take."""
    monkeypatch.setattr(broker_watch, "_PAUSE_SECONDS", 0.05)


@contextmanager
def watching(servers: str, places: Callable[[], list[tuple[str, int]]]) -> Iterator[BrokerWatch]:
    """A watch whose clock counts questions."""
    made = BrokerWatch(Cluster(bootstrap_servers=servers), places, count(1).__next__)
    made.start()
    try:
        yield made
    finally:
        made.close()


@pytest.mark.broker
def test_partitions_that_answer_and_do_not(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """Brokers that answer are not enough: what is read must answer. A gap is remembered by its two ends."""
    topic = unique("read")
    WrittenTopics(broker.bootstrap_servers).create(topic, partitions=1)
    places: list[tuple[str, int]] = []
    with watching(broker.bootstrap_servers, lambda: places) as watch:
        wait_until(lambda: (watch.answers.answered_ms or 0) >= 2)
        assert watch.answers == Answers(watch.answers.answered_ms, 1)
        places.append((topic, 0))
        now = watch.answers.answered_ms or 0
        wait_until(lambda: (watch.answers.answered_ms or 0) >= now + 2)
        assert (watch.answers.since_ms, watch.answers.error) == (1, None)
        places.append((topic, 7))
        wait_until(lambda: watch.answers.error)
        gone = watch.answers
        assert f"{topic}-7" in str(gone.error)
        assert gone.since_ms == 1
        places.pop()
        wait_until(lambda: watch.answers.error is None)
        assert (watch.answers.since_ms or 0) > (gone.answered_ms or 0)


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is there; when it was answered last is not known."""
    monkeypatch.setattr(broker_watch, "_ANSWER_SECONDS", 0.5)
    with watching("127.0.0.1:1", list) as watch:
        wait_until(lambda: watch.answers.error)
        assert (watch.answers.answered_ms, watch.answers.since_ms) == (None, None)
        assert "cannot reach the cluster" in str(watch.answers.error)
