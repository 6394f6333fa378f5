"""Flags that name clusters and topics."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from groupreplay.streaming.cli.cluster_flags import ClusterFlags, topic_flags
from groupreplay.streaming.cli.command import with_settings
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
