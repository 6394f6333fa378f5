"""The job on Spark that somebody else has started, with workers that have never heard of groupreplay."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import psutil
import pyspark
import pytest

from groupreplay.app.bundle.archive import package_files
from groupreplay.streaming.local.jars import jar_paths
from groupreplay.streaming.local.platforms import connector_coordinate, java_environment
from support import class_archives
from support.histories.raw_records import generation
from support.job.jobs import PATIENCE_SECONDS, read_json, topic_flags, topic_names, write_log
from support.job.watched import Watch
from support.kafka.blank_brokers import blank_broker
from support.kafka.waiting import wait_until
from support.spark_cluster.submitted_job import bare_python

pytestmark = [pytest.mark.broker, pytest.mark.spark]

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
EXECUTOR_OPTIONS = (*class_archives.SHORT_LIVED, *class_archives.options(class_archives.SPARK))
MAIN = "from groupreplay.app.cli.program import main\nmain()\n"


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """The package as it goes to workers: what a wheel is, renamed to .zip, which is what Spark takes."""
    place = tmp_path / "groupreplay.zip"
    with zipfile.ZipFile(place, "w") as archive:
        for path, file in package_files():
            archive.writestr(path, file.read())
    return place


def submit(tmp_path: Path, *arguments: str) -> list[str]:
    """The command line of spark-submit with these arguments behind its own."""
    main = tmp_path / "main.py"
    main.write_text(MAIN)
    own, behind = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    return [str(SUBMIT), *own, str(main), *behind]


def test_submitted_to_workers_without_groupreplay(tmp_path: Path, shipped: Path) -> None:
    """Two worker processes get the package as a zip only; the job runs and stops as everywhere."""
    python = bare_python(tmp_path / "bare")
    missing = subprocess.run([python, "-c", "import groupreplay"], capture_output=True, check=False)
    assert b"No module named 'groupreplay'" in missing.stderr
    topics = topic_names("cluster")
    with blank_broker() as broker, (tmp_path / "submit.log").open("wb") as log:
        server = broker.bootstrap_servers
        write_log(server, [(0, *generation("g", 0), 1_000)], 2)
        command = submit(
            tmp_path,
            *("--master", "local-cluster[2,1,1024]"),
            *("--jars", ",".join(map(str, jar_paths("spark-connector")))),
            *("--py-files", str(shipped)),
            *("--conf", "spark.ui.enabled=false"),
            *("--conf", f"spark.executor.extraJavaOptions={' '.join(EXECUTOR_OPTIONS)}"),
            "--",
            *("run", "--bootstrap-server", server, "--trigger", "1", "--backfill-events"),
            *("--checkpoint", str(tmp_path / "checkpoint"), "--shuffle-partitions", "2"),
            *topic_flags(topics),
        )
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd=tmp_path,
            env={**java_environment(), "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)},
        )
        try:
            wait_until(lambda: process.poll() is not None or read_json(server, topics.events), pause=1.0)
            said = read_json(server, topics.events)
            assert [event["type"] for event in said] == ["groupreplay.group.created.v1"], tail(tmp_path)
            # The prober, a process of its own, finds the package, too.
            prober = Watch(server, server, topics.probes)
            wait_until(lambda: process.poll() is not None or prober.rounds(), pause=1.0)
            assert process.poll() is None, tail(tmp_path)
            driver(process).send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 143, tail(tmp_path)
        finally:
            end_session(process)


@pytest.mark.long
def test_a_spark_without_the_connector_says_what_to_add(tmp_path: Path) -> None:
    """Under spark-submit the JVM runs already and nothing can be fetched: the exact option is printed."""
    with blank_broker() as broker:
        server = broker.bootstrap_servers
        command = submit(
            tmp_path,
            *("--master", "local[1]", "--conf", "spark.ui.enabled=false", "--"),
            *("run", "--bootstrap-server", server),
            *("--checkpoint", str(tmp_path / "checkpoint")),
        )
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**java_environment(), "PYSPARK_PYTHON": sys.executable},
            timeout=240,
        )
        assert done.returncode == 2
        assert (
            f"--packages {connector_coordinate(pyspark.__version__)}" in done.stdout
        )  # where spark-submit puts our stderr


def driver(process: subprocess.Popen[bytes]) -> psutil.Process:
    """Our Python under spark-submit's JVM."""
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # some end while we look
            if any("main.py" in part for part in child.cmdline()):
                return child
    raise AssertionError("no driver is running")


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Kills what is left of the processes that we started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def tail(tmp_path: Path) -> str:
    """The end of what spark-submit printed."""
    return "\n".join((tmp_path / "submit.log").read_text("utf-8", "replace").splitlines()[-60:])
