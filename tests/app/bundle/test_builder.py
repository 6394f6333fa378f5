"""``app/bundle/builder.py``."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import groupreplay
from groupreplay.app.bundle import builder, submitted_program
from groupreplay.app.bundle.archive import LIBRARIES, BundleTarget, Wheel, package_files, spark_release
from groupreplay.app.bundle.builder import Bundle, Submission, build_bundle
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.spark.session import _JVM_CONF
from support.job.captures import parsed
from support.tools.small_wheels import small_wheel

SUBMISSION = Submission(
    spark=spark_release("3.5.4"), target=BundleTarget("3.11", "x86_64"), archive="my env.tar.gz"
)


def test_executors_get_what_they_read_at_their_start() -> None:
    """Python, libraries and daemon; the settings of our own JVM, except its web interface, which is the cluster's."""
    conf = dict(SUBMISSION.conf)
    module = conf.pop("spark.python.daemon.module")
    assert importlib.util.find_spec(module) is not None
    assert conf == {
        "spark.pyspark.python": "python3.11",
        "spark.executorEnv.PYTHONPATH": "./environment",
        **{name: value for name, value in _JVM_CONF.items() if name != "spark.ui.enabled"},
        # Executors that stay, with room for RocksDB and the Python workers.
        "spark.dynamicAllocation.enabled": "false",
        "spark.driver.memoryOverhead": "1g",
        "spark.executor.memoryOverhead": "2g",
    }


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_the_command_is_what_a_shell_reads(mode: str) -> None:
    """Quoted and in several lines, the words are those of ``options`` and of a valid command of groupreplay."""
    assert mode in {"client", "cluster"}
    options = SUBMISSION.options("yarn", "client" if mode == "client" else "cluster")
    command = SUBMISSION.command("yarn", "client" if mode == "client" else "cluster")
    words = shlex.split(command.replace("\\\n", " "))
    at = words.index("job.py")
    assert words[:at] == ["spark-submit", *(word for option in options for word in option)]
    assert parsed(words[at + 1 :]).info_name == "run"
    named = [(name, value) for name, value in options if name != "--conf"]
    assert named == [
        ("--master", "yarn"),
        ("--deploy-mode", mode),
        ("--packages", "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.4"),
        ("--archives", "my env.tar.gz#environment"),
        # A driver on another machine needs the properties file, too.
        *([("--files", "client.properties")] if mode == "cluster" else []),
    ]


def test_the_script_is_for_a_shell() -> None:
    """Comments apart, it is the unpacking and both commands; a release that was guessed is said to be one."""
    lines = [line for line in SUBMISSION.script.splitlines() if line and not line.startswith("#")]
    assert "\n".join(lines) == "\n".join(
        [SUBMISSION.unpack, SUBMISSION.command("yarn", "client"), SUBMISSION.command("yarn", "cluster")]
    )
    assert SUBMISSION.unpack == (
        "rm -rf environment && mkdir environment && tar -xzf 'my env.tar.gz' -C environment"
    )
    assert "#   --packages org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.4\n" in SUBMISSION.script
    guess = "# If your Spark is another release of this line, name it: --spark"
    line_only = Submission(spark=spark_release("3.5"), target=SUBMISSION.target, archive="a.tar.gz")
    assert (guess in SUBMISSION.script, guess in line_only.script) == (False, True)


TARGET = BundleTarget("3.12", "x86_64")


@pytest.fixture(autouse=True)
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Wheel]:
    """Small wheels in place of those that pip downloads; ``tests/app/bundle/test_archive.py`` has pip."""
    compare = {"packaging/__init__.py": "", "packaging/version.py": "Version = float\n"}
    made = [
        Wheel(small_wheel(tmp_path / "index", name, files=files), name, "1.0", ())
        for name, files in (("numpy", None), ("packaging", compare))
    ]

    def download(requirements: Sequence[str], target: BundleTarget, folder: Path) -> list[Wheel]:
        assert all(one in LIBRARIES for one in (re.split("[<>=]", text)[0] for text in requirements))
        assert folder.is_dir()
        return made

    monkeypatch.setattr(builder, "download_wheels", download)
    return made


def contents(archive: Path) -> Mapping[str, bytes]:
    """Path -> content of each file of the archive."""
    with tarfile.open(archive) as opened:
        return {one.name: opened.extractfile(one).read() for one in opened}  # type: ignore[union-attr]


def test_the_archive_and_the_program(tmp_path: Path) -> None:
    """The archive has groupreplay, its libraries and what it was made for, and no pyspark; job.py is beside it."""
    spark = spark_release("3.5.4")
    made = build_bundle(tmp_path / "out" / "env.tar.gz", spark, TARGET)
    names = ["numpy-1.0-py3-none-any.whl", "packaging-1.0-py3-none-any.whl"]
    assert made == Bundle(
        archive=tmp_path / "out" / "env.tar.gz",
        program=tmp_path / "out" / "job.py",
        submission=Submission(spark=spark, target=TARGET, archive="env.tar.gz"),
        wheels=tuple(names),
    )
    found = contents(made.archive)
    assert {place: file.read() for place, file in package_files()}.items() <= found.items()
    assert json.loads(found[submitted_program.ABOUT]) == {
        "groupreplay": groupreplay.__version__,
        "spark": "3.5",
        "python": "3.12",
        "platform": "x86_64",
        "wheels": names,
    }
    assert found["numpy.py"] == b"VERSION = '1.0'\n"
    assert [place for place in found if "pyspark" in place.split("/")[0]] == []
    assert made.program.read_bytes() == Path(submitted_program.__file__).read_bytes()
    assert sorted(os.listdir(tmp_path / "out")) == ["env.tar.gz", "job.py"]


def test_a_substitute_for_distutils(tmp_path: Path) -> None:
    """Only Spark 3.5 on Python 3.12 gets it; pyspark's comparisons work with it."""
    bundled = {}
    for line, python in (("3.5", "3.11"), ("3.5", "3.12"), ("4.0", "3.12")):
        made = build_bundle(
            tmp_path / line / python / "env.tar.gz", spark_release(line), BundleTarget(python, "x86_64")
        )
        bundled[line, python] = {
            place: text for place, text in contents(made.archive).items() if place.startswith("distutils/")
        }
    assert {target: bool(files) for target, files in bundled.items()} == {
        ("3.5", "3.11"): False,
        ("3.5", "3.12"): True,
        ("4.0", "3.12"): False,
    }
    for place, text in bundled["3.5", "3.12"].items():
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_bytes(text)
    compare = (
        "import warnings; warnings.simplefilter('ignore'); from distutils.version import LooseVersion as V; "
        "print(V('2.3') < V('1.0'), V('25.1') >= V('4.0'))"
    )
    command = [sys.executable, "-c", compare]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "SETUPTOOLS_USE_DISTUTILS": "stdlib"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    """Two archives of the same wheels are equal, wherever they are made."""
    made = [build_bundle(tmp_path / name / "e.tar.gz", spark_release("4.2"), TARGET) for name in ("a", "b")]
    assert made[0].archive.read_bytes() == made[1].archive.read_bytes()


@pytest.mark.parametrize("existing", ["env.tar.gz", "job.py"])
def test_an_existing_file_is_kept(tmp_path: Path, existing: str) -> None:
    """Neither file is replaced without ``force``."""
    (tmp_path / existing).write_text("of somebody else")
    with pytest.raises(GroupReplayError) as failed:
        build_bundle(tmp_path / "env.tar.gz", spark_release("4.2"), TARGET)
    assert (str(failed.value), failed.value.exit_code) == (
        f"the file exists ({tmp_path / existing}): choose another name or folder, or replace it with --force",
        ExitCode.USAGE,
    )
    assert (tmp_path / existing).read_text() == "of somebody else"
    build_bundle(tmp_path / "env.tar.gz", spark_release("4.2"), TARGET, force=True)
    assert (tmp_path / existing).read_bytes() != b"of somebody else"


def test_the_name_says_what_spark_has_to_do(tmp_path: Path) -> None:
    """Spark chooses how to unpack an archive by the end of its name."""
    with pytest.raises(GroupReplayError) as failed:
        build_bundle(tmp_path / "env.zip", spark_release("4.2"), TARGET)
    assert str(failed.value) == (
        f"Spark cannot unpack an archive of this name ({tmp_path / 'env.zip'}): give it a name that ends with .tar.gz"
    )


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """The error names the place; another folder is what helps."""
    (tmp_path / "file").touch()
    with pytest.raises(GroupReplayError) as failed:
        build_bundle(tmp_path / "file" / "env.tar.gz", spark_release("4.2"), TARGET)
    assert (failed.value.what, failed.value.where) == (
        "the archive could not be written, File exists",
        str(tmp_path / "file"),
    )
