"""Flags of the ways out of events that have no meaning, each with what to do."""

from __future__ import annotations

import pytest

from groupreplay.streaming.base.errors import ExitCode
from support.job.captures import invoke
from support.remedies import read_remedy

EVENTS = ("events", "--bootstrap-server", "127.0.0.1:1")
WATCH = ("watch", "--bootstrap-server", "127.0.0.1:1")
URL = ("--webhook", "https://h/x")
RUN = ("run", "--bootstrap-server", "127.0.0.1:1", "--checkpoint", "c", "--standby", "--adopt", "s")


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ((*EVENTS, "--follow", "--webhook-state", "f"), "app.cli.commands.events: --webhook-state has no"),
        ((*EVENTS, *URL), "app.cli.commands.events: --webhook needs --follow."),
        ((*WATCH, "--webhook-format", "slack"), "app.cli.outlets: … has no meaning"),
        ((*WATCH, *URL, "--webhook-format", "pagerduty"), "app.cli.outlets: --webhook-format pagerduty"),
        ((*WATCH, "--admin-only", "--no-probe"), "app.cli.commands.watch: --admin-only is"),
        (RUN, "streaming.config.settings: start once without"),
    ],
)
def test_flags_without_meaning(words: tuple[str, ...], key: str) -> None:
    """Refused before any broker is asked."""
    refused = invoke(*words)
    assert refused.exit_code == ExitCode.USAGE
    read_remedy(key, refused.stderr)
