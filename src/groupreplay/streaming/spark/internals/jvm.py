"""The JVM behind a session: PySpark has no public way to its file systems, its log, its jars and its process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def jvm_of(spark: SparkSession) -> Any:
    """The packages of the JVM: ``jvm_of(spark).java.lang.System``."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return jvm


def hadoop_configuration(spark: SparkSession) -> Any:
    """Hadoop's settings of the session, among them its file systems."""
    return spark.sparkContext._jsc.hadoopConfiguration()


def jvm_process(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    """The JVM, if this process started it."""
    return getattr(spark.sparkContext._gateway, "proc", None)


@contextmanager
def log_levels(spark: SparkSession, loggers: Sequence[str], *, is_quiet: bool) -> Iterator[None]:
    """Silences these loggers of the JVM while the block runs; does nothing if ``is_quiet`` is False."""
    log4j = jvm_of(spark).org.apache.logging.log4j
    configurator = log4j.core.config.Configurator
    before = {name: log4j.LogManager.getLogger(name).getLevel() for name in loggers} if is_quiet else {}
    for name in before:
        configurator.setLevel(name, log4j.Level.OFF)
    try:
        yield
    finally:
        for name, level in before.items():
            configurator.setLevel(name, level)


def run_in_executor(spark: SparkSession, command: Sequence[str]) -> list[str]:
    """The lines that a program prints which an executor starts, without one of Spark's Python workers."""
    rows = spark.sparkContext._jsc.parallelize([""], 1)
    return [str(line) for line in rows.pipe(list(command)).collect()]


def has_session() -> bool:
    """Whether this process has a session already."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def submitted_settings() -> dict[str, str]:
    """The settings that spark-submit has given to the JVM that it has started; no session is made."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


#: Java 17 and later say so of the module that Spark's start script adds.
_NOISE: Final = b"WARNING: Using incubator modules"


def launch_jvm(conf: Mapping[str, Any], show: Callable[[bytes], None]) -> None:
    """Starts the JVM that the next session uses; ``show`` gets the lines of its error output.

    Raises:
        PySparkException: it has ended before it could be reached.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    reader, writer = os.pipe()
    threading.Thread(target=_relay, args=(reader, show), name="groupreplay-jvm-log", daemon=True).start()
    options: dict[str, Any] = {"stderr": writer}
    if sys.version_info >= (3, 11):
        options["process_group"] = 0
    try:
        gateway = launch_gateway(SparkConf().setAll([*conf.items()]), popen_kwargs=options)
    finally:
        os.close(writer)
    SparkContext._ensure_initialized(gateway=gateway)


def _relay(reader: int, show: Callable[[bytes], None]) -> None:
    with open(reader, "rb", buffering=0) as output:
        rest = b""
        while data := output.read(65536):
            *lines, rest = (rest + data).split(b"\n")
            show(b"".join(line + b"\n" for line in lines if not line.startswith(_NOISE)))
        show(rest)


class JavaProgress:
    """``BatchProgress`` from the query object of the JVM."""

    def after(self, query: StreamingQuery, known: int | None) -> list[Mapping[str, Any]]:
        """See ``BatchProgress.after``."""
        java_query: Any = query._jsq
        last = java_query.lastProgress()
        if last is None:
            return []
        batch = json.loads(last.json())
        if known is None or batch["batchId"] <= known + 1:
            return [batch]
        return [json.loads(one.json()) for one in java_query.recentProgress()]

    def close(self) -> None:
        """Does nothing: the JVM forgets a query with its session."""


#: Longer chains say nothing more.
_MOST_CAUSES: Final = 20


def failure_texts(exception: Any) -> list[str]:
    """The texts of an exception and of its causes, the outermost first; of another exception its own text."""
    texts: list[str | None] = []
    for _ in range(_MOST_CAUSES):
        if exception is None:
            break
        texts += [str(exception), getattr(exception, "_stackTrace", None)]
        exception = getattr(exception, "_cause", None)
    return [text for text in texts if text]
