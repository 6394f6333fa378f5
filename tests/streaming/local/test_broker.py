"""The ports of the servers of this machine. The embedded broker, on a real Kafka."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from groupreplay.streaming.local import broker
from groupreplay.streaming.local import broker as module
from groupreplay.streaming.local.broker import BrokerError, EmbeddedBroker, free_ports
from support.job.jobs import read_topic
from support.kafka.formatted_folders import BY_KAFKA
from support.kafka.waiting import is_alive, wait_until


@pytest.fixture(autouse=True)
def formatted_by_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for users: no folder is a copy of one that was formatted before."""
    monkeypatch.setattr(EmbeddedBroker, "_format", BY_KAFKA)


def test_ports_that_no_client_takes() -> None:
    """They are different, free, and never one that the kernel gives to an outgoing connection."""
    found = broker.free_ports(20)
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert len(set(found)) == 20
    assert [port for port in found if not 1_024 < port < first] == []
    for port in found:
        with socket.create_server(("127.0.0.1", port)):
            pass


@pytest.mark.parametrize("text", [None, "", "many few", "1024 65535"])
def test_a_kernel_that_does_not_say_its_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    """Ports are found all the same; where clients may get every port, any free one has to do."""
    file = tmp_path / "range"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(broker, "_OUTGOING_FILE", file)
    one, two = broker.free_ports(2)
    assert one != two
    assert min(one, two) >= 1_024


def test_no_port_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the ports that were tried."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(broker, "_LEAST", port)
        monkeypatch.setattr(broker, "_outgoing_from", lambda: port + 1)
        with pytest.raises(OSError, match=f"no free port between {port} and {port + 1}"):
            broker.free_ports(1)


pytestmark = pytest.mark.broker


def admin(broker: EmbeddedBroker) -> AdminClient:
    """A client without a voice."""
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})


def partitions(broker: EmbeddedBroker) -> dict[str, int]:
    """Topic -> number of partitions."""
    topics = admin(broker).list_topics(timeout=20).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def write(broker: EmbeddedBroker, topic: str, value: bytes) -> None:
    """One record, acknowledged, in a new topic of one partition."""
    client = admin(broker)  # its futures die with it
    client.create_topics([NewTopic(topic, 1)])[topic].result(20)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    producer.produce(topic, value, partition=0)
    assert producer.flush(20) == 0


def read(broker: EmbeddedBroker, topic: str) -> list[bytes | None]:
    """All values of a topic."""
    return [message.value for message in read_topic(broker.bootstrap_servers, topic)]


def test_ready_means_ready(broker: EmbeddedBroker) -> None:
    """After the start the offsets topic exists with 8 partitions, and a client can join a group at once."""
    assert partitions(broker)["__consumer_offsets"] == 8
    client = admin(broker)
    assert client.list_consumer_groups(request_timeout=20).result().errors == []


def test_loopback_only(broker: EmbeddedBroker) -> None:
    """Both its ports are bound to 127.0.0.1 and to nothing else."""
    assert broker.pid is not None
    listening = {
        connection.laddr
        for connection in psutil.Process(broker.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    assert broker.port in {address.port for address in listening}
    assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"


def test_missing_topics_stay_missing(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """Writing to a topic that nobody created fails instead of creating it."""
    topic = unique("absent")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
    producer = Producer({**settings, "topic.metadata.propagation.max.ms": 0})
    outcomes: list[int | None] = []
    producer.produce(topic, b"", on_delivery=lambda error, _: outcomes.append(error and error.code()))
    producer.flush(20)
    assert outcomes == [KafkaError.UNKNOWN_TOPIC_OR_PART]
    assert topic not in partitions(broker)


def test_start_writes_no_record() -> None:
    """Looking whether it is ready leaves no trace in the offsets topic; closing leaves none here."""
    with EmbeddedBroker(offsets_partitions=2) as fresh:
        assert partitions(fresh) == {"__consumer_offsets": 2}
        assert read(fresh, "__consumer_offsets") == []
        pid, folder = fresh.pid, fresh.folder
        assert pid is not None
    assert not is_alive(pid)
    assert not folder.exists()


def test_two_at_once_and_restart_keeps_data() -> None:
    """Two brokers do not meet; a restart keeps port, topics and records, by a clean stop and by none."""
    # After a kill the controller waits for the end of the old session: make that short.
    brief = {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 500}
    with EmbeddedBroker(overrides=brief) as one, EmbeddedBroker() as other:
        write(one, "mine", b"before")
        assert "mine" not in partitions(other)
        address, first = one.bootstrap_servers, one.pid
        one.restart()
        assert (one.bootstrap_servers, read(one, "mine")) == (address, [b"before"])
        assert one.pid != first
        one.kill()
        assert one.pid is None
        one.start()
        assert (one.bootstrap_servers, read(one, "mine")) == (address, [b"before"])


def test_kafka_3_9() -> None:
    """The last broker with the old group coordinator starts the same way."""
    with EmbeddedBroker("3.9.1") as old:
        write(old, "topic", b"value")
        assert read(old, "topic") == [b"value"]
        assert partitions(old)["__consumer_offsets"] == 8


def test_offsets_topic_may_be_absent() -> None:
    """Without waiting for the coordinator the offsets topic is left for the first consumer to make."""
    with EmbeddedBroker(wait_for_coordinator=False) as bare:
        assert partitions(bare) == {}


def test_taken_port_is_an_error_with_the_reason() -> None:
    """A port that was asked for and is in use is not silently exchanged for another."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        broker = EmbeddedBroker(port=other.getsockname()[1])
        with pytest.raises(BrokerError, match="the port is in use"):
            broker.start()
        assert broker.pid is None
        broker.close()
        assert not broker.folder.exists()


@pytest.mark.long
def test_taken_port_is_exchanged_when_it_was_our_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """When another process takes the free port that we found, Kafka fails, and the next free one is used."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ports = iter([other.getsockname()[1]])
        monkeypatch.setattr(module, "free_ports", lambda count: [*ports, *free_ports(count)][:count])
        with EmbeddedBroker() as broker:
            assert broker.port != other.getsockname()[1]
            assert partitions(broker)["__consumer_offsets"] == 8


def test_the_controller_never_takes_the_port_of_the_broker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A port that a stopped broker keeps is free, so it may be found again."""
    monkeypatch.setattr(module, "free_ports", lambda _: [7001, 7002])
    for port, controller in ((0, 7002), (7001, 7002), (7002, 7001)):
        broker = EmbeddedBroker(port=port)
        shutil.rmtree(broker.folder)
        broker.folder = tmp_path
        broker._write_properties()
        assert (broker.port, broker._controller_port) == (port or 7001, controller)


def test_refused_setting_is_told() -> None:
    """A broker that refuses its settings fails with Kafka's own words, and leaves nothing behind."""
    broker = EmbeddedBroker(overrides={"num.io.threads": 0})
    with pytest.raises(BrokerError, match=r"num\.io\.threads"):
        broker.__enter__()
    assert (broker.pid, broker.folder.exists()) == (None, False)


def test_killed_parent_takes_the_broker_along(tmp_path: Path) -> None:
    """After a kill -9 of the process that started it, the JVM ends and its folder disappears."""
    code = (
        "import signal; from groupreplay.streaming.local.broker import EmbeddedBroker\n"
        "with EmbeddedBroker() as broker: print(broker.pid, broker.folder, flush=True); signal.pause()"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as parent:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().split()
        assert (is_alive(int(pid)), Path(folder).exists()) == (True, True)
        parent.kill()
    wait_until(lambda: not is_alive(int(pid)))
    wait_until(lambda: not Path(folder).exists())
