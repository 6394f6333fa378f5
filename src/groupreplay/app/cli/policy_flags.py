"""Flags that decide which events are emitted and what they contain: rules, redaction, labels, event types.

Imports nothing heavy: ``--help`` loads this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groupreplay.app.cli.flag_values import pair
from groupreplay.app.cli.options import file_flag, flag, group, pairs_flag, switch
from groupreplay.streaming.base.errors import did_you_mean

if TYPE_CHECKING:
    from groupreplay.state.policy.redaction import Redaction
    from groupreplay.streaming.config.rules_file import RulesSource


def _rules(**values: Any) -> RulesSource:
    from groupreplay.streaming.config.rules_file import RulesSource

    return RulesSource(**values)


def rules_file_flag(**more: Any) -> Any:
    """A field with the rules of a file, and of these other fields."""
    text = "Rules for groups: thresholds, labels, groups to ignore (docs/cli.md)."
    return group(_rules, path=file_flag(text, "--rules"), **more)


def rules_flags() -> Any:
    """A field with the rules of a file and single thresholds."""
    return rules_file_flag(
        thresholds=flag(
            "Set one number of the rules for all groups, for example rebalance.stuck.threshold_ms=3000, or the page "
            "that events link to, runbook=ADDRESS; overrides the file; may be repeated.",
            "--rule",
            type=pair,
            multiple=True,
            metavar="NUMBER=VALUE",
        )
    )


def _redaction(redact: str | None, redact_key_file: Path | None) -> Redaction | None:
    if redact is None and redact_key_file is None:
        return None
    from groupreplay.streaming.config.redaction_key import need_redaction

    return need_redaction(redact, redact_key_file)


def redaction_flags() -> Any:
    """A field with the ``Redaction``, None without its flags."""
    text = "Replace these by a keyed hash (comma-separated): hosts, client-id, member-id, instance-id."
    return group(
        _redaction,
        redact=flag(text, metavar="WHAT"),
        redact_key_file=file_flag("Secret key of the hashes, at least 16 bytes."),
    )


def member_events_flag() -> Any:
    """A field that is true if events about members are asked for."""
    return switch("Also emit member.joined, member.updated, and member.left of severity INFO.")


def labels_flag() -> Any:
    """A field with the labels of all events."""
    return pairs_flag("Label to add to every event; may be repeated.", "--label")


def need_event_types(names: Sequence[str]) -> frozenset[str] | None:
    """The CloudEvents types of events by name; None for all events.

    Raises:
        UsageError: there is no event of that name.
    """
    from groupreplay.state.output.envelope import event_type
    from groupreplay.state.output.schemas import EVENTS

    known = [event.NAME for event in EVENTS]
    for name in names:
        if name not in known:
            near = [one for one in known if name in one.split(".")]
            hint = f"did you mean {' or '.join(near)}? " if near else did_you_mean(name, known)
            raise click.UsageError(f"There is no event {name!r}; {hint}there are {', '.join(known)}.")
    return frozenset(map(event_type, names)) or None
