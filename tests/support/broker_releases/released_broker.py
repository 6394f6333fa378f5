"""A broker of any Kafka release on loopback; before 3.3 (KRaft not for production), with its own ZooKeeper."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

from groupreplay.streaming.local.broker import EmbeddedBroker, free_ports
from groupreplay.streaming.local.platforms import find_java
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.broker_releases.release_jars import release_jars
from support.class_archives import SHORT_LIVED
from support.kafka.waiting import wait_until

_KRAFT_SINCE = (3, 3)
_HOST = "127.0.0.1"
#: A group that ends without a tombstone counts as deleted after two clean-ups. The number of partitions is not Kafka's
#: default, so that a test sees where it comes from.
_SETTINGS = {"offsets.retention.check.interval.ms": 5_000, "num.partitions": 3}


def needs_zookeeper(version: str) -> bool:
    """Whether a release is started with ZooKeeper here."""
    major, minor, _ = version.split(".")
    return (int(major), int(minor)) < _KRAFT_SINCE


@contextmanager
def released_broker(version: str, offsets_partitions: int) -> Iterator[EmbeddedBroker]:
    """The broker, ready; ended with its data afterwards."""
    jars = release_jars(version)
    if not needs_zookeeper(version):
        with EmbeddedBroker(
            version, jars=jars, offsets_partitions=offsets_partitions, overrides=_SETTINGS
        ) as broker:
            yield broker
        return
    zookeeper_port, port = free_ports(2)
    broker = EmbeddedBroker(
        version,
        jars=jars,
        port=port,
        offsets_partitions=offsets_partitions,
        overrides=_SETTINGS | _with_zookeeper(port, zookeeper_port),
    )
    with closing(broker):
        # With this file no folder is formatted: that is for KRaft.
        identity = broker.folder / "data" / "meta.properties"
        identity.parent.mkdir()
        identity.write_text("version=0\nbroker.id=1\n", encoding="utf-8")
        with _zookeeper(broker, zookeeper_port):
            broker.start()
            yield broker
            broker.stop(0)  # before its ZooKeeper


def _with_zookeeper(port: int, zookeeper_port: int) -> dict[str, object]:
    """Settings of a broker without KRaft: an empty one takes back what KRaft needs."""
    listener = f"PLAINTEXT://{_HOST}:{port}"
    return {
        "process.roles": "",
        "broker.id": 1,
        "listeners": listener,
        "advertised.listeners": listener,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
        "controller.listener.names": "",
        "controller.quorum.voters": "",
        "zookeeper.connect": f"{_HOST}:{zookeeper_port}",
        "zookeeper.connection.timeout.ms": 120_000,
        "zookeeper.session.timeout.ms": 60_000,
    }


@contextmanager
def _zookeeper(broker: EmbeddedBroker, port: int) -> Iterator[None]:
    """ZooKeeper of the release's own jars; its data lies in the folder of the broker."""
    folder = broker.folder / "zookeeper"
    folder.mkdir()
    settings = {
        "dataDir": folder,
        "clientPort": port,
        "clientPortAddress": _HOST,
        "tickTime": 2_000,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
    }
    file = folder / "zookeeper.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    command = [
        *(str(find_java().executable), *SHORT_LIVED, "-Xmx128m"),
        # Its beans for log4j need log4j's classes.
        "-Dzookeeper.jmx.log4j.disable=true",
        *("-cp", os.pathsep.join(map(str, release_jars(broker.version)))),
        *("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(file)),
    ]
    log = broker.folder / "zookeeper.log"
    with GuardedProcess(command, log, cwd=folder, orphan_folder=broker.folder) as process:

        def ready() -> bool:
            assert process.exit_code is None, f"ZooKeeper of {broker.version} has ended:\n{process.tail(30)}"
            return _listens(port)

        wait_until(ready)
        yield


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((_HOST, port)) == 0
