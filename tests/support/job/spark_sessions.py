"""One small Spark session for all tests that need one in their own process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from groupreplay.streaming.config.settings import Cluster, RunSettings
from groupreplay.streaming.spark.internals import has_known_internals
from groupreplay.streaming.spark.session import jvm_has_ended, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: For what only a line has whose private parts are known: with a later one the job does not use them.
private_parts = pytest.mark.skipif(
    not has_known_internals(pyspark.__version__),
    reason=f"the job uses no private parts of Spark {pyspark.__version__}",
)

_SESSIONS: list[Any] = []


def small_session() -> SparkSession:
    """The session as the job makes it, with two threads; its JVM ends with the process.

    A JVM that ended under a test costs that test: the next one gets a new session.
    """
    if _SESSIONS and jvm_has_ended(_SESSIONS[-1]):
        _forget_jvm()
        _SESSIONS.clear()
    if not _SESSIONS:
        _SESSIONS.append(
            spark_session(
                RunSettings(
                    source=Cluster(bootstrap_servers="nowhere:9092"),
                    checkpoint="unused",
                    master="local[2,4]",
                    shuffle_partitions=1,
                )
            )
        )
    session: SparkSession = _SESSIONS[-1]
    return session


def _forget_jvm() -> None:
    # PySpark keeps the gateway of a JVM that has ended; no public function makes it start another one.
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext
    context._active_spark_context = context._gateway = context._jvm = None
    session: Any = SparkSession
    session._instantiatedSession = None


def session_with(cores: int, master: str = "yarn") -> Any:
    """A session, as the driver sees a cluster with so many cores."""
    return SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=cores, master=master))
