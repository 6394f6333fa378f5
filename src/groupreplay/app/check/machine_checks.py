"""Checks of this machine: Java, versions of libraries, and the checkpoint folder."""

from __future__ import annotations

import platform
import re
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from groupreplay.app.check import CheckResult, Subject, failed, ok, unknown, warning
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, missing_packages
from groupreplay.streaming.local.platforms import NEWEST, find_line, javas_of
from groupreplay.streaming.run import identity
from groupreplay.streaming.spark import checkpoint as checkpoints
from groupreplay.streaming.spark.checkpoint_files import holder_of, in_folder, refuse_damage
from groupreplay.streaming.spark.internals.jvm import submitted_settings
from groupreplay.streaming.spark.session import DAEMON, WITHOUT_DAEMON
from groupreplay.streaming.spark.session_checks import costly_settings, has_python_sources, is_local
from groupreplay.version import __version__

_DAEMON_FIX: Final = f"with groupreplay in the archive (groupreplay bundle), set {'='.join(DAEMON)}"
#: Packages whose version is checked against the requirements in this package's metadata.
_PACKAGES: Final = ("pyspark", "pandas", "pyarrow", "confluent-kafka")


def java(_: Subject) -> Sequence[CheckResult]:
    """The Java that ``run`` would start; with spark-submit the cluster's Java is used instead."""
    from groupreplay.streaming.local.platforms import find_java

    java_home = find_java(javas_of(_version("pyspark")))
    return [ok("java", f"Java {java_home.version} ({java_home.source}): {java_home.home}")]


def spark(_: Subject) -> Sequence[CheckResult]:
    """What the settings of this spark-submit cost, where that is more than needed."""
    conf = submitted_settings()
    advice, master = costly_settings(conf), conf.get("spark.master", "local")
    if DAEMON[0] not in conf and not is_local(master):
        advice.append((f"{DAEMON[0]} is not set: {WITHOUT_DAEMON}", _DAEMON_FIX))
    if not advice:
        return [ok("spark", f"the settings for {master} cost nothing that can be spared")]
    return [warning("spark", what, fix) for what, fix in advice]


def versions(_: Subject) -> Sequence[CheckResult]:
    """The versions of required packages, compared with those that this release supports."""
    from groupreplay.streaming.local.ivy import JarError
    from groupreplay.streaming.local.jars import locked_jars

    installed = {name: version for name in _PACKAGES if (version := _version(name)) is not None}
    listed = ", ".join(f"{name} {version}" for name, version in installed.items())
    listed = f"groupreplay {__version__}, Python {platform.python_version()}, {listed}"
    wrong = [f"{name} {version}" for name, version in installed.items() if not _fits(name, version)]
    if wrong:
        fix = "pip install --upgrade 'groupreplay[kafka,spark]'"
        return [warning("versions", f"{', '.join(wrong)} was not tested with this release; {listed}", fix)]
    try:
        locked_jars("spark-connector")
    except JarError as error:
        if "pyspark" not in installed:
            fix = f"{error.fix} (on a cluster: use the platform's Spark)"
            return [failed("versions", GroupReplayError(error.what, fix=fix, exit_code=ExitCode.USAGE))]
        return [warning("versions", f"{error.what}; {listed}", str(error.fix))]
    return [_versions_of_spark(installed["pyspark"], listed)]


def _versions_of_spark(release: str, listed: str) -> CheckResult:
    """What this pyspark makes of the job, with the libraries that read the log for it."""
    line = find_line(release)
    if line is None:
        what = (
            f"with pyspark {release} the job uses Spark's public interface only, which takes several times the CPU "
            f"time for each group; {listed}"
        )
        return warning("versions", what, f"pip install 'pyspark=={NEWEST.name}.*'")
    if not line.was_run(release):
        what = f"pyspark {release} was not run with the Kafka connector {line.connector}; {listed}"
        return warning("versions", what, f"pip install 'pyspark=={line.run_with[-1]}', with which it was run")
    if (missing := missing_packages("logs")) and has_python_sources():
        what = (
            f"{missing[0]} is not installed: Spark's Kafka connector reads the log, which takes two and a half times "
            f"as long as groupreplay's own source; {listed}"
        )
        return warning("versions", what, "pip install 'groupreplay[logs]'")
    return ok("versions", listed)


def checkpoint(subject: Subject) -> Sequence[CheckResult]:
    """Whether the folder is writable, unused, and belongs to this cluster and these topics."""
    location = str(subject.settings.checkpoint)
    address = urlsplit(location)
    if address.scheme not in ("", "file"):
        return [unknown("checkpoint", f"{location}: not a local folder; the job checks it when it starts")]
    folder = Path(address.path)
    if not folder.exists():
        _try_to_write(_nearest(folder))
        return [
            ok("checkpoint", f"{folder} will be created: a first start, which emits no events of the past")
        ]
    _try_to_write(folder)
    if holder := holder_of(folder):
        fix = "let that job run, or stop it before starting another one with this checkpoint"
        return [warning("checkpoint", f"{folder} is in use: {holder}", fix)]
    belongs = _belongs(_latest(folder), subject)
    others = checkpoints.writable_by_others(folder)
    return [belongs] if others is None else [belongs, warning("checkpoint", *others)]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _fits(package: str, version: str) -> bool:
    """Whether a version satisfies this package's requirement."""
    needed = next((text for text in metadata.requires("groupreplay") or () if _name(text) == package), "")
    bounds = re.findall(r"(>=|<|==)([\d.]+)", needed.partition(";")[0])
    numbers = _numbers(version)
    tests = {">=": numbers.__ge__, "<": numbers.__lt__, "==": numbers.__eq__}
    return all(tests[sign](_numbers(bound)) for sign, bound in bounds)


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _nearest(folder: Path) -> Path:
    """The folder itself, or its nearest parent that exists."""
    return next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())


def _try_to_write(folder: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise GroupReplayError(
            f"the checkpoint folder is not writable: {error.strerror}",
            where=str(folder),
            fix="give this user the permission to write there, or choose another --checkpoint",
            exit_code=ExitCode.USAGE,
        ) from None


def _latest(folder: Path) -> Path:
    """The subfolder in which the state was last rebuilt; otherwise the folder itself."""
    inside = [file.parent for file in folder.glob(f"{checkpoints.ANEW}-*/{identity.IDENTITY_FILE}")]
    return max(inside, key=lambda subfolder: _numbers(subfolder.name), default=folder)


def _belongs(folder: Path, subject: Subject) -> CheckResult:
    """Whether an existing checkpoint belongs to this cluster and these topics.

    Raises:
        GroupReplayError: it belongs to others, or it is damaged.
    """
    path = folder / identity.IDENTITY_FILE
    stored = identity.decode_identity(path.read_bytes(), str(path)) if path.exists() else None
    refuse_damage(stored, str(folder), in_folder(folder))
    if stored is None:
        return ok("checkpoint", f"{folder} is empty: a first start, which emits no events of the past")
    topic = subject.offsets_topic
    wanted = identity.Identity(
        cluster_id=topic.cluster_id,
        era=topic.era,
        partitions=topic.partitions,
        probes=f"{subject.sink.cluster_id()}/{subject.settings.topics.probes}",
        first_start_ms=0,
    )
    identity.check_identity(stored, wanted, str(folder))
    if (stored.era, stored.partitions) != (topic.era, topic.partitions):
        return warning(
            "checkpoint",
            f"{folder} was made with another offsets topic id, or another number of its partitions",
            "start the job: it emits job.gap and rebuilds its state",
        )
    return ok(
        "checkpoint",
        f"{folder} belongs to this cluster and topic, topic id {stored.era}; made by release {stored.version}",
    )


def pages(subject: Subject) -> Sequence[CheckResult]:
    """Who can read what ``serve`` answers on its address.

    Raises:
        GroupReplayError: the file of the token cannot be used, or ``serve`` would refuse to start without one.
    """
    from groupreplay.app.serve.guard import is_loopback, need_token

    settings = subject.settings
    assert settings.listen is not None
    host, port = settings.listen
    token = need_token(host, settings.auth_token_file)
    closed = "pages and API need the token" if token else "pages and API need no token"
    if is_loopback(host):
        return [ok("pages", f"only this machine reaches {host}:{port}; {closed}")]
    what = f"everybody who reaches {host}:{port} can read /metrics, /healthz and /readyz without a token; {closed}"
    fix = "metrics name every group: allow only Prometheus to connect, by a network policy or in a proxy"
    return [warning("pages", what, fix)]
