"""``check`` without a broker: its order, its limits, its formats, and what it asks of this machine."""

from __future__ import annotations

import json
import threading
from unittest.mock import Mock

import pytest

from groupreplay.app.check import checklist as check_module
from groupreplay.app.check.checklist import _Check, exit_code, run_checks
from groupreplay.app.check.result import CheckResult, CheckSettings, Status, ok, warning
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka import clients
from support.job.captures import invoke


def asked(monkeypatch: pytest.MonkeyPatch, *checks: _Check, seconds: float = 30.0) -> list[CheckResult]:
    """What these questions answer."""
    monkeypatch.setattr(check_module, "_CHECKS", checks)
    source = Cluster(bootstrap_servers="127.0.0.1:1")
    return list(run_checks(CheckSettings(source=source, timeout_seconds=seconds)))


def test_every_question_has_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure, a crash and what depends on them: each is a line, and the exit code is the first failure's."""
    denied = GroupReplayError("no", where="here", fix="do\nthis", exit_code=ExitCode.AUTHORISATION)
    results = asked(
        monkeypatch,
        _Check("a", lambda _: [ok("a", "well"), warning("a2", "poor", "mend it")]),
        _Check("b", Mock(side_effect=denied)),
        _Check("c", Mock(side_effect=ValueError("broken"))),
        _Check("d", lambda _: [ok("d", "never asked")], needs=("a", "c")),
        _Check("e", lambda _: [ok("e", "never asked")], needs=("d",)),
        _Check("f", lambda _: [ok("f", "never asked")], when=lambda _: False),
    )
    assert [(one.check, one.status.value, one.found, one.fix) for one in results] == [
        ("a", "ok", "well", None),
        ("a2", "warning", "poor", "mend it"),
        ("b", "failed", "no (here)", "do\nthis"),
        ("c", "failed", "ValueError: broken", "run it again with --debug for the traceback"),
        ("d", "skipped", "needs this check to be ok first: c", None),
        ("e", "skipped", "needs this check to be ok first: d", None),
    ]
    assert exit_code(results) == ExitCode.AUTHORISATION
    assert exit_code(results[:2]) == ExitCode.OK


def test_no_question_holds_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One without an answer in time has failed; the next is asked all the same."""
    never = threading.Event()
    silent = _Check("a", lambda _: [ok("a", str(never.wait()))])
    try:
        results = asked(monkeypatch, silent, _Check("b", lambda _: [ok("b", "well")]), seconds=0.2)
    finally:
        never.set()
    assert [(one.check, one.status, one.exit_code) for one in results] == [
        ("a", Status.FAILED, ExitCode.CONNECTION),
        ("b", Status.OK, ExitCode.OK),
    ]
    assert "--timeout" in (results[0].fix or "")


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens on the port: the connection has failed, the machine is looked at all the same."""
    monkeypatch.setattr(clients, "REQUEST_SECONDS", 1.0)
    result = invoke("check", "--bootstrap-server", "127.0.0.1:1", "--timeout", "20", "-o", "json")
    found = {one["check"]: one["status"] for one in json.loads(result.stdout)}
    assert result.exit_code == ExitCode.CONNECTION
    assert [found.pop(name) for name in ("java", "versions", "cluster")] == ["ok", "ok", "failed"]
    assert set(found.values()) == {"skipped"}
    assert "127.0.0.1:1" in result.stdout
