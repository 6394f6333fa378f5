"""The Spark session of the job: in a JVM that this process starts, or in the one that spark-submit has started.

Each of Spark's settings has its reason beside it.
"""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from importlib import resources
from typing import TYPE_CHECKING, Final

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.process import has_begun
from groupreplay.streaming.config.logs import pass_on
from groupreplay.streaming.config.settings import RunSettings, default_master
from groupreplay.streaming.local.platforms import javas_of
from groupreplay.streaming.local.process_guard import end_jvm, jvm_folder, temporary_files_in
from groupreplay.streaming.spark.internals import checkpoint_manager, has_known_internals
from groupreplay.streaming.spark.internals.jvm import has_session, jvm_of, jvm_process, launch_jvm
from groupreplay.streaming.spark.session_checks import (
    costly_settings,
    is_local,
    need_classic,
    need_connector,
    need_file_manager,
    need_no_connect,
    need_pyspark,
    need_same_release,
    warn_of_untried_pair,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_STATE: Final = "spark.sql.streaming.stateStore"

#: The connector's way to find partitions without which it leaves out internal topics.
OLD_OFFSETS: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
#: Settings that can be changed on an existing session.
SESSION_CONF: Final[Mapping[str, str]] = {
    # The default reader of offsets skips internal topics: zero rows, and no error.
    OLD_OFFSETS: "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # Records of a megabyte are legal: without this limit a batch of them could outgrow an Arrow buffer.
    "spark.sql.execution.arrow.maxBytesPerBatch": "67108864",
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    # Writes the changes of a batch instead of a snapshot.
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    # RocksDB's memory is outside the heap and otherwise not limited.
    f"{_STATE}.rocksdb.boundedMemoryUsage": "true",
    # Each batch leaves files in every state partition; 100 batches of them are kept by default.
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.metricsEnabled": "true",
    # A source that cannot be interrupted must not delay the end of the job (milliseconds).
    "spark.sql.streaming.stopTimeout": "10000",
}

#: Names the manager of checkpoint files. Spark's default for a local folder starts twenty processes for every file it
#: writes (Hadoop without its native library runs ``ls`` and ``readlink`` on each part of the path), the one that
#: ``checkpoint_manager`` returns four. Both write a temporary file and rename it; the latter first checks whether the
#: file exists, which is safe behind the lock of the checkpoint. It needs Hadoop's own file system: Hive's, the default
#: in Spark's JVM, silently does not rename over an existing file.
LOCAL_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"

#: Settings that a JVM reads at its start.
_JVM_CONF: Final[Mapping[str, str]] = {
    # The web interface listens on all addresses; --spark-conf spark.ui.enabled=true brings it back.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # At 17 000 batches a day the default history fills the heap.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.streaming.ui.retainedQueries": "5",
    "spark.sql.streaming.ui.retainedProgressUpdates": "20",
    "spark.driver.memory": "2g",
    # Spark's default pattern, which this setting replaces, and the names of secrets in Kafka's settings.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|keystore|ssl[.].*key",
    # Consumers are pooled between batches; a pause of five minutes would close all of them.
    "spark.kafka.consumer.cache.timeout": "30m",
    # Fetched records, up to 20 000 of each partition, are kept for five minutes by default. A running query uses them
    # at once; those of a query that has ended (rules have changed) must not fill the heap.
    "spark.kafka.consumer.fetchedData.cache.timeout": "30s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "10s",
    # One consumer for each partition that this machine reads: beyond 64, every batch would close and open some.
    "spark.kafka.consumer.cache.capacity": "256",
}
#: Executors on this machine: no port needs to be reachable from outside.
_LOOPBACK_CONF: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
#: Hadoop's own file system for folders of this machine.
PLAIN_FILES: Final = "org.apache.hadoop.fs.LocalFileSystem"
#: Forks the workers from a process that has imported groupreplay; for workers whose Python has it installed.
DAEMON: Final = ("spark.python.daemon.module", "groupreplay.streaming.spark.internals.python_daemon")
#: What it costs to leave it out, as measured (docs/scaling.md).
WITHOUT_DAEMON: Final = "a group with records costs 1.8 ms of a core in each batch instead of 0.65 ms"
#: For a master, executors and workers on this machine alone.
_LOCAL_CONF: Final[Mapping[str, str]] = {
    # Every user of this machine can connect to the ports of RPC and blocks, and a client of theirs may run code. With a
    # master on this machine the JVM makes the secret itself, a new one at each start: it stands in no setting and on no
    # command line.
    "spark.authenticate": "true",
    "spark.hadoop.fs.file.impl": PLAIN_FILES,
}
#: For executors elsewhere.
_CLUSTER_CONF: Final[Mapping[str, str]] = {
    # On by default at some platforms: an executor that has gone takes its part of the state with it.
    "spark.dynamicAllocation.enabled": "false",
    # RocksDB and the Python workers are outside the heap; by default a tenth of the heap is left for them.
    "spark.driver.memoryOverhead": "1g",
    "spark.executor.memoryOverhead": "2g",
}
#: A first start leaves a large heap. Spark has garbage sought every half an hour, here every two minutes, beside the
#: job: a quarter of a second of a core with 20 000 groups. What is free goes back to the system, so does what malloc
#: has kept. A JVM that knows no such option leaves it out.
_GC_INTERVAL: Final = "2min"
_MEMORY_OPTIONS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:+ExplicitGCInvokesConcurrent -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=30 "
    "-XX:+UnlockExperimentalVMOptions -XX:TrimNativeHeapInterval=60000"
)
_END_SECONDS: Final = 10.0
#: After a signal; everything that has to be written is written then.
_SHORT_END_SECONDS: Final = 0.5
_QUERY_END_SECONDS: Final = 60.0
_FILES: Final = ExitStack()
atexit.register(_FILES.close)


def spark_session(settings: RunSettings) -> SparkSession:
    """The session of the job: under spark-submit in its JVM, else in a JVM that is started.

    Raises:
        GroupReplayError: pyspark or the Kafka connector is missing or does not fit, or the jars could not be fetched.
        JavaNotFoundError: no Java was found to start a JVM.
    """
    release = need_pyspark()
    need_no_connect()
    spark = _submitted(settings) if jvm_runs_already() else _own(settings, release)
    need_classic(spark)
    need_same_release(spark, release)
    for name, value in {**SESSION_CONF, **_asked_conf(settings)}.items():
        if name not in settings.spark_conf:
            spark.conf.set(name, value)
    spark.sparkContext.setLogLevel(settings.log_level)
    need_connector(spark)
    need_file_manager(spark)
    for what, fix in costly_settings(dict(spark.sparkContext.getConf().getAll())):
        log.warning("%s: %s", what, fix)
    return spark


def uses_internals(release: str, settings: RunSettings) -> bool:
    """Whether private parts of Spark may be used, which cost less time than the public ones."""
    return has_known_internals(release) and not settings.plain_spark


def use_local_files(spark: SparkSession, settings: RunSettings) -> None:
    """Sets the file manager; call it before a query starts whose checkpoint is a folder of ``PLAIN_FILES``."""
    if LOCAL_FILES not in settings.spark_conf and uses_internals(spark.version, settings):
        spark.conf.set(LOCAL_FILES, checkpoint_manager(spark.version))


def quiet(spark: SparkSession) -> None:
    """Silences the JVM's log: a query that is stopped in a batch writes pages of stack traces."""
    log4j = jvm_of(spark).org.apache.logging.log4j
    # Spark's own setLogLevel skips the loggers that have a level of their own.
    log4j.core.config.Configurator.setAllLevels("", log4j.Level.OFF)


def unquiet(spark: SparkSession, settings: RunSettings) -> None:
    """Undoes ``quiet``, for a process that goes on."""
    jvm_of(spark).org.apache.logging.log4j.core.config.Configurator.reconfigure()
    spark.sparkContext.setLogLevel(settings.log_level)


def submitted_conf() -> dict[str, str]:
    """What spark-submit has to set, if groupreplay is in the executors' Python: the job cannot set it in a running JVM.

    Whether there is a web interface is decided by the cluster.
    """
    conf = {**_JVM_CONF, **dict([DAEMON]), **_CLUSTER_CONF}
    del conf["spark.ui.enabled"]
    return conf


def _asked_conf(settings: RunSettings) -> dict[str, str]:
    partitions = {"spark.sql.shuffle.partitions": str(settings.shuffle_partitions)}
    return {**partitions, OLD_OFFSETS: "false"} if settings.log_source == "python" else partitions


def jvm_runs_already() -> bool:
    """Whether spark-submit has started this process and left its address, or a session exists."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or has_session()


def _submitted(settings: RunSettings) -> SparkSession:
    from pyspark.sql import SparkSession

    if settings.master is not None:
        log.warning("--master is ignored: Spark is running already")
    return SparkSession.builder.appName("groupreplay").config(map=dict(settings.spark_conf)).getOrCreate()


def _own(settings: RunSettings, release: str) -> SparkSession:
    from pyspark.sql import SparkSession

    from groupreplay.streaming.local.jars import jar_paths
    from groupreplay.streaming.local.platforms import java_environment

    warn_of_untried_pair(release)
    os.environ.update(java_environment(javas_of(release)))
    # Spark would use the first python3 of the PATH for its workers.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master = settings.master or default_master()
    folder = _FILES.enter_context(jvm_folder())
    jars = ",".join(map(str, jar_paths("spark-connector", ivy_settings=settings.ivy_settings)))
    conf: dict[str, bool | float | int | str | None] = {
        **_JVM_CONF,
        **(_LOOPBACK_CONF if master.startswith("local") else {}),
        **(_local_conf(release, settings) if is_local(master) else {}),
        **SESSION_CONF,
        **_asked_conf(settings),
        "spark.jars": jars,
        "spark.cleaner.periodicGC.interval": _GC_INTERVAL,
        "spark.driver.extraJavaOptions": f'{_log_options()} "-Djava.io.tmpdir={folder}" {_MEMORY_OPTIONS}',
        **settings.spark_conf,
    }
    with temporary_files_in(folder):
        if uses_internals(release, settings):
            launch_jvm({**conf, "spark.master": master, "spark.app.name": "groupreplay"}, pass_on)
        return SparkSession.builder.appName("groupreplay").master(master).config(map=conf).getOrCreate()


def _local_conf(release: str, settings: RunSettings) -> dict[str, str]:
    return {**_LOCAL_CONF, **(dict([DAEMON]) if uses_internals(release, settings) else {})}


def _log_options() -> str:
    file = _FILES.enter_context(resources.as_file(resources.files(__package__) / "log4j2.xml"))
    # The level is set when the session exists: Spark does not replace a level that is in force from the start, and then
    # keeps a filter of its shells that lets nothing below WARN through.
    return f"-Dlog4j2.configurationFile={file.as_uri()}"


def jvm_has_ended(spark: SparkSession, seconds: float = 0.0) -> bool:
    """Whether the JVM that this process started has ended, or ends within these seconds."""
    process = jvm_process(spark)
    if process is None:
        return False
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def require_jvm(spark: SparkSession) -> None:
    """Raises OSError, as a call to the JVM does, when the JVM that this process started has ended."""
    if jvm_has_ended(spark):
        raise ConnectionError("the JVM has ended")


def require_no_query(spark: SparkSession) -> None:
    """Waits until no query runs.

    Raises:
        GroupReplayError: one does not end.
    """
    deadline = time.monotonic() + _QUERY_END_SECONDS
    while spark.streams.active:
        if time.monotonic() > deadline:
            raise GroupReplayError(
                f"the query did not end within {_QUERY_END_SECONDS:.0f} s",
                fix="nothing: the process has to end, and a service manager starts it again",
            )
        time.sleep(0.2)


def close(spark: SparkSession) -> None:
    """Ends the session, and the JVM if this process started it; waits for its end.

    After a signal there is no time for that: the JVM is killed if it does not end at once.
    """
    process = jvm_process(spark)
    seconds = _SHORT_END_SECONDS if has_begun() else _END_SECONDS
    stopping = threading.Thread(target=spark.stop, daemon=True)
    stopping.start()
    # A task that waits for a broker can delay it.
    stopping.join(seconds)
    if process is None:
        return
    # The JVM ends by itself when its standard input does.
    if process.stdin is not None:
        process.stdin.close()
    if not jvm_has_ended(spark, seconds):
        end_jvm()
        process.kill()
        process.wait()
    _FILES.close()
