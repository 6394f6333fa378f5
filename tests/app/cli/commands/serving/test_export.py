"""The command ``groupreplay export``."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.captures import invoke
from support.kafka.waiting import wait_until


def test_flags() -> None:
    """Mistakes are usage errors, before any broker is asked."""
    for words in ([], ["--bootstrap-server", "h:1", "--listen", "x"], ["--heartbeat-timeout", "5"]):
        assert invoke("export", *words).exit_code == 2


@pytest.mark.broker
def test_the_process(broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path) -> None:
    """It answers before the job has ever run, says that it is not ready, and ends on SIGTERM."""
    command = [sys.executable, "-m", "groupreplay", "export", "--listen", "127.0.0.1:0"]
    command += ["--bootstrap-server", broker.bootstrap_servers, "--states-topic", unique("states")]
    with GuardedProcess(command, tmp_path / "log") as process:
        wait_until(lambda: "metrics on" in process.tail(5))
        found = re.search(r"http://127\.0\.0\.1:\d+/metrics", process.tail(5))
        assert found is not None
        with urlopen(found[0], timeout=30) as answer:
            assert b"\ngroupreplay_exporter_ready 0.0\n" in answer.read()
        wait_until(lambda: "the topic does not exist, or this login may not see it" in process.tail(5))
        process.ask_to_end()
        wait_until(lambda: process.exit_code is not None)
        assert process.exit_code == 128 + signal.SIGTERM
