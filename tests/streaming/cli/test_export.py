"""The command ``groupreplay export``."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import click
import pytest

from groupreplay.streaming.cli.export import listen_address
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.captures import invoke
from support.kafka.waiting import wait_until


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:9408", ("127.0.0.1", 9408)), ("[::1]:0", ("::1", 0)), ("exporter:1", ("exporter", 1))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    """A host, which may be IPv6 in brackets, and a port."""
    assert listen_address(text) == address


@pytest.mark.parametrize("text", ["9408", ":9408", "host:", "host:x", "host:-1", ""])
def test_what_is_no_address(text: str) -> None:
    """It says what one looks like; listening everywhere has to be asked for by name."""
    with pytest.raises(click.BadParameter, match=r"write 127\.0\.0\.1:9408"):
        listen_address(text)


def test_flags() -> None:
    """Mistakes are usage errors, before any broker is asked."""
    for words in ([], ["--bootstrap-server", "h:1", "--listen", "x"], ["--heartbeat-timeout", "5"]):
        assert invoke("export", *words).exit_code == 2


@pytest.mark.broker
def test_the_process(broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path) -> None:
    """It answers before the job has ever run, says that it is not ready, and ends on SIGTERM."""
    command = [sys.executable, "-m", "groupreplay.streaming", "export", "--listen", "127.0.0.1:0"]
    command += ["--bootstrap-server", broker.bootstrap_servers, "--states-topic", unique("states")]
    with GuardedProcess(command, tmp_path / "log") as process:
        wait_until(lambda: "metrics on" in process.tail(5))
        found = re.search(r"http://127\.0\.0\.1:\d+/metrics", process.tail(5))
        assert found is not None
        with urlopen(found[0], timeout=30) as answer:
            assert b"\ngroupreplay_exporter_ready 0.0\n" in answer.read()
        wait_until(lambda: "the cluster shows no such topic" in process.tail(5))
        process.ask_to_end()
        wait_until(lambda: process.exit_code is not None)
        assert process.exit_code == 128 + signal.SIGTERM
