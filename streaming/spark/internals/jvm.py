"""The JVM behind a session: PySpark has no public way to its file systems, its log, its jars and its process."""

from __future__ import annotations

import subprocess
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


def has_session() -> bool:
    """Whether this process has a session already."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None
