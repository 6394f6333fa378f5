"""Flags that decide which events are emitted and what they contain."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from groupreplay.state.policy.redaction import Redaction
from groupreplay.streaming.cli.policy_flags import (
    need_event_types,
    redact_options,
    rules_file_option,
    rules_options,
)
from groupreplay.streaming.config.rules_file import RulesSource


def test_rules() -> None:
    """A file, and for some commands single numbers."""

    @click.command()
    @rules_options
    def numbers(rules: RulesSource) -> None:
        click.echo(rules)

    @click.command()
    @rules_file_option
    def file_only(rules: RulesSource) -> None:
        click.echo(rules)

    words = ["--rules", "r.toml"]
    source = RulesSource(path=Path("r.toml"), numbers=(("a.b", "1"),))
    assert CliRunner().invoke(numbers, [*words, "--rule", "a.b=1"]).output == f"{source}\n"
    assert CliRunner().invoke(file_only, words).output == f"{RulesSource(path=Path('r.toml'))}\n"
    assert CliRunner().invoke(file_only, ["--rule", "a.b=1"]).exit_code == 2


def test_redaction(tmp_path: Path) -> None:
    """Without its flags there is none."""
    given: list[Redaction | None] = []

    @click.command()
    @redact_options
    def command(redaction: Redaction | None) -> None:
        given.append(redaction)

    key = tmp_path / "key"
    key.write_bytes(b"0123456789abcdef\n")
    CliRunner().invoke(command, [])
    CliRunner().invoke(command, ["--redact", "hosts,member-id", "--redact-key-file", str(key)])
    assert given == [None, Redaction(frozenset({"hosts", "member-id"}), b"0123456789abcdef")]


def test_event_types() -> None:
    """Names of events become CloudEvents types; no name means all of them."""
    assert need_event_types([]) is None
    assert need_event_types(["group.created"]) == {"groupreplay.group.created.v1"}
    with pytest.raises(click.UsageError, match=r"There is no event 'group'; there are group\.created"):
        need_event_types(["group"])
