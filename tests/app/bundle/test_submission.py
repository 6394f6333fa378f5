"""``app/bundle/submission.py``."""

from __future__ import annotations

import importlib.util
import shlex

import pytest

from groupreplay.app.bundle.lines import spark_release
from groupreplay.app.bundle.submission import Submission
from groupreplay.app.bundle.target import BundleTarget
from groupreplay.streaming.spark.session import _JVM_CONF
from support.job.captures import parsed

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
