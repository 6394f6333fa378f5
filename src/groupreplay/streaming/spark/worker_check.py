"""A trial of Spark's Python workers before the first batch: whether their Python can run what the job sends them.

On a cluster it is another Python than the driver's. What it lacks would fail every batch, with a page of Spark's
text.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

from groupreplay.streaming.base.errors import GroupReplayError, unusable
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.spark.internals.jvm import failure_texts, log_levels, run_in_executor
from groupreplay.streaming.spark.session import DAEMON, WITHOUT_DAEMON
from groupreplay.streaming.spark.session_checks import is_local
from groupreplay.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_DRIVER: Final = f"{sys.version_info[0]}.{sys.version_info[1]}"
#: A cluster that starts no executor within this time does not delay the query, whose failure says the same.
_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.1
_JOB: Final = "groupreplay-workers"
#: What Spark would write into its log for each try of a task; the error has all of it in one sentence.
_LOGGERS: Final = (
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.executor.Executor",
    "org.apache.spark.api.python",
)
#: Prints the version of a Python, and does not start Spark's workers.
_VERSION_CODE: Final = "import sys; print('%d.%d' % sys.version_info[:2])"

#: It is not there, or may not be run; Hadoop starts programs, too, and fails for other reasons.
_NO_PROGRAM: Final = re.compile(r'Cannot run program "([^"\n]*)"[^\n]*error=(?:2|13),')
#: Spark's lines 3.5 and 4 have written the versions in different forms.
_OTHER_PYTHON: Final = re.compile(
    r"Python in worker has different version:? \(?(\d+)[.,] ?(\d+)\)? than that in driver:? (\d+\.\d+)"
)
_NO_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
#: ``python -m`` says it so if the module's package is missing.
_NO_DAEMON: Final = re.compile(r"Error while finding module specification for '([\w.]+)'")
#: Other errors of Python may pass, such as that of a full disk.
_IMPORT_ERROR: Final = re.compile(r"^\s*((?:Import|Syntax|Attribute)Error: .+)$", re.MULTILINE)
_FROM_WORKER: Final = re.compile(r"Error from python worker|Traceback \(most recent call last\)")

#: The module with which groupreplay's daemon replaces parts of PySpark's worker.
_GROUP_WORKER: Final = "groupreplay.streaming.spark.internals.group_worker"
STOCK: Final = (
    f"Spark's workers run PySpark's own code: {WITHOUT_DAEMON}; if the executors get it from an archive (made by "
    f"groupreplay bundle), set {'='.join(DAEMON)}"
)

_SEND: Final = (
    "groupreplay bundle makes an archive of groupreplay and its libraries, and prints the command with --archives, "
    "spark.executorEnv.PYTHONPATH and spark.pyspark.python; or install groupreplay in that Python"
)


class WorkerTrial:
    """One task that imports what the job's tasks import, in a worker as the job will have them; it begins at once."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._answers: list[str] = []
        self._failures: list[Exception] = []
        self._silence = ExitStack()
        self._silence.enter_context(log_levels(spark, _LOGGERS, is_quiet=not log.isEnabledFor(logging.DEBUG)))
        self._asking = threading.Thread(target=_ask, args=(spark, self._answers, self._failures), daemon=True)
        self._asking.start()

    def need(self, stop: StopRequest) -> None:
        """Waits for its end.

        Returns without an answer when a stop is requested, when no executor has been there for two minutes, or when the
        task has failed for a reason that is not the worker's Python.

        Raises:
            GroupReplayError: that Python cannot be started, is of another version, or lacks what the job needs.
        """
        deadline = time.monotonic() + _SECONDS
        with self._silence:
            while self._asking.is_alive() and not stop.made and time.monotonic() < deadline:
                self._asking.join(_POLL_SECONDS)
            if self._asking.is_alive():
                self._spark.sparkContext.cancelJobGroup(_JOB)
                if not stop.made:
                    log.warning(
                        "no executor has started a worker within %.0f s; the query waits for one", _SECONDS
                    )
                return
            if self._failures:
                _explain(self._spark, "\n".join(failure_texts(self._failures[0])))
        if self._answers:
            _require_fit(self._spark, *self._answers)


def _require_fit(spark: SparkSession, release: str, daemon: str) -> None:
    if not daemon and not is_local(str(spark.sparkContext.master)):
        log.warning("%s", STOCK)
    if release != __version__:
        raise unusable(
            f"Spark's workers have groupreplay {release}, and the driver has {__version__}",
            _place(spark),
            f"use one release for both; {_SEND}",
        )


def worker_fault(text: str, driver: str = _DRIVER, place: str | None = None) -> GroupReplayError | None:
    """The error for a failure that lies in the Python of Spark's workers; None: the text names no such cause.

    ``driver`` is the driver's Python, such as ``3.11``, ``place`` the setting that chooses that of the workers.
    """
    if found := _NO_PROGRAM.search(text):
        what = f"an executor cannot start the Python of its workers: it cannot run {found[1]}"
        return unusable(what, place, _choose(driver))
    if found := _OTHER_PYTHON.search(text):
        return _other_version(f"{found[1]}.{found[2]}", found[3], place)
    missing = _NO_DAEMON.search(text) or _NO_MODULE.search(text)
    if missing is not None:
        name = missing[1].partition(".")[0]
        fix = _SEND
        if name == "groupreplay":
            fix += "; what --py-files sends is too late for spark.python.daemon.module: leave that setting out with it"
        return unusable(f"the Python of Spark's workers has no {name}", place, fix)
    return None


def _explain(spark: SparkSession, text: str) -> None:
    """Raises the error for a failed trial, if the Python of the worker is its cause."""
    place = _place(spark)
    named = worker_fault(text, place=place)
    if not (_NO_PROGRAM.search(text) or _OTHER_PYTHON.search(text)):
        # Libraries that were compiled for one version cannot be imported by another one, which seems to have none.
        worker = _version_in_executor(spark) if named or _FROM_WORKER.search(text) else None
        if worker is not None and worker != _DRIVER:
            raise _other_version(worker, _DRIVER, place)
    if named is None and (errors := _IMPORT_ERROR.findall(text)):
        named = unusable(f"the Python of Spark's workers cannot run groupreplay: {errors[-1]}", place, _SEND)
    if named is not None:
        raise named
    log.debug("the trial of a worker has failed: %s", text)


def _other_version(worker: str, driver: str, place: str | None) -> GroupReplayError:
    return unusable(
        f"Spark's workers run Python {worker}, and the driver runs Python {driver}: both must have the same",
        place,
        f"{_choose(driver)}; or start the driver with Python {worker} (spark.pyspark.driver.python), with an archive "
        f"made by groupreplay bundle --python {worker}",
    )


def _choose(driver: str) -> str:
    return f"set spark.pyspark.python (or PYSPARK_PYTHON) to a Python {driver} that is on every machine"


def _place(spark: SparkSession) -> str:
    return f"spark.pyspark.python={spark.sparkContext.pythonExec}"


def _ask(spark: SparkSession, answers: list[str], failures: list[Exception]) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        # Of this thread, which is another one in the JVM, too.
        spark.sparkContext.setJobGroup(_JOB, "the Python of the workers", interruptOnCancel=True)
        (row,) = spark.range(1).mapInArrow(_worker, "release string, daemon string").collect()
        answers += [row.release, row.daemon]
    except (Py4JError, PySparkException, OSError, AttributeError) as error:  # the last: the session has ended
        failures.append(error)


def _worker(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a worker: imports what every task of the job imports; says whether groupreplay's daemon has forked it."""
    import pyarrow as pa

    from groupreplay.streaming.spark import operator  # noqa: F401

    for _ in batches:
        daemon = _GROUP_WORKER if _GROUP_WORKER in sys.modules else ""
        yield pa.RecordBatch.from_pydict({"release": [__version__], "daemon": [daemon]})


def _version_in_executor(spark: SparkSession) -> str | None:
    """The version of the Python that an executor starts; asked without Spark's workers, which do not start."""
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError):
        printed = run_in_executor(spark, [spark.sparkContext.pythonExec, "-c", _VERSION_CODE])
        return printed[0] if printed else None
    return None
