"""What is said about a Python of Spark's workers that cannot run the job, before the first batch."""

from __future__ import annotations

import logging
import sys
import sysconfig
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.spark import worker_check
from groupreplay.streaming.spark.internals.jvm import jvm_of, log_levels, run_in_executor
from groupreplay.streaming.spark.worker_check import WorkerTrial, worker_fault
from groupreplay.version import __version__
from support.job.spark_sessions import small_session
from support.other_python import DRIVER_VERSION, another_python
from support.remedies import read_remedy

PLACE = "spark.pyspark.python=/opt/python"
SEND = worker_check._SEND
FAILED = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times\n"
)
FROM_DAEMON = (
    f"{FAILED}org.apache.spark.SparkException: \nError from python worker:\n  Traceback (most recent call last):\n"
    '    File "<frozen runpy>", line 198, in _run_module_as_main\n  '
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f'{FAILED}java.io.IOException: Cannot run program "python3.11": error=2, No such file or directory',
            "an executor cannot start the Python of its workers: it cannot run python3.11",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark",
            "Spark's workers run Python 3.9, and the driver runs Python 3.11: both must have the same",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version (3, 10) than that in driver 3.11, Py",
            "Spark's workers run Python 3.10, and the driver runs Python 3.11: both must have the same",
        ),
        (
            f"{FAILED}Error from python worker:\n  /opt/python: Error while finding module specification for "
            "'groupreplay.streaming.spark.internals.python_daemon' (ModuleNotFoundError: No module named 'group…')",
            "the Python of Spark's workers has no groupreplay",
        ),
        (
            f"{FROM_DAEMON}ModuleNotFoundError: No module named 'pyarrow.compute'",
            "the Python of Spark's workers has no pyarrow",
        ),
        (f"{FAILED}ExecutorLostFailure (executor 1 exited)", None),
        ('java.io.IOException: Cannot run program "ls": error=12, Cannot allocate memory', None),
        ("java.lang.IllegalStateException: Traceback", None),
    ],
)
def test_the_cause_in_sparks_text(text: str, said: str | None) -> None:
    """A sentence with the remedy for each way in which that Python can be wrong; nothing for other failures."""
    error = worker_fault(text, "3.11", PLACE)
    if said is None:
        assert error is None
        return
    assert error is not None
    assert (error.what, error.where, error.exit_code) == (said, PLACE, ExitCode.USAGE)
    assert ("groupreplay bundle" in str(error.fix)) is ("has no" in said or "run Python" in said)
    assert ("set spark.pyspark.python" in str(error.fix)) is ("has no" not in said)


def explained(text: str, worker: str | None, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """What is raised for this text, if an executor's Python is of this version."""
    context = SimpleNamespace(pythonExec="/opt/python")
    monkeypatch.setattr(worker_check, "_DRIVER", "3.11")
    spark: Any = SimpleNamespace(sparkContext=context)
    monkeypatch.setattr(worker_check, "_version_in_executor", lambda _: worker)
    try:
        worker_check._explain(spark, text)
    except GroupReplayError as error:
        return str(error) if error.exit_code is ExitCode.USAGE else repr(error.exit_code)
    return None


def test_libraries_of_another_version_are_no_missing_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive for 3.11 under Python 3.12: what numpy says would send the reader looking for numpy."""
    text = f"{FROM_DAEMON}ModuleNotFoundError: No module named 'numpy._core._multiarray_umath'"
    missing = f"the Python of Spark's workers has no numpy ({PLACE}): {SEND}"
    other = "Spark's workers run Python 3.12, and the driver runs Python 3.11: both must have the same"
    assert str(explained(text, "3.12", monkeypatch)).startswith(
        f"{other} ({PLACE}): set spark.pyspark.python"
    )
    assert explained(text, "3.11", monkeypatch) == missing
    assert explained(text, None, monkeypatch) == missing


def test_any_error_of_an_import_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial does nothing but import; what may pass, and a failure without Python, is left to the query."""
    text = f"{FROM_DAEMON}ImportError: cannot import name 'x' from 'pandas'\nPYTHONPATH was:\n  /a\n\tat y"
    assert explained(text, "3.11", monkeypatch) == (
        "the Python of Spark's workers cannot run groupreplay: ImportError: cannot import name 'x' from 'pandas' "
        f"({PLACE}): {SEND}"
    )
    full = f"{FROM_DAEMON}OSError: [Errno 28] No space left on device\n\tat y"
    for passing in (f"{FAILED}ExecutorLostFailure (executor 1 exited)", full):
        assert explained(passing, "3.11", monkeypatch) is None


@pytest.mark.spark
def test_the_jobs_own_workers_pass(caplog: pytest.LogCaptureFixture) -> None:
    """Without a word, and Spark's log is as loud as before."""
    spark = small_session()
    manager = jvm_of(spark).org.apache.logging.log4j.LogManager
    levels = [str(manager.getLogger(name).getLevel()) for name in worker_check._LOGGERS]
    WorkerTrial(spark).need(StopRequest())
    assert caplog.records == []
    assert [str(manager.getLogger(name).getLevel()) for name in worker_check._LOGGERS] == levels
    with log_levels(spark, worker_check._LOGGERS[:1], is_quiet=True):
        assert str(manager.getLogger(worker_check._LOGGERS[0]).getLevel()) == "OFF"


@pytest.mark.spark
def test_an_executor_starts_a_program() -> None:
    """Without one of Spark's workers."""
    assert run_in_executor(small_session(), [sys.executable, "-c", worker_check._VERSION_CODE]) == [
        DRIVER_VERSION
    ]


def refusal(python: Path, monkeypatch: pytest.MonkeyPatch, remedy: str) -> str:
    """What is said if workers have this Python; with the driver's own, as the remedy says or allows, they work."""
    spark = small_session()
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    with pytest.raises(GroupReplayError) as caught:
        WorkerTrial(spark).need(StopRequest())
    assert caught.value.where == f"spark.pyspark.python={python}"
    read_remedy(remedy, str(caught.value))
    monkeypatch.setattr(spark.sparkContext, "pythonExec", sys.executable)
    WorkerTrial(spark).need(StopRequest())
    return caught.value.what


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """All packages of this Python but groupreplay."""
    folder = tmp_path / "site"
    folder.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "groupreplay" not in entry.name and entry.suffix != ".pth":
            (folder / entry.name).symlink_to(entry)
    return folder


def program(folder: Path, python: str, libraries: Path) -> Path:
    """A Python with these packages only, whatever PYTHONPATH says."""
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{libraries}" exec {python} -S "$@"\n')
    script.chmod(0o755)
    return script


@pytest.mark.spark
def test_workers_without_groupreplay(
    tmp_path: Path, libraries: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Said in one sentence, and by nobody else."""
    # Our own Python is one in which groupreplay is installed.
    remedy = "streaming.spark.worker_check: groupreplay bundle makes an archive"
    said = refusal(program(tmp_path, sys.executable, libraries), monkeypatch, remedy)
    assert said == "the Python of Spark's workers has no groupreplay"
    assert "\tat org.apache.spark" not in capfd.readouterr().err


@pytest.mark.spark
def test_workers_without_a_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that exists on the driver's machine only."""
    missing = tmp_path / "none"
    said = f"an executor cannot start the Python of its workers: it cannot run {missing}"
    remedy = "streaming.spark.worker_check: set spark.pyspark.python (or PYSPARK_PYTHON)"
    assert refusal(missing, monkeypatch, remedy) == said


@pytest.mark.spark
def test_workers_with_another_python(
    tmp_path: Path, libraries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its libraries were compiled for the driver's; the versions are said, and not what cannot be imported."""
    python, version = another_python()
    remedy = "streaming.spark.worker_check: set spark.pyspark.python (or PYSPARK_PYTHON)"
    said = refusal(program(tmp_path, python, libraries), monkeypatch, remedy)
    assert (
        said
        == f"Spark's workers run Python {version}, and the driver runs Python {DRIVER_VERSION}: both must have the same"
    )


@pytest.mark.parametrize(
    ("stops", "said"), [(True, []), (False, ["no executor has started a worker within 0 s"])]
)
def test_a_cluster_without_executors_delays_nothing(
    stops: bool, said: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After a while the query is started all the same; a stop is served at once. The task is cancelled."""
    stop, cancelled, end = StopRequest(), [], threading.Event()
    context = SimpleNamespace(cancelJobGroup=cancelled.append)
    monkeypatch.setattr(worker_check, "log_levels", lambda *_, **__: nullcontext())
    monkeypatch.setattr(worker_check, "_ask", lambda *_: end.wait(60))
    monkeypatch.setattr(worker_check, "_SECONDS", 600.0 if stops else 0.0)
    if stops:
        stop.make(15)
    spark: Any = SimpleNamespace(sparkContext=context)
    with caplog.at_level(logging.WARNING):
        WorkerTrial(spark).need(stop)
    end.set()
    assert cancelled == [worker_check._JOB]
    assert [one.getMessage().partition(";")[0] for one in caplog.records] == said


def test_a_start_that_fails_beside_the_trial(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its session ends under the trial, which nobody asks any more: nothing is printed of that."""
    monkeypatch.setattr(worker_check, "log_levels", lambda *_, **__: nullcontext())
    ended: Any = SimpleNamespace(sparkContext=None)
    trial = WorkerTrial(ended)
    trial._asking.join(30)
    assert [type(failure) for failure in trial._failures] == [AttributeError]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("master", "daemon", "said"),
    [("yarn", "", [worker_check.STOCK]), ("yarn", "fast", []), ("local[2]", "", [])],
)
def test_workers_without_our_daemon(
    master: str,
    daemon: str,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A platform may start workers of its own: the job says what it costs, and goes on."""
    monkeypatch.setattr(worker_check, "log_levels", lambda *_, **__: nullcontext())
    monkeypatch.setattr(worker_check, "_ask", lambda _, answers, __: answers.extend((__version__, daemon)))
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
    WorkerTrial(spark).need(StopRequest())
    assert caplog.messages == said


def test_another_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state and the functions that are sent to workers belong to one release."""
    monkeypatch.setattr(worker_check, "log_levels", lambda *_, **__: nullcontext())
    monkeypatch.setattr(worker_check, "_ask", lambda _, answers, __: answers.extend(("0.0.1", "fast")))
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(pythonExec="/opt/python"))
    with pytest.raises(GroupReplayError) as caught:
        WorkerTrial(spark).need(StopRequest())
    assert str(caught.value) == (
        f"Spark's workers have groupreplay 0.0.1, and the driver has {__version__} ({PLACE}): "
        f"use one release for both; {SEND}"
    )
