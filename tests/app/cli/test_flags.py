"""``app/cli/flags.py``."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.flags import (
    ClusterFlags,
    ProbesFlags,
    need_event_types,
    probes_flags,
    redaction_flags,
    rules_file_flag,
    rules_flags,
    topic_flags,
)
from groupreplay.state.policy.context import Redaction
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.rules_file import RulesSource
from groupreplay.streaming.config.settings import TopicNames


def test_topic_names() -> None:
    """All five topics have defaults and flags; a command may offer only some of them."""
    command = with_settings("all", dict, topics=topic_flags())(click.echo)
    one = with_settings("one", dict, topics=topic_flags("probes"))(click.echo)
    words = ["--dead-letters-topic", "x"]
    expected = {"topics": TopicNames(dead_letters="x")}
    assert CliRunner().invoke(command, words).output == f"{expected}\n"
    expected = {"topics": TopicNames(probes="x")}
    assert CliRunner().invoke(one, ["--probes-topic", "x"]).output == f"{expected}\n"
    assert CliRunner().invoke(one, words).exit_code == 2


def test_a_prefix_makes_a_set_of_topics() -> None:
    """It applies to the topics that no flag names, also to those that a command has no flag for."""
    command = with_settings("all", dict, topics=topic_flags())(click.echo)
    one = with_settings("one", dict, topics=topic_flags("events"))(click.echo)
    words = ["--topic-prefix", "a.", "--events-topic", "e"]
    expected = {
        "topics": TopicNames(
            events="e",
            states="a.group-states",
            dead_letters="a.group-dead-letters",
            job="a.group-job",
            probes="a.group-probes",
        )
    }
    assert CliRunner().invoke(command, words).output == f"{expected}\n"
    assert CliRunner().invoke(one, words).output == f"{expected}\n"
    variables = {"GROUPREPLAY_TOPIC_PREFIX": "a.", "GROUPREPLAY_EVENTS_TOPIC": "e"}
    assert CliRunner().invoke(command, env=variables).output == f"{expected}\n"
    refused = CliRunner().invoke(command, ["--topic-prefix", "a/b"])
    assert isinstance(refused.exception, GroupReplayError)
    assert "not a valid topic name" in refused.exception.what


def test_the_prefix_names_the_topic_of_probes() -> None:
    """A topic that is asked for must exist; the default may be missing."""
    command = with_settings("replay", dict, probes=probes_flags())(lambda given: click.echo(given["probes"]))
    no_sink = ClusterFlags()
    for words, expected in (
        ([], ProbesFlags("group-probes", no_sink, asked_for=False)),
        (["--topic-prefix", "a."], ProbesFlags("a.group-probes", no_sink, asked_for=True)),
        (["--topic-prefix", "a.", "--probes-topic", "p"], ProbesFlags("p", no_sink, asked_for=True)),
    ):
        assert CliRunner().invoke(command, words).output == f"{expected}\n"


def test_which_cluster(tmp_path: Path) -> None:
    """The flag names the cluster, else the properties file does; without either there is none."""
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=file:1\nclient.id=x\n")
    from_file, from_flag = ClusterFlags(None, path).find(), ClusterFlags("flag:1", path).find()
    assert from_file is not None
    assert from_flag is not None
    assert (from_file.bootstrap_servers, from_file.properties["client.id"]) == ("file:1", "x")
    assert from_flag.bootstrap_servers == "flag:1"
    assert ClusterFlags().find() is None
    with pytest.raises(click.UsageError, match="--bootstrap-server"):
        ClusterFlags().need()


def test_rules() -> None:
    """A file, and for some commands single thresholds."""
    thresholds = with_settings("thresholds", dict, rules=rules_flags())(click.echo)
    file_only = with_settings("file", dict, rules=rules_file_flag())(click.echo)
    words = ["--rules", "r.toml"]
    expected = {"rules": RulesSource(path=Path("r.toml"), thresholds=(("a.b", "1"),))}
    assert CliRunner().invoke(thresholds, [*words, "--rule", "a.b=1"]).output == f"{expected}\n"
    expected = {"rules": RulesSource(path=Path("r.toml"))}
    assert CliRunner().invoke(file_only, words).output == f"{expected}\n"
    assert CliRunner().invoke(file_only, ["--rule", "a.b=1"]).exit_code == 2


def test_redaction(tmp_path: Path) -> None:
    """Without its flags there is none."""
    given: list[dict[str, Redaction | None]] = []
    command = with_settings("c", dict, redaction=redaction_flags())(given.append)
    key = tmp_path / "key"
    key.write_bytes(b"0123456789abcdef\n")
    CliRunner().invoke(command, [])
    CliRunner().invoke(command, ["--redact", "hosts,member-id", "--redact-key-file", str(key)])
    expected = Redaction(frozenset({"hosts", "member-id"}), b"0123456789abcdef")
    assert given == [{"redaction": None}, {"redaction": expected}]


def test_event_types() -> None:
    """Names of events become CloudEvents types; no name means all of them."""
    assert need_event_types([]) is None
    assert need_event_types(["group.created"]) == {"groupreplay.group.created.v1"}
    for name, near in (
        ("stuck", "did you mean rebalance.stuck? "),
        ("offset", "did you mean offset.rewound? "),
        ("rebalance.stuk", "did you mean rebalance.stuck? "),
        ("xyzzy", ""),
    ):
        with pytest.raises(click.UsageError) as refused:
            need_event_types([name])
        assert refused.value.message.startswith(f"There is no event {name!r}; {near}there are group.created")
