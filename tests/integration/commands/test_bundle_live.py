"""Archives of ``bundle`` with the real libraries, in interpreters that have nothing else."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import struct
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyspark
import pytest

from groupreplay.app.bundle.archive import BundleTarget, bundle_target, spark_release
from groupreplay.app.bundle.builder import Bundle, build_bundle
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.jars import jar_paths
from groupreplay.streaming.local.platforms import java_environment
from support.histories.builders import asked_for, member
from support.histories.builders import generation as generation_of
from support.histories.raw_records import generation
from support.job.captures import raw, write_capture
from support.job.jobs import read_json, topic_flags, topic_names, write_log
from support.job.watched import Watch
from support.kafka.waiting import wait_until

#: Long, because pip downloads 90 MB and packs them.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
SPARK = Path(pyspark.__file__).parent
#: ``e_machine`` in the header of an ELF file.
ELF_MACHINES = {"x86_64": 62, "aarch64": 183}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The archive for this interpreter, this machine and the installed Spark, unpacked as the printed line does."""
    spark = spark_release(pyspark.__version__)
    folder = tmp_path_factory.mktemp("bundle")
    made = build_bundle(folder / "env.tar.gz", spark, bundle_target(None, None, spark))
    subprocess.run(["sh", "-ec", made.submission.unpack], cwd=folder, check=True)
    return made


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This interpreter without any library."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    missing = subprocess.run([python, "-c", "import numpy"], capture_output=True, check=False, env={})
    assert b"No module named 'numpy'" in missing.stderr
    return python


def machines(archive: Path) -> dict[str, int]:
    """Path -> machine of each ELF file of an archive."""
    found = {}
    with tarfile.open(archive) as opened:
        for entry in opened:
            content = opened.extractfile(entry)
            assert content is not None
            header = content.read(20)
            if header[:4] == b"\x7fELF":
                found[entry.name] = struct.unpack_from("<H", header, 18)[0]
    return found


def test_the_archive_alone_is_enough(bundle: Bundle, bare_python: Path, tmp_path: Path) -> None:
    """With the standard library and the archive only, commands read a capture: every native library loads."""
    life = [asked_for(), generation_of(1, member("a", [0, 1]))]
    capture = write_capture(tmp_path / "a.parquet", raw(life))
    folder = bundle.program.parent
    command = [bare_python, "-I", "job.py", "list", "--from-file", capture, "-o", "csv"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ["GROUP", "g"], done.stderr
    libraries = (
        "import confluent_kafka, msgspec, numpy, pandas, pyarrow.compute, prometheus_client, packaging"
    )
    loaded = subprocess.run(
        [bare_python, "-c", libraries],
        env={"PYTHONPATH": str(folder / "environment")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert set(machines(bundle.archive).values()) == {ELF_MACHINES[platform.machine()]}


@pytest.mark.parametrize(
    ("line", "python", "machine"),
    [
        ("3.5", "3.10", "aarch64"),
        ("3.5", "3.12", "x86_64"),
        ("4.0", "3.11", "aarch64"),
        ("4.2", "3.14", "x86_64"),
    ],
)
def test_an_archive_for_another_platform(tmp_path: Path, line: str, python: str, machine: str) -> None:
    """All native libraries are of that machine and that Python, whatever this one is."""
    target = BundleTarget(python, machine)
    made = build_bundle(tmp_path / "env.tar.gz", spark_release(line), target)
    found = machines(made.archive)
    assert set(found.values()) == {ELF_MACHINES[machine]}
    assert len(found) > 100
    tags = {name.split("cpython-")[1].split("-")[0] for name in found if "cpython-" in name}
    assert tags == {python.replace(".", "")}
    # What only this Python needs: pip itself would not have asked for it.
    assert any(name.startswith("tomli-") for name in made.wheels) == (python == "3.10")
    (numpy,) = [name for name in made.wheels if name.startswith("numpy-")]
    assert (numpy.split("-")[1][0] == "1") == (line == "3.5")


@contextlib.contextmanager
def submitted(bundle: Bundle, python: Path, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The printed command line on a master of two workers, with jars of this machine in place of --packages."""
    options = [
        ("--jars", ",".join(map(str, jar_paths("spark-connector"))))
        if name == "--packages"
        else (name, value)
        for name, value in bundle.submission.options("local-cluster[2,1,1024]", "client")
    ]
    options += [("--conf", f"spark.pyspark.python={python}"), ("--conf", "spark.ui.enabled=false")]
    words = [word for option in options for word in option]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [str(SPARK / "bin" / "spark-submit"), *words, bundle.program.name, *arguments],
            stdout=file,
            stderr=file,
            start_new_session=True,
            cwd=bundle.program.parent,
            env={**java_environment(), "SPARK_HOME": str(SPARK)},
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.broker
@pytest.mark.spark
def test_the_printed_command_runs_the_job(bundle: Bundle, bare_python: Path, tmp_path: Path) -> None:
    """Driver, prober and the workers of two executors find the archive, and the executors run our daemon."""
    topics, log = topic_names("bundled"), tmp_path / "submit.log"
    with EmbeddedBroker(offsets_partitions=2) as broker:
        server = broker.bootstrap_servers
        write_log(server, [(0, *generation("g", 0), 1_000)], 2)
        run = ("run", "--bootstrap-server", server, "--trigger", "1", "--backfill-events")
        checkpoint = ("--checkpoint", str(tmp_path / "checkpoint"), "--shuffle-partitions", "2")
        with submitted(bundle, bare_python, log, *run, *checkpoint, *topic_flags(topics)) as process:
            wait_until(lambda: process.poll() is not None or read_json(server, topics.events), pause=1.0)
            said = read_json(server, topics.events)
            assert [event["type"] for event in said] == ["groupreplay.group.created.v1"], log.read_text()[
                -9000:
            ]
            prober = Watch(server, server, topics.probes)
            wait_until(lambda: process.poll() is not None or prober.rounds(), pause=1.0)
            assert process.poll() is None, log.read_text()[-9000:]
            module = bundle.submission.conf["spark.python.daemon.module"]
            daemons = [
                one for one in psutil.Process(process.pid).children(recursive=True) if runs(one, module)
            ]
            assert daemons
            places = {Path(one.cwd(), "environment", "groupreplay").is_dir() for one in daemons}
            assert places == {True}


def runs(process: psutil.Process, module: str) -> bool:
    """Whether this process was started as the module."""
    with contextlib.suppress(psutil.Error):
        return module in process.cmdline()
    return False
