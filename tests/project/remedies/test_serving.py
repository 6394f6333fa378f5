"""What messages of serve and export say to do helps: it is read in the message, done, and the message is gone."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from groupreplay.app.exporter.http_server import open_server
from groupreplay.app.serve.history.file import HistoryFile
from groupreplay.streaming.base.errors import GroupReplayError
from support.remedies import Attempt, Remedy, Said, prove, read_remedy, without_cluster

WATCH = "watch --bootstrap-server h:1"
SERVE = "serve --bootstrap-server h:1 --listen 0.0.0.0:9408"


def made(attempt: Attempt, said: Said) -> None:
    """Runs the command of the message in a shell."""
    subprocess.run(said["shell"], shell=True, check=True, timeout=60)


CASES = (
    Remedy(
        line=SERVE,
        of="app.serve.guard: give --auth-token-file FILE,",
        files={"FILE": "t" * 40},
        says="give (?P<add>--auth-token-file FILE), or",
        apply=lambda attempt, said: attempt.add(said["add"], "FILE"),
    ),
    Remedy(
        line=SERVE,
        of="app.serve.guard: give --auth-token-file FILE,",
        says=r"or listen on (?P<address>127\.0\.0\.1)",
        apply=lambda attempt, said: attempt.put("0.0.0.0:9408", f"{said['address']}:9408"),
    ),
    Remedy(
        line=f"{WATCH} --listen 0.0.0.0:9408",
        of="app.serve.guard: give --auth-token-file FILE,",
        says=r"or listen on (?P<address>127\.0\.0\.1)",
        apply=lambda attempt, said: attempt.put("0.0.0.0:9408", f"{said['address']}:9408"),
    ),
    Remedy(
        line=f"{WATCH} --allowed-host proxy",
        of="app.cli.commands.watch: … has no meaning without --listen",
        says="has no meaning without (?P<flag>--listen)",
        apply=lambda attempt, said: attempt.add(said["flag"], "127.0.0.1:9408"),
    ),
    *(
        Remedy(
            line=f"{SERVE} --auth-token-file FILE",
            of="app.serve.guard: write a random",
            files=files,
            says=r"for example: (?P<shell>\(umask 077; openssl rand -hex 32 > FILE\))",
            apply=made,
        )
        for files in ({"FILE": "short"}, {})
    ),
)


@pytest.mark.parametrize("remedy", CASES, ids=[f"{one.line}: {one.says}" for one in CASES])
def test_the_remedy_of_a_message_helps(
    remedy: Remedy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is refused; with what the message says it is not, or for another reason."""
    monkeypatch.chdir(tmp_path)
    without_cluster(monkeypatch)
    prove(remedy)


def test_an_address_that_is_taken() -> None:
    """The message names the flag of host and port; another port is free."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        host, port = taken.getsockname()
        with pytest.raises(GroupReplayError) as refused:
            open_server(None, host, port)
        read_remedy("app.exporter.http_server: choose an address of this machine", str(refused.value))
        open_server(None, host, 0).close()


def test_a_history_that_another_process_writes(tmp_path: Path) -> None:
    """The message asks for a file of its own, in a folder that is there."""
    first = HistoryFile(tmp_path / "a.db")
    for path in (tmp_path / "a.db", tmp_path / "missing" / "a.db"):
        with pytest.raises(GroupReplayError) as refused:
            HistoryFile(path)
        read_remedy("app.serve.history.file: give another --history-file", str(refused.value))
    HistoryFile(tmp_path / "b.db").close()
    first.close()
