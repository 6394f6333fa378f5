"""What messages about brokers, topics and rights say to do, done on real brokers: the command works afterwards."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError
from groupreplay.streaming.config.settings import Cluster, RetentionFlags, TopicNames
from groupreplay.streaming.kafka import clients, publisher, topic_reader
from groupreplay.streaming.kafka.broker_config import RetentionWatch
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.output_topics import create_topics, ensure_topics
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.kafka.rights import CREATE, Right, require, sink_rights, source_rights
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.run.job_run import JobRun
from support.job.captures import invoke
from support.job.jobs import topic_flags, topic_names
from support.kafka.clients import commit_once, make_topics, set_configs
from support.kafka.runbook_commands import as_administrator, run_printed
from support.kafka.secured import SecuredBroker
from support.kafka.waiting import wait_until
from support.remedies import read_remedy
from support.tools.job_observations import fed, fix_of, taken

pytestmark = pytest.mark.broker
Unique = Callable[[str], str]
CHECK_INTERVAL = "offsets.retention.check.interval.ms"
MESSAGE = [(b"key", b"value")]


@pytest.fixture
def plain(guarded: SecuredBroker) -> str:
    """The address without logins, where everything is allowed."""
    return guarded.broker.bootstrap_servers


def refused(*words: object) -> tuple[int, str]:
    """Exit code and message of a command that does not work."""
    result = invoke(*words)
    assert result.exit_code != ExitCode.OK, result.output
    return result.exit_code, result.stderr


def works(*words: object) -> None:
    """The same command works."""
    result = invoke(*words)
    assert result.exit_code == ExitCode.OK, result.output


def checked(name: str, *words: object) -> dict[str, str | None]:
    """One answer of ``check``."""
    answers = json.loads(invoke("check", "-o", "json", *words).stdout)
    (answer,) = [one for one in answers if one["check"] == name]
    return dict(answer)


def test_a_cluster_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first offset is committed; the broker is started again; a simulation may go into the log itself."""
    monkeypatch.setattr(clients, "REQUEST_SECONDS", 2.0)
    monkeypatch.setattr(publisher, "_FLUSH_SECONDS", 2.0)
    retention = {"offsets.retention.minutes": 1, CHECK_INTERVAL: 600_000}
    with EmbeddedBroker(offsets_partitions=1, overrides=retention, wait_for_coordinator=False) as broker:
        words = ("list", "--bootstrap-server", broker.bootstrap_servers)
        code, told = refused(*words)
        assert code == ExitCode.DATA
        read_remedy(
            "streaming.kafka.client_errors: the offsets topic is created with the first committed offset",
            told,
        )
        make_topics(broker.bootstrap_servers, {"orders": 1})
        commit_once(broker.bootstrap_servers, "first")
        works(*words)
        sending = Publisher(Cluster(bootstrap_servers=broker.bootstrap_servers))
        sending.publish("orders", MESSAGE)
        with pytest.raises(GroupReplayError) as caught:
            EmbeddedBroker(port=broker.port).start()
        read_remedy("streaming.local.broker: choose another port, or 0", str(caught.value))
        asked = ("--bootstrap-server", broker.bootstrap_servers)
        answer = checked("retention", *asked)
        (longest,) = read_remedy(
            "app.check.cluster_checks: set offsets.retention.check.interval.ms", str(answer["fix"])
        )
        os.kill(broker.pid or 0, signal.SIGSTOP)
        answer = checked("cluster", *asked, "--timeout", 1)
        os.kill(broker.pid or 0, signal.SIGCONT)
        read_remedy(
            "app.check.checklist: check the brokers and the network, or raise --timeout", str(answer["fix"])
        )
        broker.stop()
        broker._settings[CHECK_INTERVAL] = longest
        code, told = refused(*words)
        assert code == ExitCode.CONNECTION
        read_remedy("streaming.kafka.client_errors: check the address, that the broker runs", told)
        with pytest.raises(UnreachableError) as caught:
            sending.publish("orders", MESSAGE)
        read_remedy(
            "streaming.kafka.publisher: check that the brokers that lead this topic run", str(caught.value)
        )
        broker.start()
        works(*words)
        assert checked("retention", *asked)["status"] == "ok"
        sending.publish("orders", MESSAGE)
        simulate = [
            "simulate",
            "--groups",
            1,
            "--seconds",
            60,
            "--bootstrap-server",
            broker.bootstrap_servers,
        ]
        simulate += [
            "--to-topic",
            "__consumer_offsets",
            "--partitions",
            1,
            "--truth-file",
            tmp_path / "truth",
        ]
        code, told = refused(*simulate)
        assert code == ExitCode.USAGE
        read_remedy("app.simulate.topics: choose another topic, or, on a test cluster of your own", told)
        works(*simulate, "--into-offsets-topic")


def test_check_names_the_right_and_grants_it(guarded: SecuredBroker, tmp_path: Path) -> None:
    """A command has no right; ``check``, as it says, prints the lines, and they are typed."""
    guarded.allow_only([])
    login = ("--bootstrap-server", guarded.checked, "--command-config", guarded.properties(tmp_path))
    code, told = refused("list", *login)
    assert code == ExitCode.AUTHORISATION
    read_remedy("streaming.kafka.client_errors: groupreplay check shows which right is missing", told)
    answers = json.loads(invoke("check", "-o", "json", *login).stdout)
    lines = [
        one["fix"] for one in answers if one["status"] == "failed" and "__consumer_offsets" in one["check"]
    ]
    assert lines
    for line in lines:
        read_remedy("app.check.cluster_checks: kafka-acls.sh", line)
        as_administrator(guarded, line)
    works("list", *login)


def test_a_retention_that_may_not_be_read(
    guarded: SecuredBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Both ways out of the message: the flag, and the printed right; of ``check`` and of the job."""
    guarded.allow_only(source_rights(probe=True, ask_retention=False))
    login = ("--bootstrap-server", guarded.checked, "--command-config", guarded.properties(tmp_path))
    fix = str(checked("retention", *login)["fix"])
    read_remedy("app.check.cluster_checks: … or give it: --retention-minutes", fix)
    assert checked("retention", *login, fix.rpartition(": ")[2], 600)["status"] == "ok"
    # What the job logs when it starts: its flags, or the right, and it assumes nothing.
    (warning,) = assumptions(guarded, tmp_path, caplog)
    _, flags = read_remedy("streaming.kafka.broker_config: … are assumed,", warning)
    settings = {
        "retention_minutes": 600,
        "broker_release": (4, 0),
        "session_settings": {"group.consumer.session.timeout.ms": 45_000},
    }
    assert re.findall(r"--[\w-]+", flags) == ["--retention-minutes", "--broker-release", "--broker-property"]
    assert assumptions(guarded, tmp_path, caplog, **settings) == []
    as_administrator(guarded, fix.splitlines()[0])
    assert checked("retention", *login)["status"] == "ok"
    assert assumptions(guarded, tmp_path, caplog) == []


def assumptions(
    guarded: SecuredBroker, folder: Path, caplog: pytest.LogCaptureFixture, **flags: Any
) -> list[str]:
    """What a job with these flags warns of when it asks for the retention."""
    caplog.clear()
    with heard(caplog):
        RetentionWatch(RetentionFlags(**flags), lambda: connected(guarded, folder))
    return [message for message in caplog.messages if "are assumed" in message]


@contextmanager
def heard(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The warnings of the package arrive, although a command in this process has set up a log of its own."""
    logger = logging.getLogger("groupreplay")
    with caplog.at_level("WARNING", "groupreplay"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(logger, "propagate", True)
        yield


def connected(guarded: SecuredBroker, folder: Path) -> Connection:
    """A connection of the user."""
    properties = dict(line.split("=", 1) for line in guarded.properties(folder).read_text().splitlines())
    return Connection(Cluster(bootstrap_servers=guarded.checked, properties=properties))


def test_rights_that_a_job_requires(guarded: SecuredBroker, tmp_path: Path) -> None:
    """The lines that a start of the job prints are typed, and it passes."""
    guarded.allow_only([])
    connection = connected(guarded, tmp_path)
    rights = source_rights(probe=True, ask_retention=True)
    with pytest.raises(GroupReplayError, match="not authorised") as caught:
        require(connection, rights)
    read_remedy("streaming.kafka.rights: kafka-acls.sh", str(caught.value))
    for line in str(caught.value.fix).splitlines():
        as_administrator(guarded, line)
    require(connection, rights)


def test_groups_that_the_prober_may_not_see(
    guarded: SecuredBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The printed right for all groups, with the address and the login of the operator: the prober's, and the job's."""
    offsets = Right("Describe", "topic", "__consumer_offsets", "to find the groups")
    guarded.allow_only([offsets, CREATE, *sink_rights(TopicNames())])
    words = (
        "probe",
        "--once",
        "--bootstrap-server",
        guarded.checked,
        "--command-config",
        guarded.properties(tmp_path),
    )
    code, told = refused(*words)
    assert code == ExitCode.AUTHORISATION
    read_remedy("streaming.prober.prober: kafka-acls.sh", told)
    line = " ".join(told.split())
    # The job says the same of a round without the right, in its log and in its event.
    (event,) = fed([taken(1, rights="missing")])
    read_remedy("state.conditions.job_blind: kafka-acls.sh", fix_of(event))
    run: Any = SimpleNamespace(_rights=None, report=SimpleNamespace(last_round=None, single_run=None))
    with heard(caplog):
        JobRun._take_round(run, SimpleNamespace(rights="missing"))  # type: ignore[arg-type]
    (granting,) = read_remedy("streaming.run.job_run: grant it:", caplog.messages[-1])
    assert granting == fix_of(event)
    assert granting in line
    line = (
        line[line.index("kafka-acls.sh") :]
        .replace("HOST:PORT", guarded.checked)
        .replace("User:NAME", "User:replayer")
    )
    as_administrator(guarded, line)
    works(*words)


def test_settings_that_the_client_refuses(plain: str, tmp_path: Path) -> None:
    """Librdkafka names the setting in the file; without it the command works."""
    file = tmp_path / "client.properties"
    file.write_text("socket.connection.setup.timeout.ms=1\n")
    words = ("list", "--bootstrap-server", plain, "--command-config", file)
    code, told = refused(*words)
    assert code == ExitCode.USAGE
    read_remedy("streaming.kafka.clients: check the --command-config file", told)
    file.write_text("")
    works(*words)


def test_wrong_numbers_of_partitions(plain: str, unique: Unique, tmp_path: Path) -> None:
    """Of the offsets topic, which has its own number, and of topics for a simulation."""
    code, told = refused("coordinator", "g", "--bootstrap-server", plain, "--partitions", 7)
    assert code == ExitCode.USAGE
    read_remedy("app.cli.commands.records: leave out --partitions", told)
    works("coordinator", "g", "--bootstrap-server", plain)

    words = ["list", "--bootstrap-server", plain, "--partition", 99]
    code, told = refused(*words)
    assert code == ExitCode.USAGE
    read_remedy("streaming.sources.topic: partitions are numbered 0 to", told)
    last = int(" ".join(told.split()).rpartition("0 to ")[2])
    assert invoke(*words[:-1], last).exit_code in (ExitCode.OK, ExitCode.DATA)
    assert refused(*words[:-1], last + 1)[0] == ExitCode.USAGE

    topic, probes = unique("simulated"), unique("probes")
    make_topics(plain, {topic: 2, probes: 2})
    simulate = ["simulate", "--groups", 1, "--seconds", 60, "--bootstrap-server", plain, "--force"]
    simulate += ["--truth-file", tmp_path / "truth.jsonl", "--probes-topic", probes]
    code, told = refused(*simulate, "--to-topic", topic, "--partitions", 1)
    (number, *_) = read_remedy("app.simulate.topics: simulate with --partitions", told)
    code, told = refused(*simulate, "--to-topic", topic, "--partitions", number)
    read_remedy("app.simulate.topics: name another --probes-topic", told)
    works(*simulate, "--to-topic", topic, "--partitions", number, "--probes-topic", unique("another"))


def test_topics_of_a_job_that_are_missing(plain: str, unique: Unique) -> None:
    """Events, answers of the prober, and any other topic: made as the messages say, or named by their flag."""
    missing, names = unique("none"), topic_names(unique("job"))
    code, told = refused("events", "--bootstrap-server", plain, "--events-topic", missing)
    assert code == ExitCode.DATA
    read_remedy("streaming.sinks.event_topic: groupreplay run makes it and writes it", told)
    words = ["replay", "--bootstrap-server", plain, "--probes-topic"]
    _, told = refused(*words, missing)
    read_remedy("streaming.sources.topic: give the --probes-topic of the job", told)
    connection = Connection(Cluster(bootstrap_servers=plain))
    with pytest.raises(GroupReplayError) as caught:
        connection.identify(names.job)
    read_remedy("streaming.kafka.client_errors: groupreplay run creates the job's topics", str(caught.value))
    # As `run` does.
    create_topics(connection, names, ["events", "probes", "job"])
    assert invoke("events", "--bootstrap-server", plain, "--events-topic", names.events).exit_code in (
        ExitCode.OK,
        ExitCode.DATA,
    )
    works(*words, names.probes)
    connection.identify(names.job)


def test_a_message_that_is_too_large(plain: str, unique: Unique) -> None:
    """The printed command sets a limit that is enough for the message."""
    topic = unique("small")
    make_topics(plain, {topic: 1})
    set_configs(
        plain,
        ConfigResource.Type.TOPIC,
        [topic],
        {"max.message.bytes": 1_000, "compression.type": "uncompressed"},
    )
    sending = Publisher(Cluster(bootstrap_servers=plain))
    messages = [(b"key", os.urandom(5_000), [("content-type", b"application/json")])]
    with pytest.raises(publisher.MessageTooLargeError) as caught:
        sending.publish_all(topic, messages)
    read_remedy("streaming.kafka.publisher: kafka-configs.sh", str(caught.value))
    run_printed(str(caught.value.fix))
    sending.publish_all(topic, messages)


def test_a_topic_of_the_job_with_too_many_partitions(
    plain: str, unique: Unique, caplog: pytest.LogCaptureFixture
) -> None:
    """``check`` and the job say the same: deleted, the job makes it again, and all is well."""
    names = topic_names(unique("many"))
    admin = make_topics(plain, {names.job: 2})

    def answer() -> dict[str, str | None]:
        return checked(f"topic {names.job}", "--bootstrap-server", plain, *topic_flags(names))

    connection = Connection(Cluster(bootstrap_servers=plain))
    with caplog.at_level("WARNING"):
        ensure_topics(connection, names, only=["job"])
    for told in (str(answer()["fix"]), caplog.text):
        assert "delete the topic and start the job: it creates the topic again, with one partition" in told
    read_remedy("app.check.cluster_checks: delete the topic and start the job", str(answer()["fix"]))
    admin.delete_topics([names.job])[names.job].result(30)
    # As a start of the job does.
    wait_until(lambda: ensure_topics(connection, names, only=["job"]) == {names.job: 1})
    assert answer()["status"] == "ok"


def test_a_partition_that_is_silent(plain: str, unique: Unique) -> None:
    """The printed command lists partitions without a leader: this one has a leader, only no further record."""
    topic = unique("silent")
    make_topics(plain, {topic: 1})
    Publisher(Cluster(bootstrap_servers=plain)).publish(topic, MESSAGE)
    connection = Connection(Cluster(bootstrap_servers=plain))
    with pytest.raises(UnreachableError) as caught:
        list(topic_reader.read_messages(connection, topic, {0: 0}, {0: 5}, silence_seconds=1.0))
    read_remedy(
        "streaming.kafka.topic_reader: check that a broker leads it: kafka-topics.sh", str(caught.value)
    )
    assert run_printed(str(caught.value.fix).partition(": ")[2]).strip() == ""
