"""The command lines of ``spark-submit`` for an archive."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from groupreplay import __version__
from groupreplay.app.bundle.lines import SparkRelease
from groupreplay.app.bundle.submitted_program import FOLDER
from groupreplay.app.bundle.target import BundleTarget
from groupreplay.streaming.spark.session import submitted_conf

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
        given = (
            [] if self.spark.exact else ["# If your Spark is another release of this line, name it: --spark"]
        )
        return "\n".join(
            [
                f"# groupreplay {__version__} for {release}, Python {self.target.python}, Linux on "
                f"{self.target.machine}",
                *given,
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
