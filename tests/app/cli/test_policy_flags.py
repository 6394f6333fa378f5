"""Flags that decide which events are emitted and what they contain."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.policy_flags import (
    need_event_types,
    redaction_flags,
    rules_file_flag,
    rules_flags,
)
from groupreplay.state.policy.redaction import Redaction
from groupreplay.streaming.config.rules_file import RulesSource


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
