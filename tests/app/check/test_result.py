"""Answers of ``check`` as values."""

from __future__ import annotations

from groupreplay.app.check.result import (
    CheckResult,
    CheckSettings,
    Status,
    Subject,
    failed,
    ok,
    unknown,
    warning,
)
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster


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
