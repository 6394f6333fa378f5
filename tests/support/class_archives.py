"""Archives of classes for the JVMs of tests, which start in half the time with them (Java's class data sharing).

``python -m support.class_archives`` in tests/ makes them once for an environment, by a broker and a job that read one
group; ``make test`` does so. Without them, or with other jars, the JVMs start as slowly as ever.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest

from groupreplay.streaming.local.broker import DEFAULT_VERSION, EmbeddedBroker

#: Tests end before the second compiler and parallel collectors pay off.
SHORT_LIVED: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
#: A JVM that cannot use its archive goes on without it, and says nothing.
_SILENT: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
_FOLDER: Final = Path(sys.prefix) / "class-archives"
BROKER: Final = _FOLDER / f"broker-{DEFAULT_VERSION}.jsa"
SPARK: Final = _FOLDER / f"spark-{version('pyspark')}.jsa"


def options(archive: Path) -> tuple[str, ...]:
    """JVM options that use the archive, if there is one."""
    return (f"-XX:SharedArchiveFile={archive}", *_SILENT) if archive.exists() else ()


def main() -> None:
    """Makes both archives, or does nothing; without them the tests only take longer."""
    if BROKER.exists() and SPARK.exists():
        return
    sys.stdout.write("making archives of JVM classes for the tests (once; half a minute)\n")
    sys.stdout.flush()
    _FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FOLDER) as name:
        folder = Path(name)
        command = [sys.executable, "-m", "support.class_archives", name]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=600
        )
        if done.returncode or not all((folder / one.name).exists() for one in (BROKER, SPARK)):
            sys.stdout.write(f"{done.stdout}no archives, the tests take longer\n")
            return
        for archive in (BROKER, SPARK):
            (folder / archive.name).replace(archive)


def train(folder: Path) -> None:
    """A job reads one group of a broker; both JVMs write their archives into the folder when they end."""
    from support.job.jobs import topic_names
    from support.job.own_process import keep_session, run_here
    from support.kafka.clients import commit_once, make_topics

    def written(archive: Path) -> tuple[str, ...]:
        return (f"-XX:ArchiveClassesAtExit={folder / archive.name}", *_SILENT)

    os.environ["SPARK_SUBMIT_OPTS"] = " ".join((*SHORT_LIVED, *written(SPARK)))
    with EmbeddedBroker(jvm_options=written(BROKER)) as broker, pytest.MonkeyPatch.context() as patch:
        make_topics(broker.bootstrap_servers, {"orders": 1})
        commit_once(broker.bootstrap_servers, "g")
        keep_session(patch)
        run_here(broker.bootstrap_servers, folder / "checkpoint", topic_names("archives"), once=True)
        broker.stop()
    _end_session()


def _end_session() -> None:
    """Unlike the job's own end it waits until the JVM has written its archive."""
    from groupreplay.streaming.spark.internals.jvm import jvm_process
    from support.job.spark_sessions import small_session

    jvm = jvm_process(small_session())
    small_session().stop()
    assert jvm is not None
    assert jvm.stdin is not None
    jvm.stdin.close()
    jvm.wait(120)


if __name__ == "__main__":
    train(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
