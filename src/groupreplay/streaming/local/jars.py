"""The jars that the embedded broker and Spark need: downloaded once, and checked against known checksums.

`jars.json` lists the exact files of every set with their sha256. A set is downloaded file by file and never resolved
again, so exactly the files that were checked when the list was made are run. The command
`python -m groupreplay.streaming.local.jars lock` makes the list from the table below.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.files import cache_folder
from groupreplay.streaming.base.status_line import StatusLine, can_redraw
from groupreplay.streaming.local import platforms
from groupreplay.streaming.local.ivy import Coordinate, JarError, JarProgress, retrieve
from groupreplay.streaming.local.platforms import SparkLine

_LOCK_NAME: Final = "jars.json"


@dataclass(frozen=True)
class JarSet:
    """How `lock` finds the jars of one set.

    Attributes:
        closure: coordinates to resolve with all their runtime dependencies.
        alone: coordinates to resolve without dependencies.
        only: artifact names to keep of all these; empty keeps all.
    """

    closure: tuple[str, ...]
    alone: tuple[str, ...] = ()
    only: tuple[str, ...] = ()


def _broker(version: str, *of_tools: str) -> JarSet:
    """A broker and Kafka's own tools, without the web server that kafka-tools depends on.

    ``of_tools``: what else the tools need, where the broker does not.
    """
    return JarSet(
        closure=(f"org.apache.kafka:kafka_2.13:{version}", "net.sourceforge.argparse4j:argparse4j:0.7.0"),
        # The simplest SLF4J binding: the broker logs to stderr, which is redirected to a file.
        alone=(f"org.apache.kafka:kafka-tools:{version}", "org.slf4j:slf4j-simple:1.7.36", *of_tools),
    )


def _schemas(version: str) -> JarSet:
    """The jars with Kafka's own message schemas, which are only read. For tests only."""
    return JarSet(
        closure=(),
        alone=tuple(
            f"org.apache.kafka:{name}:{version}" for name in ("kafka-group-coordinator", "kafka-clients")
        ),
    )


def _connector(line: SparkLine, token_provider: str, kafka: str, pool: str) -> JarSet:
    """Spark's Kafka connector, and its dependencies that pyspark does not include."""
    return JarSet(
        closure=(),
        alone=(
            f"org.apache.commons:commons-pool2:{pool}",
            f"org.apache.kafka:kafka-clients:{kafka}",
            f"org.apache.spark:spark-sql-kafka-0-10_{line.scala}:{line.connector}",
            f"org.apache.spark:spark-token-provider-kafka-0-10_{line.scala}:{token_provider}",
        ),
    )


#: By line: the releases of the connector's dependencies, as its own description names them. Of the token provider the
#: repositories have no release after 4.0.0; the few classes that the connector uses have not changed since.
_CONNECTORS: Final = {
    "3.5": ("3.5.7", "3.4.1", "2.11.1"),
    "4.0": ("4.0.0", "3.9.0", "2.12.0"),
    "4.1": ("4.0.0", "3.9.1", "2.12.1"),
    "4.2": ("4.0.0", "3.9.1", "2.12.1"),
}

SETS: Final[Mapping[str, JarSet]] = {
    **{line.jar_set: _connector(line, *_CONNECTORS[line.name]) for line in platforms.LINES},
    # `kafka-consumer-groups.sh --reset-offsets --export` writes CSV.
    "broker-4.4.0": _broker("4.4.0", "com.fasterxml.jackson.dataformat:jackson-dataformat-csv:2.21.7"),
    "broker-4.3.1": _broker("4.3.1"),
    "broker-3.9.1": _broker("3.9.1"),
    # Used together with the broker's jars. For tests only, of programs without a state store (RocksDB).
    "streams-4.4.0": JarSet(closure=(), alone=("org.apache.kafka:kafka-streams:4.4.0",)),
    # A worker of Kafka Connect, with its web server. For long tests only. The repositories have no connect-file 4.4.0.
    "connect-4.3.1": JarSet(
        closure=("org.apache.kafka:connect-runtime:4.3.1",),
        alone=("org.apache.kafka:connect-file:4.3.1", "org.slf4j:slf4j-simple:1.7.36"),
    ),
    # 4.4.0, 4.3.1 and 3.9.1 are in the brokers' sets; 3.7 has the message bodies that 3.8 changed.
    "schemas-3.7.2": _schemas("3.7.2"),
    "schemas-4.0.0": _schemas("4.0.0"),
    "schemas-4.1.1": _schemas("4.1.1"),
    "schemas-4.2.0": _schemas("4.2.0"),
}


#: The sets that tests use; `fetch` downloads them by default.
_OF_TESTS: Final = ("spark-connector", "broker-4.4.0", "broker-4.3.1", "broker-3.9.1", "streams-4.4.0")


def jar_paths(set_name: str, *, ivy_settings: Path | None = None) -> list[Path]:
    """The files of a set, in the order of the list; downloads only those that are missing or damaged.

    Args:
        set_name: a name of SETS, or "spark-connector" for the one that fits the installed pyspark.
        ivy_settings: an Ivy settings file; None: that of GROUPREPLAY_IVY_SETTINGS, if any.

    Raises:
        JarError: see `locked_jars`; or a file could not be downloaded, or has another checksum.
        JavaNotFoundError: a file must be downloaded, and there is no Java to run Ivy.
    """
    return fetched_jars(set_name, locked_jars(set_name), ivy_settings=ivy_settings)


def fetched_jars(set_name: str, locked: Mapping[str, str], *, ivy_settings: Path | None = None) -> list[Path]:
    """The same for a set that is not in the package's list; ``locked``: coordinate -> sha256 (hex)."""
    wanted = {Coordinate.parse(name): digest for name, digest in locked.items()}
    store = cache_folder() / "jars"
    if _missing(store, wanted):
        with _exclusive(store):
            # Another process may have downloaded them while this one waited for the lock.
            missing = _missing(store, wanted)
            if missing:
                with console_progress(set_name) as progress:
                    _fetch(store, missing, ivy_settings, progress)
    return [store / coordinate.place for coordinate in wanted]


@contextlib.contextmanager
def console_progress(set_name: str) -> Iterator[JarProgress]:
    """Progress on stderr: a renewed line on a terminal, else one line per file."""
    if not can_redraw(sys.stderr):
        yield lambda name, done, total: print(  # noqa: T201
            f"downloading jars of {set_name}: {done}/{total} {name}".rstrip(), file=sys.stderr, flush=True
        )
        return
    line = StatusLine(sys.stderr)
    try:
        yield lambda name, done, total: line.show(
            f"downloading jars of {set_name}: {done}/{total} {name}".rstrip()
        )
    finally:
        line.show("")


def locked_jars(set_name: str) -> dict[str, str]:
    """Coordinate -> sha256 (hex) of every jar of a set, from the list in the package.

    Raises:
        JarError: the set does not exist, or there is none for the installed pyspark.
        GroupReplayError: pyspark is missing.
    """
    if set_name == "spark-connector":
        set_name = _installed_line().jar_set
    lock: dict[str, dict[str, str]] = json.loads(
        resources.files(__package__).joinpath(_LOCK_NAME).read_text(encoding="utf-8")
    )
    if set_name in lock:
        return lock[set_name]
    raise JarError(f"there is no jar set {set_name!r}", where=f"known sets: {', '.join(sorted(lock))}")


def _installed_line() -> SparkLine:
    release = platforms.installed_release()
    line = platforms.connector_line(release)
    if line is None:
        raise JarError(
            f"there is no jar set for the Kafka connector of pyspark {release}",
            where=f"there are sets for Spark {platforms.LINE_NAMES}",
            fix=f"pip install 'pyspark=={platforms.NEWEST.name}.*', or submit the job with "
            f"--packages {platforms.connector_coordinate(release)}",
            exit_code=ExitCode.USAGE,
        )
    return line


def _missing(store: Path, wanted: Mapping[Coordinate, str]) -> dict[Coordinate, str]:
    return {jar: digest for jar, digest in wanted.items() if _sha256(store / jar.place) != digest}


def _sha256(path: Path) -> str | None:
    """Of the file's content, in hex; None when there is no such file."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def _exclusive(store: Path) -> Iterator[None]:
    """Lock the folder against other processes; the operating system releases the lock if this process dies."""
    store.mkdir(0o755, parents=True, exist_ok=True)
    with (store / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(
    store: Path, missing: Mapping[Coordinate, str], settings: Path | None, progress: JarProgress
) -> None:
    """Download into a staging folder, check every file, then move the correct ones into place."""
    with tempfile.TemporaryDirectory(dir=store, prefix=".fetch-") as staging:
        fetched = retrieve(Path(staging), [], list(missing), settings=settings, progress=progress)
        wrong = []
        for jar, digest in missing.items():
            checksum = _sha256(fetched / jar.place)
            if checksum != digest:
                wrong.append(f"{jar}: sha256 {checksum or 'no file'}, expected {digest}")
                continue
            (store / jar.place).parent.mkdir(parents=True, exist_ok=True)
            os.replace(fetched / jar.place, store / jar.place)
    if wrong:
        raise JarError(
            "the repository returned files with unexpected checksums, which were deleted: "
            + "; ".join(wrong),
            fix="ask the operator of the mirror or proxy, or use another one with --ivy-settings FILE",
            exit_code=ExitCode.DATA,
        )


def lock(target: Path, ivy_settings: Path | None = None, *, sets: Mapping[str, JarSet] | None = None) -> None:
    """Resolve every set of a table (None: ``SETS``) again and write the list of its files with their checksums."""
    table = SETS if sets is None else sets
    content = {name: _resolve(name, jar_set, ivy_settings) for name, jar_set in table.items()}
    target.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _resolve(name: str, jar_set: JarSet, settings: Path | None) -> dict[str, str]:
    """Coordinate -> sha256 of the files to which a set of the table resolves now."""
    closure = [Coordinate.parse(text) for text in jar_set.closure]
    alone = [Coordinate.parse(text) for text in jar_set.alone]
    with tempfile.TemporaryDirectory(dir=cache_folder()) as staging, console_progress(name) as progress:
        fetched = retrieve(Path(staging), closure, alone, settings=settings, progress=progress)
        jars = {Coordinate.of_place(path): path for path in sorted(fetched.glob("*/*/*.jar"))}
        return {
            str(jar): hashlib.sha256(path.read_bytes()).hexdigest()
            for jar, path in jars.items()
            if not jar_set.only or jar.name in jar_set.only
        }


def main() -> None:
    """`fetch SET…` fills the cache; `lock` writes jars.json again (for maintainers, in a checkout)."""
    parser = argparse.ArgumentParser(
        prog="python -m groupreplay.streaming.local.jars", description=main.__doc__
    )
    parser.add_argument("--ivy-settings", type=Path, help="an Ivy settings file, for mirrors")
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("fetch", help="download the named sets (default: all that tests use)")
    fetch.add_argument("sets", nargs="*", default=list(_OF_TESTS))
    relock = commands.add_parser("lock", help="resolve all sets again and write the list with checksums")
    relock.add_argument(
        "--output", type=Path, default=Path("src", "groupreplay", "streaming", "local", _LOCK_NAME)
    )
    arguments = parser.parse_args()
    try:
        if arguments.command == "lock":
            lock(arguments.output, arguments.ivy_settings)
        else:
            for name in arguments.sets:
                jar_paths(name, ivy_settings=arguments.ivy_settings)
    except GroupReplayError as error:
        parser.exit(error.exit_code, f"error: {error}\n")


if __name__ == "__main__":
    main()
