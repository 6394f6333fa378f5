"""When a start is tried again in the process, and when it ends it; the job itself is a puppet here."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError, UnwritableError
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.config.settings import Cluster, RunSettings
from groupreplay.streaming.run.outage import Hindrance
from groupreplay.streaming.spark import job as run_module
from groupreplay.streaming.spark.job import run

AWAY = UnreachableError("cannot reach the cluster", where="b:9092", exit_code=ExitCode.CONNECTION)
FULL = UnwritableError(
    "the checkpoint cannot be written: No space left", where="/cp", exit_code=ExitCode.USAGE
)
REFUSED = GroupReplayError("the broker refused the login", exit_code=ExitCode.CONNECTION)


class Starts:
    """What each try ends with; the last one is stopped. Waits take no time."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path, *outcomes: Exception) -> None:
        self.outcomes = list(outcomes)
        self.settings = RunSettings(source=Cluster(bootstrap_servers="b:9092"), checkpoint=str(folder))
        self.lines: list[str] = []
        self.pauses: list[float] = []
        self.tries = self.sessions = self.workers_sought = 0
        self.stop = StopRequest()
        self.stop.wait = self._wait  # type: ignore[method-assign]
        patch.setattr(run_module, "_try", self._try)
        patch.setattr(run_module, "_session", self._session)
        patch.setattr(run_module, "WorkerTrial", self._trial)
        patch.setattr(run_module, "stop_requests", self._stop_requests)
        patch.setattr(run_module, "report_progress", self.lines.append)
        patch.setattr(run_module, "job_hindrance", self._hindrance)
        patch.setattr(run_module, "Checkpoint", lambda spark, _: spark)
        # Other tests of this process may have started a JVM.
        patch.setattr("groupreplay.streaming.spark.checkpoint.jvm_runs_already", lambda: False)

    def _try(
        self, _: RunSettings, rules: Any, stop: StopRequest, session: Callable[[], Any], *rest: Any
    ) -> None:
        self.tries += 1
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if not isinstance(outcome, UnreachableError):
            session()
        if outcome is not None:
            raise outcome
        stop.make(15)

    def _trial(self, spark: str) -> None:
        assert spark == "spark"
        self.workers_sought += 1

    @contextmanager
    def _session(self, _: RunSettings) -> Iterator[str]:
        self.sessions += 1
        yield "spark"

    @contextmanager
    def _stop_requests(self, patience_seconds: float) -> Iterator[StopRequest]:
        assert patience_seconds == 0
        yield self.stop

    def _hindrance(self, _: RunSettings, checkpoint: str | None) -> Hindrance | None:
        assert checkpoint == ("spark" if self.sessions else None)
        return None

    def _wait(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        return self.stop.made


def used_folder(folder: Path) -> Path:
    """A checkpoint on which a query has run."""
    (folder / "offsets").mkdir(parents=True)
    return folder


def test_a_checkpoint_that_has_run_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The start is tried again, not the process: Spark is started once, and only when the cluster has answered."""
    starts = Starts(monkeypatch, used_folder(tmp_path), AWAY, AWAY, FULL, AWAY)
    assert run(starts.settings) == 143
    assert (starts.tries, starts.sessions, starts.pauses) == (5, 1, [1, 2, 4, 5, 3])
    # A cluster without executors is waited for once, not at each try.
    assert starts.workers_sought == 1
    assert starts.lines[0] == "waiting to start, because cannot reach the cluster (b:9092)"


@pytest.mark.parametrize("failure", [AWAY, FULL])
def test_a_first_start_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failure: Exception) -> None:
    """A wrong address or a wrong folder is likelier than an outage."""
    starts = Starts(monkeypatch, tmp_path, failure)
    with pytest.raises(GroupReplayError) as caught:
        run(starts.settings)
    assert (caught.value, starts.tries, starts.pauses) == (failure, 1, [])


def test_a_refusal_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whether it has run before or not: an operator has to do something."""
    starts = Starts(monkeypatch, used_folder(tmp_path), AWAY, REFUSED)
    with pytest.raises(GroupReplayError, match="refused the login"):
        run(starts.settings)
    assert starts.tries == 2


def test_a_stop_ends_the_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the exit code of the signal."""
    starts = Starts(monkeypatch, used_folder(tmp_path), *[AWAY] * 10)

    def wait(_: float) -> bool:
        starts.stop.make(15)
        return True

    starts.stop.wait = wait  # type: ignore[method-assign]
    assert run(starts.settings) == 143
    assert starts.tries == 1


@pytest.mark.parametrize(
    ("file", "lock"), [("groupreplay.lock", "lockf"), ("groupreplay-driver.lock", "flock")]
)
def test_a_checkpoint_that_is_in_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str, lock: str
) -> None:
    """Neither a broker nor Spark is asked for anything; a driver or a JVM that is left of the other job is enough."""
    for name in ("Connection", "_session"):
        monkeypatch.setattr(run_module, name, lambda *_: pytest.fail("asked"))
    for name in ("LOCK_SECONDS", "_DRIVER_END_SECONDS"):
        monkeypatch.setattr(run_module, name, 0.5)
    monkeypatch.setattr("groupreplay.streaming.spark.checkpoint.jvm_runs_already", lambda: False)
    (tmp_path / "groupreplay.lock").write_text("host h, process 1\n")
    code = f"import fcntl, sys; fcntl.{lock}(file := open(sys.argv[1], 'a'), fcntl.LOCK_EX); print(flush=True); input()"
    command = [sys.executable, "-c", code, str(tmp_path / file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(GroupReplayError, match="another job is using this checkpoint") as caught:
            run(RunSettings(source=Cluster(bootstrap_servers="b:9092"), checkpoint=str(tmp_path)))
        other.kill()
    assert (caught.value.exit_code, "host h, process 1" in str(caught.value.fix)) == (ExitCode.USAGE, True)
