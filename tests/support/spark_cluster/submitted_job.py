"""The job submitted to a cluster: the same interface as the job on one machine, and what is sent to executors."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from groupreplay.app.bundle.archive import package_files, write_archive
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.local.jars import jar_paths
from groupreplay.streaming.local.process_guard import GuardedProcess
from groupreplay.streaming.spark.session import DAEMON
from support.job.jobs import RunningJob, topic_flags
from support.kafka.waiting import is_alive, wait_until
from support.spark_cluster.standalone import MASTER_HOST, SPARK_HOME, StandaloneCluster, daemon_environment

PROGRAM = "from groupreplay.app.cli.program import main\n\nmain()\n"
#: The module of the faster worker.
DAEMON_SETTING, FAST_DAEMON = DAEMON
#: What Spark starts without that setting.
STOCK_DAEMON = "pyspark.daemon"
#: Where executors find what the archive holds: Spark unpacks it in the folder in which it starts them.
_UNPACKED = "environment"
_ONE_COMPILER = "-XX:TieredStopAtLevel=1"


def package_archive(folder: Path) -> Path:
    """The package as it is sent to executors with ``--archives``; its libraries are those of ``bare_python``."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / "env.tar.gz"
    write_archive(archive, dict(package_files()))
    return archive


def bare_python(folder: Path) -> Path:
    """A Python that has everything the job needs but groupreplay itself, as a cluster's image may have."""
    packages = folder / "site"
    packages.mkdir(parents=True)
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "groupreplay" not in entry.name and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    return script


@dataclass(frozen=True)
class Shipment:
    """What a submission consists of, in ``folder``: an archive for executors, its content for the driver, a Python."""

    folder: Path
    archive: Path
    python: Path

    def command(self, cluster: StandaloneCluster, conf: Mapping[str, str]) -> list[str]:
        """``spark-submit`` and its options, without the program; a setting without a value is left out."""
        all_conf = {
            "spark.pyspark.python": str(self.python),
            "spark.executorEnv.PYTHONPATH": f"./{_UNPACKED}",
            "spark.driver.host": MASTER_HOST,
            "spark.driver.bindAddress": MASTER_HOST,
            "spark.executor.cores": "1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            DAEMON_SETTING: FAST_DAEMON,
            **conf,
        }
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.url]
        command += ["--archives", f"{self.archive}#{_UNPACKED}"]
        command += ["--jars", ",".join(map(str, jar_paths("spark-connector")))]
        for name, value in all_conf.items():
            command += ["--conf", f"{name}={value}"] if value else []
        return command

    def environment(self) -> dict[str, str]:
        """The environment of ``spark-submit``: in client mode Spark unpacks no archive for the driver."""
        unpacked = str(self.folder / _UNPACKED)
        return {**daemon_environment(MASTER_HOST, self.folder), "PYTHONPATH": unpacked}


def shipment(folder: Path) -> Shipment:
    """Packs the package as it is now."""
    archive = package_archive(folder)
    shutil.unpack_archive(archive, folder / _UNPACKED)
    return Shipment(folder, archive, bare_python(folder))


class SubmittedJob(RunningJob):
    """``spark-submit … job.py run`` in client mode; ``process`` is spark-submit's JVM, our Python its child."""

    def __init__(
        self,
        cluster: StandaloneCluster,
        server: str,
        checkpoint: Path,
        topics: TopicNames,
        *flags: str,
        conf: Mapping[str, str],
        location: str | None = None,
    ) -> None:
        self._cluster, self._conf, self._location = cluster, conf, location or str(checkpoint)
        self._shipment = shipment(checkpoint.with_suffix(".job"))
        (self._shipment.folder / "job.py").write_text(PROGRAM)
        super().__init__(server, checkpoint, topics, *flags)

    def _start(self) -> GuardedProcess:
        conf = {
            "spark.driver.memory": "640m",
            "spark.executor.memory": "640m",
            # As for all JVMs of tests: they run for too short a time for the second compiler.
            "spark.executor.extraJavaOptions": _ONE_COMPILER,
            **self._conf,
        }
        command = self._shipment.command(self._cluster, conf)
        command += ["job.py", "run", "--bootstrap-server", self.server, "--checkpoint", self._location]
        command += ["--shuffle-partitions", "2", "--trigger", "1", *topic_flags(self.topics), *self.flags]
        environment = {**self._shipment.environment(), "SPARK_SUBMIT_OPTS": _ONE_COMPILER}
        return GuardedProcess(command, self.log, environment=environment, cwd=self._shipment.folder)

    def driver(self) -> psutil.Process:
        """Our Python under spark-submit's JVM, as soon as there is one."""

        def look() -> psutil.Process | None:
            with suppress(psutil.Error):
                for child in psutil.Process(self.process.pid).children():
                    with suppress(psutil.Error):
                        if any(word.endswith("job.py") for word in child.cmdline()):
                            return child
            return None

        return self.wait_until(look)

    def stop(self) -> int:
        """SIGTERM to Python, which ends the query between two batches; the exit code of spark-submit."""
        self.driver().send_signal(signal.SIGTERM)
        wait_until(lambda: self.process.exit_code is not None)
        assert self.process.exit_code is not None
        return self.process.exit_code

    def kill_driver(self, *, python: bool, jvm: bool) -> None:
        """Kills one or both processes of the driver; what is left must end by itself."""
        driver = self.driver().pid
        for pid in [driver] * python + [self.process.pid] * jvm:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(driver) and self.process.exit_code is not None)


@contextmanager
def submitted_job(
    cluster: StandaloneCluster,
    server: str,
    checkpoint: Path,
    topics: TopicNames,
    *flags: str,
    conf: Mapping[str, str] = {},
    location: str | None = None,
) -> Iterator[SubmittedJob]:
    """The job on the cluster with ``package_archive`` for its executors, ended hard when the test is over.

    ``conf`` are settings of Spark, which win against those of the tests. ``location`` is the checkpoint, if it is not
    the folder ``checkpoint``, beside which the files of the job lie in any case.
    """
    job = SubmittedJob(cluster, server, checkpoint, topics, *flags, conf=conf, location=location)
    try:
        yield job
    finally:
        job.process.end(0)
