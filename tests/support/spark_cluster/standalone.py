"""Spark's standalone cluster on this machine: a master on 127.0.0.1, a worker there and one on 127.0.0.2."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pyspark

from groupreplay.streaming.local.platforms import find_java, javas_of
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.kafka.waiting import is_alive, wait_until

#: The folder of pip's Spark. It has no ``start-master.sh``; ``spark-class`` starts the same programs.
SPARK_HOME = Path(pyspark.__file__).parent
MASTER_HOST = "127.0.0.1"
WORKER_HOSTS = ("127.0.0.1", "127.0.0.2")
#: For the start of a JVM on a machine that runs several brokers at once.
_WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR_CLASS = "CoarseGrainedExecutorBackend"
#: Settings of the test's own Python must not reach executors: they have what the job sends them.
_NOT_INHERITED = re.compile("PYTHON|SPARK|VIRTUAL_ENV")


def daemon_environment(host: str, folder: Path) -> dict[str, str]:
    """The environment of a master or worker that listens on this address only."""
    inherited = {name: value for name, value in os.environ.items() if not _NOT_INHERITED.match(name)}
    return {
        **inherited,
        "JAVA_HOME": str(find_java(javas_of(pyspark.__version__)).home),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": host,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
    }


class ClusterWorker:
    """One worker of the cluster, with one core for executors."""

    def __init__(self, number: int, host: str, master: str, folder: Path) -> None:
        self.host, self._master, self._folder = host, master, folder / f"worker-{number}"
        self.process = self._start()

    def _start(self) -> GuardedProcess:
        command = [str(SPARK_HOME / "bin" / "spark-class"), _WORKER_CLASS, "--host", self.host]
        command += ["--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "4g"]
        command += ["--work-dir", str(self._folder / "work"), self._master]
        log = self._folder.with_suffix(".log")
        return GuardedProcess(command, log, environment=daemon_environment(self.host, self._folder))

    def restart(self) -> None:
        """Starts the worker again after a kill, as a service manager does."""
        self.end()
        self.process = self._start()

    def end(self) -> None:
        """Ends the process of the last start."""
        self.process.end(0)

    def executors(self) -> list[int]:
        """The process ids of its executors, the oldest first."""
        return [one.pid for one in _children(self.process.pid) if _EXECUTOR_CLASS in _command_line(one)]

    def daemons(self) -> list[int]:
        """The processes from which its executors fork Python workers."""
        return [one.pid for executor in self.executors() for one in _children(executor) if _is_python(one)]

    def python_workers(self) -> list[int]:
        """The Python workers of its executors."""
        return [one.pid for daemon in self.daemons() for one in _children(daemon)]

    def kill(self) -> None:
        """Kills the worker with its executors and their Python workers, as a machine fails."""
        with suppress(ProcessLookupError):
            for pid in [*self.python_workers(), *self.daemons(), *self.executors(), self.process.pid]:
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.process.exit_code is not None)


class StandaloneCluster:
    """The running cluster; ``url`` is for ``--master``."""

    def __init__(self, master: GuardedProcess, url: str, web: str, workers: Sequence[ClusterWorker]) -> None:
        self.url, self.workers = url, workers
        self._master, self._web = master, web

    def state(self) -> Mapping[str, Any]:
        """What the master says of its workers and applications."""
        with urllib.request.urlopen(f"{self._web}/json/", timeout=30) as answer:
            said: Mapping[str, Any] = json.load(answer)
            return said

    def alive(self) -> list[str]:
        """The addresses of the workers that the master counts on, without those that have ended."""
        ports = {one.host for one in self.workers if one.process.exit_code is None}
        return sorted(
            one["host"] for one in self.state()["workers"] if one["state"] == "ALIVE" and one["host"] in ports
        )

    def wait_whole(self) -> None:
        """Waits until all workers are registered and no dead one is left in the list of those alive."""
        hosts = sorted(one.host for one in self.workers)
        wait_until(lambda: self.alive() == hosts, pause=0.5)

    def executors(self) -> dict[str, list[int]]:
        """The process ids of the executors by the address of their worker."""
        return {one.host: one.executors() for one in self.workers}

    def wait_executors(self) -> None:
        """Waits until each worker runs one executor which has a process for Python workers."""
        wait_until(
            lambda: all(len(one.executors()) == 1 == len(one.daemons()) for one in self.workers), pause=0.5
        )

    def leaders(self) -> list[int]:
        """The master and the workers; all processes of the cluster are in sessions of these ids."""
        return [self._master.pid, *(one.process.pid for one in self.workers)]

    def addresses(self) -> set[str]:
        """All addresses on which processes of the cluster listen."""
        found = set()
        for leader in self.leaders():
            for pid in (leader, *(one.pid for one in _children(leader, deep=True))):
                with suppress(psutil.Error):
                    sockets = psutil.Process(pid).net_connections("inet")
                    found |= {one.laddr.ip for one in sockets if one.status == psutil.CONN_LISTEN}
        return {address.removeprefix("::ffff:") for address in found}


@contextmanager
def standalone_cluster(folder: Path, hosts: Sequence[str] = WORKER_HOSTS) -> Iterator[StandaloneCluster]:
    """Starts the cluster, with a worker on each of these addresses; the logs are in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        command = [str(SPARK_HOME / "bin" / "spark-class"), "org.apache.spark.deploy.master.Master"]
        command += ["--host", MASTER_HOST, "--port", "0", "--webui-port", "0"]
        log = folder / "master.log"
        environment = daemon_environment(MASTER_HOST, folder / "master")
        master = stack.enter_context(GuardedProcess(command, log, environment=environment))
        url = _printed(master, r"Starting Spark master at (spark://\S+)")
        web = _printed(master, r"MasterWebUI to .* started at (http://\S+)")
        workers = [ClusterWorker(number, host, url, folder) for number, host in enumerate(hosts, 1)]
        for one in workers:
            stack.callback(one.end)
        cluster = StandaloneCluster(master, url, web, workers)
        cluster.wait_whole()
        yield cluster


def _printed(process: GuardedProcess, pattern: str) -> str:
    """What the process has written into its log; it chooses its ports itself."""

    def printed() -> list[str]:
        assert process.exit_code is None, process.tail()
        assert process.log is not None
        return re.findall(pattern, process.log.read_text("utf-8", "replace"))

    return wait_until(printed, pause=0.2)[0]


def _children(pid: int, *, deep: bool = False) -> list[psutil.Process]:
    try:
        children = psutil.Process(pid).children(recursive=deep)
    except psutil.NoSuchProcess:
        return []
    return sorted((one for one in children if is_alive(one.pid)), key=lambda one: one.pid)


def _is_python(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "python" in process.name()
    return False


def _command_line(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""
