"""Servers that speak the protocol of S3 on 127.0.0.1, the jars of Hadoop's client for it, and their settings."""

from __future__ import annotations

import hashlib
import re
import shutil
import socket
import subprocess
import tempfile
import urllib.request
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.files import cache_folder
from groupreplay.streaming.local.broker import free_ports
from groupreplay.streaming.local.ivy import Coordinate, retrieve
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.kafka.waiting import wait_until
from support.spark_cluster.standalone import SPARK_HOME
from support.tools.go_programs import go_program

#: A gateway from S3 to a folder, as it is used in production; built with Go.
_GATEWAY = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
#: A server in memory, in Python; it is no package that groupreplay needs, and has an environment of its own.
_IN_MEMORY = "moto[server,s3]==5.2.5"
#: Release of Hadoop -> that of Amazon's SDK in its parent POM. The SDK as a whole has 558 MB; one of its parts that
#: Hadoop needs is not published alone in that version.
_SDK = {"3.4.1": "2.24.6", "3.4.2": "2.29.52", "3.5.0": "2.35.4"}
#: What Hadoop's client loads beside the SDK, since 3.5 also for a file system that does not use it.
_BESIDE = {"3.5.0": ("software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",)}
_JAR = re.compile(r"(?:hadoop-client-api-|spark-core_(?P<scala>[\d.]+)-)(?P<release>[\d.]+)\.jar")
_BUCKET = "groupreplay"
_KEY, _SECRET = "groupreplay", "groupreplay-secret"


class S3Server:
    """A server with one bucket; ``kind`` is ``gateway`` or ``in-memory``."""

    def __init__(self, kind: str, folder: Path) -> None:
        (self._port,) = free_ports(1)
        self._kind, self._log, data = kind, folder / "s3.log", folder / "s3"
        (data / _BUCKET).mkdir(parents=True)
        self._command = {"gateway": _gateway_command, "in-memory": _in_memory_command}[kind](self._port, data)
        self._process: GuardedProcess | None = None

    def start(self) -> None:
        """Starts it, on the same port as before; the gateway has its objects in a folder, and keeps them."""
        self._process = process = GuardedProcess(self._command, self._log)

        def answers() -> bool:
            assert process.exit_code is None, process.tail()
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self._port), timeout=5).close()
                return True
            return False

        wait_until(answers, pause=0.2)
        if self._kind == "in-memory":  # for the gateway a bucket is a folder
            made = urllib.request.Request(f"{self._address}/{_BUCKET}", method="PUT")
            urllib.request.urlopen(made, timeout=60).close()

    def stop(self) -> None:
        """Kills it."""
        if self._process is not None:
            self._process.end(0)

    @property
    def _address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def location(self, name: str) -> str:
        """A folder in the bucket."""
        return f"s3a://{_BUCKET}/{name}"

    def conf(self) -> Mapping[str, str]:
        """What a job needs beside the jars; a real one has its keys from its role, and no endpoint."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self._address,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": _KEY,
            "spark.hadoop.fs.s3a.secret.key": _SECRET,
        }


@contextmanager
def s3_server(kind: str, folder: Path) -> Iterator[S3Server]:
    """Starts a server; skips the test if it cannot be fetched."""
    server = S3Server(kind, folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _gateway_command(port: int, data: Path) -> list[str]:
    # Objects have their attributes in a folder beside: not every file system has extended attributes.
    sidecar = data.with_name("attributes")
    sidecar.mkdir()
    command = [
        str(go_program(_GATEWAY)),
        "--port",
        f"127.0.0.1:{port}",
        "--access",
        _KEY,
        "--secret",
        _SECRET,
    ]
    return [*command, "posix", "--sidecar", str(sidecar), str(data)]


def _in_memory_command(port: int, _: Path) -> list[str]:
    return [str(_in_memory_python()), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]


def s3_jars(*, manager: bool) -> list[Path]:
    """The jars of Hadoop's client, which are fetched once; skips the test if that fails.

    With ``manager`` also Spark's manager of checkpoint files for object stores, which not every release of Spark has on
    Maven Central.
    """
    coordinates = _coordinates(manager=manager)
    folder = _cache("s3-jars", coordinates)
    wanted = [Coordinate.parse(text) for text in coordinates]
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as staging:
            try:
                place = retrieve(Path(staging), [], wanted, settings=None, progress=lambda *_: None)
            except GroupReplayError as error:
                pytest.skip(f"Hadoop's client of S3 could not be fetched: {error}")
            _publish(place, folder)
    return [folder / one.place for one in wanted]


def _coordinates(*, manager: bool) -> tuple[str, ...]:
    """Hadoop's client and Spark's manager of checkpoint files, of the releases in this pyspark, and the SDK of both."""
    found = [
        match
        for jar in sorted((SPARK_HOME / "jars").iterdir())
        if (match := _JAR.fullmatch(jar.name)) is not None
    ]
    (hadoop,) = [one["release"] for one in found if one["scala"] is None]
    ((scala, spark),) = [(one["scala"], one["release"]) for one in found if one["scala"] is not None]
    if hadoop not in _SDK:
        pytest.skip(f"it is not known which of Amazon's SDKs fits Hadoop {hadoop}")
    return (
        f"org.apache.hadoop:hadoop-aws:{hadoop}",
        *([f"org.apache.spark:spark-hadoop-cloud_{scala}:{spark}"] if manager else []),
        f"software.amazon.awssdk:bundle:{_SDK[hadoop]}",
        *_BESIDE.get(hadoop, ()),
    )


def _in_memory_python() -> Path:
    """The Python of an environment that has the server, which is made once."""
    folder = _cache("s3-server", _IN_MEMORY)
    python, done = folder / "bin" / "python", folder / "complete"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", _IN_MEMORY]
        installed = subprocess.run(command, capture_output=True, text=True, check=False)
        if installed.returncode:
            pytest.skip(f"{_IN_MEMORY} could not be installed: {installed.stderr}")
        done.touch()
    return python


def _cache(name: str, content: object) -> Path:
    """A folder for this content in the cache of the project."""
    return cache_folder() / f"{name}-{hashlib.sha256(repr(content).encode()).hexdigest()[:8]}"


def _publish(made: Path, folder: Path) -> None:
    """Another test may have been first."""
    try:
        made.rename(folder)
    except OSError:
        assert folder.exists()
