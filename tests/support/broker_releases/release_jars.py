"""The jars of Kafka releases on which only tests run; `release_jars.json` lists the files with their checksums.

``python -m support.broker_releases.release_jars``, run in the folder ``tests``, resolves the table again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from groupreplay.streaming.local.jars import SETS as PACKAGE_SETS
from groupreplay.streaming.local.jars import JarSet, fetched_jars, jar_paths, lock

LIST: Final = Path(__file__).with_suffix(".json")
#: As in the package's sets: the log goes to stderr, and the tool that formats a folder parses with argparse4j.
_LOG: Final = "org.slf4j:slf4j-simple:1.7.36"
_STORAGE_TOOL: Final = "net.sourceforge.argparse4j:argparse4j:0.7.0"


def _release(version: str, scala: str = "2.13") -> JarSet:
    return JarSet(closure=(f"org.apache.kafka:kafka_{scala}:{version}", _STORAGE_TOOL), alone=(_LOG,))


RELEASES: Final[Mapping[str, JarSet]] = {
    "broker-2.1.1": _release("2.1.1", "2.12"),
    # The last one of its line whose offsets expire in a rebalance: 2.8.2 has KAFKA-13636.
    "broker-2.8.1": _release("2.8.1"),
    **{f"broker-{one}": _release(one) for one in ("2.8.2", "3.3.2", "3.7.2", "4.0.1", "4.1.1", "4.2.0")},
}


def release_jars(version: str) -> list[Path]:
    """The class path of a broker, from the package's list or from that of the tests."""
    name = f"broker-{version}"
    if name in PACKAGE_SETS:
        return jar_paths(name)
    found = fetched_jars(name, locked_releases()[name])
    return [*_later_zookeeper(), *found] if version == "2.1.1" else found


def _later_zookeeper() -> list[Path]:
    """The ZooKeeper of Kafka 2.8: since Java 14 the client of 2.1.1 cannot take an address apart."""
    return [path for path in release_jars("2.8.2") if path.parts[-3] in ("org.apache.zookeeper", "io.netty")]


def locked_releases() -> dict[str, dict[str, str]]:
    """Set -> coordinate -> sha256, as the list has them."""
    listed: dict[str, dict[str, str]] = json.loads(LIST.read_text(encoding="utf-8"))
    return listed


if __name__ == "__main__":
    lock(LIST, sets=RELEASES)
