"""The table of rights, and the commands that grant them."""

from __future__ import annotations

import re

import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.kafka.rights import CREATE, Right, grant_line, require, sink_rights, source_rights
from support.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PLAIN = Cluster(bootstrap_servers="broker:9092")
LOGGED_IN = Cluster(
    bootstrap_servers="broker:9092",
    properties={
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": 'x.ScramLoginModule required username="re player" password="hunter2";',
    },
)


def test_the_readme_names_the_rights_that_are_checked() -> None:
    """Each row of the table under "Rights", and no other, is a right that ``check`` asks for."""
    section = README.partition("\n## Rights\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (topic|group|cluster)s? ?(.*?) \| ([A-Z][A-Za-z, ]*)", section, re.MULTILINE)
    told = {
        (kind, name, operation)
        for kind, names, operations in rows
        for name in (re.findall(r"`([^`]+)`", names) or [""])
        for operation in operations.strip().split(", ")
    }
    checked = [*source_rights(probe=True, ask_retention=True), *sink_rights(TopicNames()), CREATE]
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
    """Without the prober no right to all groups, with a retention that was said none to the settings."""
    spared = [str(one) for one in source_rights(probe=probe, ask_retention=ask) if not one.needed]
    assert spared == ["Describe on group *"] * probe + ["DescribeConfigs on cluster"] * ask


def test_missing_rights_stop_the_job_with_their_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that are missing at once; those that can be spared are not even asked for."""
    asked: list[Right] = []
    connection = type("Connection", (), {"cluster": PLAIN})()

    def held(_: object, rights: list[Right]) -> dict[Right, bool | None]:
        asked.extend(rights)
        return {one: {"Read": False, "Write": True}.get(one.operation) for one in rights}

    monkeypatch.setattr("groupreplay.streaming.kafka.rights.held", held)
    wanted = [*source_rights(probe=True, ask_retention=True), *sink_rights(TopicNames())]
    with pytest.raises(GroupReplayError) as caught:
        require(connection, wanted)
    assert [one.needed for one in asked] == [True] * len(asked)
    assert caught.value.exit_code == ExitCode.AUTHORISATION
    missing = [one for one in wanted if one.operation == "Read"]
    assert str(caught.value.what) == "not authorised: " + ", ".join(map(str, missing))
    assert (caught.value.fix or "").splitlines() == [grant_line(one, PLAIN) for one in missing]
