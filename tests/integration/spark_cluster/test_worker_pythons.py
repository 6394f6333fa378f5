"""The job on a real cluster whose workers have a Python that cannot run it: one sentence, before any batch."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from groupreplay.app.bundle.archive import package_files
from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import last_batch, topic_names
from support.kafka.waiting import wait_until
from support.other_python import DRIVER_VERSION, another_python
from support.remedies import read_remedy
from support.spark_cluster.standalone import StandaloneCluster
from support.spark_cluster.submitted_job import DAEMON_SETTING, FAST_DAEMON, STOCK_DAEMON, submitted_job

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1_200)]

#: Executors unpack the archive elsewhere: for them it is as if none had been sent.
NO_ARCHIVE = {"spark.executorEnv.PYTHONPATH": "./elsewhere"}


def said(cluster: StandaloneCluster, server: str, checkpoint: Path, conf: dict[str, str]) -> str:
    """The error of a job that is refused; it has started no batch, and Spark has written no stack trace."""
    with submitted_job(cluster, server, checkpoint, topic_names(checkpoint.name), conf=conf) as job:
        wait_until(lambda: job.process.exit_code is not None, pause=1.0)
        log = job.log.read_text()
        assert job.process.exit_code == ExitCode.USAGE, log[-4_000:]
        assert last_batch(checkpoint) == -1
        assert not (checkpoint / "offsets").exists()
        assert [line for line in log.splitlines() if line.startswith(("\tat ", "Traceback"))] == []
        # The error has a second line with the remedy.
        return " ".join(log.rpartition("\nerror: ")[2].split())


def test_each_wrong_python_is_named(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """Without groupreplay, for either daemon; and another version, whose archive has the driver's libraries."""
    with EmbeddedBroker(offsets_partitions=2) as broker:
        server = broker.bootstrap_servers
        for daemon in (FAST_DAEMON, STOCK_DAEMON):
            checkpoint = tmp_path / f"without-{daemon.rpartition('.')[2]}"
            line = said(cluster, server, checkpoint, {**NO_ARCHIVE, DAEMON_SETTING: daemon})
            ours = checkpoint.with_suffix(".job") / "python"
            start = f"the Python of Spark's workers has no groupreplay (spark.pyspark.python={ours}) "
            assert line.startswith(f"{start}groupreplay bundle makes an archive")
        other, version = another_python()
        conf = {"spark.pyspark.driver.python": str(ours), "spark.pyspark.python": other}
        assert said(cluster, server, tmp_path / "other", conf).startswith(
            f"Spark's workers run Python {version}, and the driver runs Python {DRIVER_VERSION}: both must "
            f"have the same (spark.pyspark.python={other}) set spark.pyspark.python"
        )


def test_files_that_come_too_late(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """What --py-files sends is not there when Spark starts the daemon; without that setting, as said, the job runs."""
    package = tmp_path / "groupreplay.zip"
    with zipfile.ZipFile(package, "w") as files:
        for place, content in package_files():
            files.writestr(place, content.read())
    # As --py-files.
    sent = {**NO_ARCHIVE, "spark.submit.pyFiles": str(package)}
    with EmbeddedBroker(offsets_partitions=2) as broker:
        server = broker.bootstrap_servers
        line = said(cluster, server, tmp_path / "late", sent)
        read_remedy("streaming.spark.worker_check: what --py-files", line)
        conf, checkpoint = {**sent, DAEMON_SETTING: ""}, tmp_path / "stock"
        with submitted_job(cluster, server, checkpoint, topic_names("stock"), "--once", conf=conf) as job:
            wait_until(lambda: job.process.exit_code is not None, pause=1.0)
            assert job.process.exit_code == ExitCode.OK, job.process.tail(60)
