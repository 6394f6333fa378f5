"""The JVM behind a session: PySpark has no public way to its file systems, its log, its jars and its process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
