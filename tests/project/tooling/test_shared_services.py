"""A JVM that dies under a test costs that test: the next one finds the shared broker and session alive."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.spark.session import jvm_has_ended
from support.job.spark_sessions import small_session
from support.kafka.clients import make_topics
from support.kafka.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]


def test_both_are_killed(broker: EmbeddedBroker) -> None:
    """After SIGKILL neither answers."""
    session = small_session()
    jvm = session.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    assert broker.pid is not None
    for pid in (jvm, broker.pid):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: broker.pid is None and jvm_has_ended(session))


def test_both_are_there_again(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """The test that follows in the same process uses them as if nothing had been."""
    make_topics(broker.bootstrap_servers, {unique("topic"): 1})
    assert small_session().range(3).count() == 3
