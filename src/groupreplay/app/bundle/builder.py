"""Makes the archive and ``job.py``, and the command lines of ``spark-submit`` for them."""

from __future__ import annotations

import errno
import inspect
import json
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from groupreplay.app.bundle import submitted_program
from groupreplay.app.bundle.archive import (
    ArchiveFile,
    BundleTarget,
    SparkRelease,
    Wheel,
    download_wheels,
    package_files,
    text_file,
    wheel_files,
    write_archive,
)
from groupreplay.app.bundle.submitted_program import FOLDER
from groupreplay.streaming.base.errors import GroupReplayError, unusable
from groupreplay.streaming.base.files import atomic_file, require_new
from groupreplay.streaming.spark.session import submitted_conf
from groupreplay.version import __version__

DeployMode = Literal["client", "cluster"]
#: The name of the program beside the archive.
PROGRAM: Final = "job.py"
#: Where executors find the libraries: Spark unpacks archives in the folder in which it starts them.
_EXECUTOR_PATH: Final = f"./{FOLDER}"
_RUN: Final = (
    *("run", "--bootstrap-server", "broker:9092", "--command-config", "client.properties"),
    *("--checkpoint", "hdfs:///groupreplay/checkpoint"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """How an archive is submitted: ``archive`` is its name, in the folder in which ``spark-submit`` starts."""

    spark: SparkRelease
    target: BundleTarget
    archive: str

    @property
    def conf(self) -> Mapping[str, str]:
        """The settings that a JVM or an executor reads at its start."""
        return {
            "spark.pyspark.python": f"python{self.target.python}",
            "spark.executorEnv.PYTHONPATH": _EXECUTOR_PATH,
            **submitted_conf(),
        }

    def options(self, master: str, mode: DeployMode) -> list[tuple[str, str]]:
        """The options of ``spark-submit`` in front of ``job.py``, as (name, value)."""
        return [
            ("--master", master),
            ("--deploy-mode", mode),
            ("--packages", self.spark.connector),
            ("--archives", f"{self.archive}#{FOLDER}"),
            *([("--files", "client.properties")] if mode == "cluster" else []),
            *(("--conf", f"{name}={value}") for name, value in self.conf.items()),
        ]

    def command(self, master: str, mode: DeployMode, arguments: Sequence[str] = _RUN) -> str:
        """The whole command for a shell, in several lines."""
        options = [f"  {name} {shlex.quote(value)}" for name, value in self.options(master, mode)]
        return " \\\n".join(["spark-submit", *options, f"  {PROGRAM} {shlex.join(arguments)}"])

    @property
    def unpack(self) -> str:
        """The command for a shell that gives the libraries to a driver on this machine."""
        archive = shlex.quote(self.archive)
        return f"rm -rf {FOLDER} && mkdir {FOLDER} && tar -xzf {archive} -C {FOLDER}"

    @property
    def script(self) -> str:
        """What ``groupreplay bundle`` prints: comments and commands for a shell."""
        release = f"Spark {self.spark.release} (Scala {self.spark.scala})"
        advice = (
            [] if self.spark.exact else ["# If your Spark is another release of this line, name it: --spark"]
        )
        return "\n".join(
            [
                f"# groupreplay {__version__} for {release}, Python {self.target.python}, Linux on "
                f"{self.target.machine}",
                *advice,
                "# Kafka's connector of this release:",
                f"#   --packages {self.spark.connector}",
                "",
                "# The driver on this machine (YARN, Kubernetes, standalone): unpack the archive for it.",
                self.unpack,
                self.command("yarn", "client"),
                "",
                "# Or the driver on the cluster (YARN, Kubernetes):",
                self.command("yarn", "cluster"),
                "",
            ]
        )


#: Python 3.12 has no distutils, and pyspark 3.5 compares versions with it.
_DISTUTILS: Final = {
    "distutils/__init__.py": "",
    "distutils/version.py": "from packaging.version import Version as LooseVersion  # noqa: F401\n",
}
_METADATA: Final = (
    f"Metadata-Version: 2.4\nName: groupreplay\nVersion: {__version__}\nLicense-Expression: Apache-2.0\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What was made: the archive, ``job.py`` beside it, how to submit both, and the wheels in the archive."""

    archive: Path
    program: Path
    submission: Submission
    wheels: tuple[str, ...]


def build_bundle(archive: Path, spark: SparkRelease, target: BundleTarget, *, force: bool = False) -> Bundle:
    """Writes the archive and, beside it, ``job.py``.

    The archive contains the groupreplay that runs now and wheels of its libraries, which pip downloads. It holds no
    interpreter: it is used with the platform's Python of the same version, by PYTHONPATH. So it can be made for another
    Python and another machine than this one.

    Args:
        archive: the ``.tar.gz`` file.
        spark: from ``spark_release``.
        target: from ``bundle_target``.
        force: replace files that exist.

    Raises:
        GroupReplayError: a file exists or cannot be written; see also ``download_wheels``.
    """
    program = archive.with_name(PROGRAM)
    if not archive.name.endswith(".tar.gz"):
        fix = "give it a name that ends with .tar.gz"
        raise unusable("Spark cannot unpack an archive of this name", archive, fix)
    require_new([archive, program], force=force)
    try:
        with tempfile.TemporaryDirectory(prefix="groupreplay-bundle-") as folder, ExitStack() as opened:
            wheels = download_wheels(spark.requirements, target, Path(folder))
            files = _files(wheels, spark, target, opened)
            archive.parent.mkdir(parents=True, exist_ok=True)
            write_archive(archive, files)
        with atomic_file(program, force=force) as file:
            file.write(inspect.getsource(submitted_program))
    except OSError as error:
        raise _not_written(archive, error) from None
    return Bundle(
        archive=archive,
        program=program,
        submission=Submission(spark=spark, target=target, archive=archive.name),
        wheels=tuple(wheel.path.name for wheel in wheels),
    )


def _not_written(archive: Path, error: OSError) -> GroupReplayError:
    return GroupReplayError(
        f"the archive could not be written, {error.strerror or error}",
        where=str(error.filename or archive),
        fix="free 200 MB there; as much is needed in the folder for temporary files, which TMPDIR names"
        if error.errno in (errno.ENOSPC, errno.EDQUOT)
        else "name a folder that can be written",
    )


def _files(
    wheels: Sequence[Wheel], spark: SparkRelease, target: BundleTarget, opened: ExitStack
) -> dict[str, ArchiveFile]:
    """Path -> file of the whole archive."""
    about = {
        "groupreplay": __version__,
        "spark": spark.line,
        "python": target.python,
        "platform": target.machine,
        "wheels": [wheel.path.name for wheel in wheels],
    }
    files = {path: file for wheel in wheels for path, file in wheel_files(wheel, opened)}
    files |= dict(package_files())
    files[f"groupreplay-{__version__}.dist-info/METADATA"] = text_file(_METADATA)
    files[submitted_program.ABOUT] = text_file(json.dumps(about, indent=2) + "\n")
    if spark.line == "3.5" and target.python == "3.12":
        files |= {path: text_file(text) for path, text in _DISTUTILS.items()}
    return files
