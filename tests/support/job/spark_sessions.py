"""One small Spark session for all tests that need one in their own process."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from groupreplay.streaming.config.settings import Cluster, RunSettings
from groupreplay.streaming.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@cache
def small_session() -> SparkSession:
    """The session as the job makes it, with two threads; its JVM ends with the process."""
    return spark_session(
        RunSettings(
            source=Cluster(bootstrap_servers="nowhere:9092"),
            checkpoint="unused",
            master="local[2,4]",
            shuffle_partitions=1,
        )
    )
