"""Checks of a Spark before the first batch: its release, its session, its Java and Python, and its Kafka connector."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from groupreplay.streaming.base.errors import GroupReplayError, unusable
from groupreplay.streaming.config.properties import SHADED
from groupreplay.streaming.local.platforms import (
    LINE_NAMES,
    NEWEST,
    connector_coordinate,
    connector_line,
    find_line,
    is_newer,
    line_name,
    without_pyspark,
)
from groupreplay.streaming.spark.internals.jvm import jvm_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

#: The class that writes the files of checkpoints, where it is not Spark's default.
_FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
_CLIENT_CLASS: Final = "org.apache.kafka.clients.consumer.KafkaConsumer"
_CONNECTOR_CLASS: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
#: The name of the connector's jar as Maven has it; platforms that ship their own name it otherwise.
_CONNECTOR_JAR: Final = re.compile(r"spark-sql-kafka-0-10_(\d\.\d+)-(\d+\.\d+\.\d+[^/]*)\.jar")
_NO_WAIT: Final = re.compile(r"0[a-z]*")
_OVERHEADS: Final = (
    "spark.executor.memoryOverhead",
    "spark.executor.memoryOverheadFactor",
    "spark.kubernetes.memoryOverheadFactor",
)
_SCALA: Final = re.compile(r"\d+\.\d+")
#: Any of them makes ``SparkSession.builder`` open a session of Spark Connect.
_CONNECT_VARIABLES: Final = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")


def need_pyspark() -> str:
    """The release of the pyspark that can be imported.

    Raises:
        GroupReplayError: there is none, it cannot run here, or the job does not support it.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise without_pyspark()
    import pyspark

    release: str = pyspark.__version__
    line = find_line(release)
    if line is None and not is_newer(release):
        raise unusable(
            f"Spark {release} is not supported",
            None,
            f"use one of these lines of Spark: {LINE_NAMES}, or a newer one",
        )
    if line is not None and line.name == "3.5" and importlib.util.find_spec("distutils") is None:
        raise unusable(
            f"pyspark {release} needs the module distutils, which Python {sys.version_info[0]}."
            f"{sys.version_info[1]} does not have",
            sys.executable,
            "pip install setuptools, which provides it",
        )
    if line is None:
        log.warning(
            "the job was not tested with Spark %s, which is newer than %s: it uses Spark's public interface only, "
            "which takes several times the CPU time for each group; pip install 'pyspark==%s.*' for the faster way",
            release,
            NEWEST.name,
            NEWEST.name,
        )
    return release


def warn_of_untried_pair(release: str) -> None:
    """Warns when the connector that the job brings was never run with this maintenance release of pyspark."""
    line = find_line(release)
    if line is not None and not line.was_run(release):
        log.warning(
            "pyspark %s was not run with the Kafka connector %s; it was run with pyspark %s",
            release,
            line.connector,
            ", ".join(line.run_with),
        )


def need_classic(spark: SparkSession) -> None:
    """Refuses a session of Spark Connect, in which no Python can reach Spark's file systems.

    Raises:
        GroupReplayError: it is one.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise _connect_refused(
            type(spark).__module__,
            "start it with spark-submit, on Databricks with dedicated (single user) access",
        )


def has_python_sources() -> bool:
    """Whether this pyspark has Python data sources that bound a batch (Spark 4.2)."""
    try:
        from pyspark.sql.datasource import DataSourceStreamReader
    except ImportError:
        return False
    return hasattr(DataSourceStreamReader, "getDefaultReadLimit")


def need_python_sources(spark: SparkSession) -> None:
    """Refuses a Spark without Python data sources that bound a batch.

    Raises:
        GroupReplayError: it has none.
    """
    if not has_python_sources():
        raise unusable(
            f"Spark {spark.version} has no Python data sources that bound a batch",
            "--log-source python",
            "leave it out: the Kafka connector of this Spark reads the offsets topic; Spark 4.2 or later has them",
        )


def need_no_connect() -> None:
    """The same before a session is made, which would look for a server.

    Raises:
        GroupReplayError: the environment asks for one.
    """
    for name in _CONNECT_VARIABLES:
        if os.environ.get(name, "") not in ("", "0"):
            raise _connect_refused(f"{name}={os.environ[name]}", f"unset {name}")


def need_same_release(spark: SparkSession, release: str) -> None:
    """Refuses a pyspark of another line than the Spark it talks to.

    Raises:
        GroupReplayError: the lines differ.
    """
    if line_name(spark.version) != line_name(release):
        raise unusable(
            f"pyspark {release} talks to Spark {spark.version}",
            f"SPARK_HOME={os.environ.get('SPARK_HOME', '')}",
            f"use one line for both: pip install 'pyspark=={line_name(spark.version)}.*', or unset SPARK_HOME",
        )


def need_connector(spark: SparkSession) -> None:
    """Checks that Spark has a Kafka connector, made for its line and its Scala.

    Raises:
        GroupReplayError: it has none, or another one.
    """
    from py4j.protocol import Py4JJavaError

    jvm = jvm_of(spark)
    scala = _scala_of(jvm)
    fix = f"start it with: spark-submit --packages {connector_coordinate(spark.version, scala)} ..."
    try:
        # The loader of the thread finds spark.jars and --packages; the one that loaded Spark does not.
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        found = loader.loadClass(_CONNECTOR_CLASS)
    except Py4JJavaError as error:
        text = str(error.java_exception.toString())
        if "ClassNotFoundException" in text and _CONNECTOR_CLASS in text:
            raise unusable("this Spark has no Kafka connector", None, fix) from None
        raise unusable(
            f"the Kafka connector does not fit Spark {spark.version} with Scala {scala} ({text})", None, fix
        ) from None
    wrong = _wrong_connector(str(found.getProtectionDomain().getCodeSource()), spark.version, scala)
    if wrong is not None:
        raise unusable(wrong, None, fix)


def has_shaded_clients(spark: SparkSession) -> bool:
    """Whether the connector brings its own copy of Kafka's clients under another name, as that of Databricks does."""
    from py4j.protocol import Py4JJavaError

    try:
        jvm_of(spark).java.lang.Thread.currentThread().getContextClassLoader().loadClass(
            f"{SHADED}{_CLIENT_CLASS}"
        )
    except Py4JJavaError:
        return False
    return True


def is_local(master: str) -> bool:
    """Whether the master runs all tasks in the driver's JVM."""
    return master.partition("[")[0] == "local"


def are_workers_like_driver(spark: SparkSession) -> bool:
    """Whether all workers run the driver's Python on its machine, and so have the libraries that it has."""
    context = spark.sparkContext
    return is_local(str(context.master)) and context.pythonExec == sys.executable


def costly_settings(conf: Mapping[str, str]) -> list[tuple[str, str]]:
    """(what is wrong, what to do) for settings of a cluster with which the job works, at a higher price."""
    master = conf.get("spark.master", "local")
    advice: list[tuple[str, str]] = []
    if is_local(master):
        return advice
    if conf.get("spark.dynamicAllocation.enabled") == "true":
        what = "executors come and go (spark.dynamicAllocation.enabled=true)"
        fix = "set spark.dynamicAllocation.enabled=false and spark.executor.instances"
        advice.append((f"{what}: the state of each one that goes is loaded again by another one", fix))
    if _NO_WAIT.fullmatch(conf.get("spark.locality.wait", "3s")):
        what = "tasks do not wait for the executor that has their state (spark.locality.wait=0)"
        advice.append((f"{what}: others load it again from the checkpoint", "leave out spark.locality.wait"))
    if master.startswith(("yarn", "k8s")) and not any(name in conf for name in _OVERHEADS):
        what = "executors have a tenth of their heap as memory outside it, Spark's default"
        why = "RocksDB and the Python workers need more, and the cluster kills what exceeds its limit"
        advice.append((f"{what}: {why}", "set spark.executor.memoryOverhead=2g"))
    return advice


def need_file_manager(spark: SparkSession) -> None:
    """Checks that Spark can load the class that it is told to write checkpoint files with.

    The one for object stores comes from a jar beside Spark, and loads classes of its own release of Spark.

    Raises:
        GroupReplayError: it cannot.
    """
    from py4j.protocol import Py4JJavaError

    name = spark.conf.get(_FILE_MANAGER, None)
    if not name:
        return
    jvm = jvm_of(spark)
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Py4JJavaError as error:
        package = f"org.apache.spark:spark-hadoop-cloud_{_scala_of(jvm)}:{spark.version}"
        raise unusable(
            f"Spark cannot load {name} ({error.java_exception.toString()})",
            _FILE_MANAGER,
            f"it has to be of this Spark's release: for S3 add {package} to --packages; or leave out the setting",
        ) from None


def _wrong_connector(source: str, release: str, scala: str) -> str | None:
    """What does not fit about the jar in Java's description of its place; None: all of it, or its name says nothing."""
    named = _CONNECTOR_JAR.search(source)
    if named is None:
        return None
    if named[1] != scala:
        return f"the Kafka connector is made for Scala {named[1]}, and this Spark {release} runs on Scala {scala}"
    line = connector_line(release)
    if line_name(named[2]) not in (line_name(release), line.name if line else ""):
        return f"the Kafka connector is made for Spark {named[2]}, and this is Spark {release}"
    return None


def _scala_of(jvm: Any) -> str:
    """The Scala of a JVM, such as ``2.13``."""
    found = _SCALA.search(str(jvm.scala.util.Properties.versionNumberString()))
    return found[0] if found else NEWEST.scala


def _connect_refused(where: str, fix: str) -> GroupReplayError:
    return unusable(
        "this is a session of Spark Connect, and the job needs a classic one: it reads the folder of its checkpoint "
        "and starts its workers through Spark's JVM",
        where,
        fix,
    )
