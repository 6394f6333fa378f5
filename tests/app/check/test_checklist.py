"""The results of checks as values, and the list of checks: its order, its time limit, what stands below a failure."""

from __future__ import annotations

import json
import threading
from unittest.mock import Mock

import pytest

from groupreplay.app.check import CheckResult, CheckSettings, Status, Subject, failed, ok, unknown, warning
from groupreplay.app.check import checklist as check_module
from groupreplay.app.check.checklist import _Check, exit_code, run_checks
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka import clients
from support.job.captures import invoke


def test_the_four_outcomes() -> None:
    """An error keeps its place, its remedy and its exit code; the others have none."""
    error = GroupReplayError("no", where="here", fix="mend", exit_code=ExitCode.DATA)
    assert [ok("a", "well"), warning("a", "poor", "mend"), failed("a", error), unknown("a", "?")] == [
        CheckResult(check="a", status=Status.OK, found="well"),
        CheckResult(check="a", status=Status.WARNING, found="poor", fix="mend"),
        CheckResult(check="a", status=Status.FAILED, found="no (here)", fix="mend", exit_code=ExitCode.DATA),
        CheckResult(check="a", status=Status.SKIPPED, found="?"),
    ]
    document = {"check": "a", "status": "failed", "found": "no (here)", "fix": "mend"}
    assert failed("a", error).document() == document


def test_one_cluster_has_one_connection() -> None:
    """Without a sink of its own the topics are asked for on the source's connection."""
    one, other = Cluster(bootstrap_servers="a:1"), Cluster(bootstrap_servers="b:1")
    alone, both = Subject(CheckSettings(source=one)), Subject(CheckSettings(source=one, sink=other))
    assert alone.sink is alone.source
    assert [both.source.cluster, both.sink.cluster] == [one, other]


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
    assert [(result.check, result.status.value, result.found, result.fix) for result in results] == [
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
    assert [(result.check, result.status, result.exit_code) for result in results] == [
        ("a", Status.FAILED, ExitCode.CONNECTION),
        ("b", Status.OK, ExitCode.OK),
    ]
    assert "--timeout" in (results[0].fix or "")


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens on the port: the connection has failed, the machine is looked at all the same."""
    monkeypatch.setattr(clients, "REQUEST_SECONDS", 1.0)
    result = invoke("check", "--bootstrap-server", "127.0.0.1:1", "--timeout", "20", "-o", "json")
    found = {row["check"]: row["status"] for row in json.loads(result.stdout)}
    assert result.exit_code == ExitCode.CONNECTION
    assert [found.pop(name) for name in ("java", "versions", "cluster")] == ["ok", "ok", "failed"]
    # Asked of spark-submit alone, whose JVM runs already; that of other tests may.
    found.pop("spark", None)
    assert set(found.values()) == {"skipped"}
    assert "127.0.0.1:1" in result.stdout
