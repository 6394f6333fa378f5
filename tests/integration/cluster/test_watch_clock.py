"""``watch`` on a machine whose clock is an hour fast: nothing tells it but what the coordinators write."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from groupreplay.state.phrases import timestamp
from groupreplay.streaming.base.clock import now_ms
from support.job.replays import event_name
from support.job.watch_process import watching_process
from support.kafka.blank_brokers import blank_broker
from support.kafka.clients import commit_once, make_topics, new_consumer
from support.kafka.waiting import in_background, wait_until
from support.startup_code import python_path

pytestmark = [pytest.mark.broker, pytest.mark.timeout(900)]

MINUTE_MS = 60_000
#: What Python runs first in the process of ``watch`` and in that of its prober.
SET_CLOCK = """
import time

true_ns = time.time_ns
time.time_ns = lambda: true_ns() + 3_600_000_000_000
"""


def _commit(servers: str, until: threading.Event) -> None:
    """A group without members commits all the time."""
    while not until.wait(0.2):
        commit_once(servers, "beats")


def test_events_are_neither_hidden_nor_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that begins then is reported at its own time, and no deadline passes an hour early."""
    monkeypatch.setenv("PYTHONPATH", python_path(tmp_path, SET_CLOCK))
    with blank_broker() as broker, in_background(lambda done: _commit(broker.bootstrap_servers, done)):
        servers = broker.bootstrap_servers
        make_topics(servers, {"orders": 1})
        with (
            watching_process(servers, tmp_path) as watch,
            closing(new_consumer(servers, "late", "orders")) as late,
        ):
            wait_until(lambda: late.poll(0.1) is None and bool(late.assignment()))
            wait_until(lambda: [one for one in watch.events() if one["data"].get("group_id") == "late"])
            # Some heartbeats, each of which lets time pass.
            time.sleep(15)
            events, said = watch.events(), watch.outputs[-1].read_text()
    assert "this machine's clock is ahead of the brokers' by " in said, said[-2_000:]
    latest = timestamp(now_ms() + MINUTE_MS)
    assert [one for one in events if one["time"] > latest] == []
    assert [one for one in events if event_name(one) == "commits.paused"] == []
