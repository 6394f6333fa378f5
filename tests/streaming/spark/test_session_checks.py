"""What is said about a Spark that does not fit, before the first batch."""

from __future__ import annotations

import importlib.util
import logging
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.local.platforms import LINES, connector_coordinate, connector_line, line_name
from groupreplay.streaming.spark import session_checks as checks
from support.job.spark_sessions import small_session
from support.remedies import read_remedy


def refusal(check: Any, *arguments: object) -> str:
    """What a check says; each is an error of usage."""
    with pytest.raises(GroupReplayError) as error:
        check(*arguments)
    assert error.value.exit_code is ExitCode.USAGE
    return str(error.value)


@pytest.mark.parametrize(
    ("release", "said"),
    [
        (
            "3.4.4",
            "Spark 3.4.4 is not supported: use one of these lines of Spark: 3.5, 4.0, 4.1, 4.2, or a newer one",
        ),
        (
            "2.4.8",
            "Spark 2.4.8 is not supported: use one of these lines of Spark: 3.5, 4.0, 4.1, 4.2, or a newer one",
        ),
    ],
)
def test_an_older_line_is_refused(monkeypatch: pytest.MonkeyPatch, release: str, said: str) -> None:
    """With the lines that are supported."""
    monkeypatch.setattr(pyspark, "__version__", release)
    assert refusal(checks.need_pyspark) == said
    (lines,) = read_remedy("streaming.spark.session_checks: use one of these lines of Spark", said)
    for line in lines.split(", "):
        monkeypatch.setattr(pyspark, "__version__", f"{line}.1")
        assert checks.need_pyspark() == f"{line}.1"


def test_a_newer_line_is_tried_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The job goes on with Spark's public interface."""
    monkeypatch.setattr(pyspark, "__version__", "4.7.0")
    with caplog.at_level(logging.WARNING):
        assert checks.need_pyspark() == "4.7.0"
    assert [one.getMessage() for one in caplog.records] == [
        "the job was not tested with Spark 4.7.0, which is newer than 4.2: it uses Spark's public interface only, "
        "which takes several times the CPU time for each group; pip install 'pyspark==4.2.*' for the faster way"
    ]


def test_spark_3_5_needs_distutils(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.12 has none; pyspark itself would fail in the first task, with an ImportError."""
    find = importlib.util.find_spec
    monkeypatch.setattr(pyspark, "__version__", "3.5.7")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "distutils" else find(name))
    said = refusal(checks.need_pyspark)
    assert said.startswith("pyspark 3.5.7 needs the module distutils")
    assert said.endswith("pip install setuptools, which provides it")


@pytest.mark.parametrize("name", ["SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"])
def test_spark_connect_is_refused_before_a_server_is_sought(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The environment asks for it; a value that is empty or 0 does not."""
    for value in ("", "0"):
        monkeypatch.setenv(name, value)
        checks.need_no_connect()
    monkeypatch.setenv(name, "sc://nowhere:15002")
    assert refusal(checks.need_no_connect) == (
        "this is a session of Spark Connect, and the job needs a classic one: it reads the folder of its checkpoint "
        f"and starts its workers through Spark's JVM ({name}=sc://nowhere:15002): unset {name}"
    )
    assert read_remedy("streaming.spark.session_checks: unset", refusal(checks.need_no_connect)) == [name]
    monkeypatch.delenv(name)
    checks.need_no_connect()


def test_a_session_of_spark_connect_is_refused() -> None:
    """Known by the package of its class; platforms open one without a variable."""
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    assert refusal(checks.need_classic, remote).startswith("this is a session of Spark Connect")


@pytest.mark.parametrize(("spark", "fits"), [("4.0.3", True), ("4.0.0-amzn-2", True), ("3.5.7", False)])
def test_pyspark_and_spark_are_of_one_line(spark: str, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """SPARK_HOME may name another Spark than the one that pip has installed."""
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    session: Any = SimpleNamespace(version=spark)
    if fits:
        checks.need_same_release(session, "4.0.0")
        return
    assert refusal(checks.need_same_release, session, "4.0.0") == (
        "pyspark 4.0.0 talks to Spark 3.5.7 (SPARK_HOME=/opt/spark): "
        "use one line for both: pip install 'pyspark==3.5.*', or unset SPARK_HOME"
    )
    (line, *_) = re.findall(r"pyspark==([\d.]+)\.\*", refusal(checks.need_same_release, session, "4.0.0"))
    read_remedy(
        "streaming.spark.session_checks: use one line for both",
        refusal(checks.need_same_release, session, "4.0.0"),
    )
    checks.need_same_release(session, f"{line}.1")


@pytest.mark.parametrize(
    ("jar", "said"),
    [
        ("spark-sql-kafka-0-10_2.13-4.1.2.jar", None),
        ("spark-sql-kafka-0-10_2.13-4.1.0-amzn-1.jar", None),
        ("databricks-kafka--shaded.jar", None),
        (
            "org.apache.spark_spark-sql-kafka-0-10_2.12-4.1.2.jar",
            "the Kafka connector is made for Scala 2.12, and this Spark 4.1.2 runs on Scala 2.13",
        ),
        (
            "spark-sql-kafka-0-10_2.13-3.5.7.jar",
            "the Kafka connector is made for Spark 3.5.7, and this is Spark 4.1.2",
        ),
    ],
)
def test_the_connector_is_known_by_its_jar(jar: str, said: str | None) -> None:
    """Maven's names tell Scala and release; another name tells nothing."""
    source = f"(file:/jars/{jar} <no signer certificates>)"
    assert checks._wrong_connector(source, "4.1.2", "2.13") == said


@pytest.mark.parametrize(("connector", "fits"), [("4.3.0", True), ("4.2.0", True), ("4.1.2", False)])
def test_a_later_line_runs_with_the_newest_connector(connector: str, fits: bool) -> None:
    """Spark 4.3 takes its own, and that of 4.2, with which it was run."""
    source = f"(file:/jars/spark-sql-kafka-0-10_2.13-{connector}.jar <no signer certificates>)"
    assert (checks._wrong_connector(source, "4.3.0", "2.13") is None) is fits


DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}
BOUNDED = {"spark.executor.memoryOverhead": "2g"}


@pytest.mark.parametrize(
    ("conf", "fixes"),
    [
        ({**DYNAMIC, "spark.locality.wait": "0s"}, []),
        ({"spark.master": "local[4]", **DYNAMIC}, []),
        ({"spark.master": "spark://h:7077"}, []),
        ({"spark.master": "spark://h:7077", **DYNAMIC}, ["set spark.dynamicAllocation.enabled=false"]),
        ({"spark.master": "yarn", **BOUNDED, "spark.locality.wait": "0"}, ["leave out spark.locality.wait"]),
        ({"spark.master": "yarn", **BOUNDED, "spark.locality.wait": "3s"}, []),
        ({"spark.master": "yarn"}, ["set spark.executor.memoryOverhead=2g"]),
        ({"spark.master": "k8s://https://h", "spark.kubernetes.memoryOverheadFactor": "0.4"}, []),
    ],
)
def test_settings_that_cost_more(conf: dict[str, str], fixes: list[str]) -> None:
    """Each on a cluster alone, with the setting that ends it."""
    assert [fix.partition(" and ")[0] for _, fix in checks.costly_settings(conf)] == fixes


@pytest.mark.spark
def test_the_jobs_own_session_passes_every_check() -> None:
    """The connector of ``jars.json`` is found in the real JVM, by its real jar."""
    spark = small_session()
    checks.need_classic(spark)
    checks.need_same_release(spark, pyspark.__version__)
    checks.need_connector(spark)


@pytest.mark.spark
def test_a_manager_of_checkpoint_files_that_cannot_be_loaded() -> None:
    """A class of Spark itself can be; one from a jar that is missing, or of another release, is named."""
    spark, setting = small_session(), "spark.sql.streaming.checkpointFileManagerClass"
    package, manager = "org.apache.spark.internal.io.cloud", "AbortableStreamBasedCheckpointFileManager"
    try:
        checks.need_file_manager(spark)
        spark.conf.set(setting, "org.apache.spark.sql.SparkSession")
        checks.need_file_manager(spark)
        spark.conf.set(setting, f"{package}.{manager}")
        with pytest.raises(GroupReplayError) as refused:
            checks.need_file_manager(spark)
    finally:
        spark.conf.unset(setting)
    read_remedy("streaming.spark.session_checks: it has to be of this Spark's release", str(refused.value))
    checks.need_file_manager(spark)
    scala = connector_line(pyspark.__version__).scala  # type: ignore[union-attr]
    assert str(refused.value) == (
        f"Spark cannot load {package}.{manager} (java.lang.ClassNotFoundException: {package}.{manager}) ({setting}): "
        f"it has to be of this Spark's release: for S3 add org.apache.spark:spark-hadoop-cloud_{scala}:"
        f"{pyspark.__version__} to --packages; or leave out the setting"
    )


#: Starts a JVM with these jars, and asks for the connector.
_OTHER_JARS = """
import sys
from pyspark.sql import SparkSession
from groupreplay.streaming.local.jars import jar_paths
from groupreplay.streaming.spark.session_checks import need_connector
from groupreplay.streaming.base.errors import GroupReplayError
jars = ",".join(map(str, jar_paths(sys.argv[1]))) if sys.argv[1] else ""
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = (builder.config("spark.jars", jars) if jars else builder).getOrCreate()
try:
    need_connector(spark)
except GroupReplayError as error:
    print(f"SAID {error}")
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("has_jars", [False, True])
def test_a_real_jvm_with_other_jars(has_jars: bool) -> None:
    """Without a connector, and with the one of another line (3.5: also of another Scala), which Spark would load."""
    other = next(one for one in LINES if one.name != line_name(pyspark.__version__))
    jars = other.jar_set if has_jars else ""
    done = subprocess.run(
        [sys.executable, "-c", _OTHER_JARS, jars], capture_output=True, text=True, timeout=240, check=False
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("SAID")]
    release = pyspark.__version__
    line = connector_line(release)
    assert line is not None
    fix = f"start it with: spark-submit --packages {connector_coordinate(release)} ..."
    if not jars:
        what = "this Spark has no Kafka connector"
    elif line.scala != other.scala:
        what = (
            f"the Kafka connector is made for Scala {other.scala}, "
            f"and this Spark {release} runs on Scala {line.scala}"
        )
    else:
        what = f"the Kafka connector is made for Spark {other.connector}, and this is Spark {release}"
    assert said == [f"SAID {what}: {fix}"], done.stderr[-2000:]


@pytest.mark.parametrize(("release", "warned"), [("4.2.1", False), ("4.1.99", True), ("4.3.0", False)])
def test_a_pair_that_was_not_run(release: str, warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A warning with both releases; of a newer line another one speaks."""
    checks.warn_of_untried_pair(release)
    text = "pyspark 4.1.99 was not run with the Kafka connector 4.1.2; it was run with pyspark 4.1.2, 4.1.4"
    assert caplog.messages == [text] * warned
