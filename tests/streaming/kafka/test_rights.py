"""The table of rights, and the commands that grant them."""

from __future__ import annotations

import re
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, ConfigResource

from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.rights import (
    ALL_TOPICS,
    CREATE,
    GROUP_SETTINGS,
    Held,
    Right,
    grant_line,
    held,
    require,
    sink_rights,
    source_rights,
)
from support.paths import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
PLAIN = Cluster(bootstrap_servers="broker:9092")
LOGGED_IN = Cluster(
    bootstrap_servers="broker:9092",
    properties={
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": 'x.ScramLoginModule required username="re player" password="hunter2";',
    },
)


def test_the_page_names_the_rights_that_are_checked() -> None:
    """Each row of the table under "Rights" in docs/operations.md, and no other, is a right that ``check`` asks for."""
    section = PAGE.partition("\n### Rights\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (topic|group|cluster)s? ?(.*?) \| ([A-Z][A-Za-z, ]*)", section, re.MULTILINE)
    told = {
        (kind, name, operation)
        for kind, names, operations in rows
        for name in (re.findall(r"`([^`]+)`", names) or [""])
        for operation in operations.strip().split(", ")
    }
    checked = [*source_rights(probe=True, ask_retention=True, ends=True), *sink_rights(TopicNames()), CREATE]
    assert told == {(one.kind, one.name + "*" * one.prefixed, one.operation) for one in checked}


@pytest.mark.parametrize(
    ("right", "cluster", "line"),
    [
        (Right("Read", "topic", "offsets", "why"), PLAIN, "User:NAME --operation Read --topic offsets"),
        (
            Right("Describe", "group", "*", "why"),
            LOGGED_IN,
            "'User:re player' --operation Describe --group '*'",
        ),
        (
            Right("Describe", "group", "spark-", "why", prefixed=True),
            PLAIN,
            "User:NAME --operation Describe --group spark- --resource-pattern-type prefixed",
        ),
        (CREATE, PLAIN, "User:NAME --operation Create --cluster"),
    ],
)
def test_the_command_that_grants_a_right(right: Right, cluster: Cluster, line: str) -> None:
    """It can be pasted into a shell; it holds the login where the file tells it, and never the password."""
    begin = "kafka-acls.sh --bootstrap-server broker:9092 --add --allow-principal"
    assert grant_line(right, cluster) == f"{begin} {line}"


@pytest.mark.parametrize(("probe", "ask"), [(True, False), (False, True), (False, False)])
def test_what_is_not_used_is_not_asked_for(probe: bool, ask: bool) -> None:
    """Without the prober no right to all groups and topics, with a retention that was said none to the settings."""
    rights = source_rights(probe=probe, ask_retention=ask, ends=True)
    spared = [str(right) for right in rights if not right.needed]
    of_groups = ["Describe on group *", "DescribeConfigs on group *"]
    of_prober = [*of_groups, "Describe on topic *"] * probe
    assert spared == of_prober + ["DescribeConfigs on cluster"] * ask
    without_ends = source_rights(probe=True, ask_retention=False)
    assert [str(right) for right in without_ends if not right.needed] == of_groups


def test_missing_rights_stop_the_job_with_their_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that are missing at once; those that can be spared are not even asked for."""
    asked: list[Right] = []
    connection = type("Connection", (), {"cluster": PLAIN})()

    def told(_: object, rights: list[Right]) -> dict[Right, Held]:
        asked.extend(rights)
        return {
            right: {"Read": Held.NO, "Write": Held.YES}.get(right.operation, Held.NOT_TOLD)
            for right in rights
        }

    monkeypatch.setattr("groupreplay.streaming.kafka.rights.held", told)
    wanted = [*source_rights(probe=True, ask_retention=True), *sink_rights(TopicNames())]
    with pytest.raises(GroupReplayError) as caught:
        require(connection, wanted)
    assert [one.needed for one in asked] == [True] * len(asked)
    assert caught.value.exit_code == ExitCode.AUTHORISATION
    missing = [one for one in wanted if one.operation == "Read" and one.needed]
    assert str(caught.value.what) == "not authorised: " + ", ".join(map(str, missing))
    assert (caught.value.fix or "").splitlines() == [grant_line(one, PLAIN) for one in missing]


class Answers:
    """A cluster's answers to DescribeTopics (operations, or an error's code) and to the description of a group."""

    def __init__(self, topics: dict[str, list[AclOperation] | int | None]) -> None:
        self._topics, self.described = topics, False

    def describe_topics(self, asked: TopicCollection, **_: object) -> dict[str, SimpleNamespace]:
        def answer(name: str, _seconds: float) -> SimpleNamespace:
            told = self._topics[name]
            if isinstance(told, int):
                raise KafkaException(KafkaError(told))
            return SimpleNamespace(authorized_operations=told)

        return {name: SimpleNamespace(result=partial(answer, name)) for name in self._topics}

    def describe_consumer_groups(self, groups: list[str], **_: object) -> dict[str, SimpleNamespace]:
        self.described = True
        picture = SimpleNamespace(
            state=ConsumerGroupState.DEAD,
            coordinator=None,
            is_simple_consumer_group=True,
            partition_assignor="",
            members=[],
        )
        return {group: SimpleNamespace(result=lambda _seconds: picture) for group in groups}


@pytest.mark.parametrize(
    ("code", "has"),
    [(KafkaError.TOPIC_AUTHORIZATION_FAILED, Held.NO), (KafkaError.UNKNOWN_TOPIC_OR_PART, Held.YES)],
)
def test_the_right_to_all_topics(monkeypatch: pytest.MonkeyPatch, code: int, has: Held) -> None:
    """It shows in the answer about a topic that cannot be: a login without it may not know whether there is one."""
    connection = Connection(PLAIN)

    def describe(asked: TopicCollection, **_: object) -> dict[str, SimpleNamespace]:
        (name,) = asked.topic_names
        assert re.fullmatch(r"groupreplay-[0-9a-f-]{36}", name)
        return {name: SimpleNamespace(result=Mock(side_effect=KafkaException(KafkaError(code))))}

    monkeypatch.setattr(connection, "admin", lambda: SimpleNamespace(describe_topics=describe))
    assert held(connection, [ALL_TOPICS]) == {ALL_TOPICS: has}


@pytest.mark.parametrize(
    ("code", "has"),
    [
        (None, Held.YES),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, Held.NO),
        (KafkaError._TIMED_OUT, Held.NO_ANSWER),
        # A broker before 3.8.
        (KafkaError.INVALID_REQUEST, Held.NO_SETTINGS),
    ],
)
def test_the_right_to_the_settings_of_groups(
    monkeypatch: pytest.MonkeyPatch, code: int | None, has: Held
) -> None:
    """It shows in the answer about a group that cannot be, whose settings are those of any group without its own."""
    answers = {"return_value": {}} if code is None else {"side_effect": KafkaException(KafkaError(code))}
    connection = Connection(PLAIN)

    def describe(asked: list[ConfigResource], **_: object) -> dict[ConfigResource, SimpleNamespace]:
        (group,) = asked
        assert re.fullmatch(r"groupreplay-[0-9a-f-]{36}", group.name)
        return {group: SimpleNamespace(result=Mock(**answers))}

    monkeypatch.setattr(connection, "admin", lambda: SimpleNamespace(describe_configs=describe))
    assert held(connection, [GROUP_SETTINGS]) == {GROUP_SETTINGS: has}


@pytest.mark.parametrize(
    ("answer", "read", "describe", "group"),
    [
        ([AclOperation.READ, AclOperation.DESCRIBE], Held.YES, Held.YES, Held.YES),
        ([AclOperation.DESCRIBE], Held.NO, Held.YES, Held.YES),
        # A broker before 2.3 leaves the operations out (KIP-430), of a topic that it describes.
        (None, Held.NOT_TOLD, Held.YES, Held.YES),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Held.NO, Held.NO, Held.YES),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, Held.NO_TOPIC, Held.NO_TOPIC, Held.NO_TOPIC),
    ],
    ids=["both", "one", "not told", "hidden", "no topic"],
)
def test_what_the_answers_prove(
    monkeypatch: pytest.MonkeyPatch,
    answer: list[AclOperation] | int | None,
    read: Held,
    describe: Held,
    group: Held,
) -> None:
    """A broker that tells no rights has the topic all the same; only without it no group is asked for."""
    connection, answers = Connection(PLAIN), Answers({OFFSETS_TOPIC: answer})
    monkeypatch.setattr(connection, "admin", lambda: answers)
    rights = source_rights(probe=False, ask_retention=False)
    assert [right.operation for right in rights] == ["Read", "Describe", "Describe"]
    assert list(held(connection, rights).values()) == [read, describe, group]
    assert answers.described is (group is Held.YES)
