"""Flags that decide which events are emitted and what they contain: rules, redaction, event types.

Imports nothing heavy: ``--help`` loads this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from groupreplay.streaming.cli.flag_values import pair
from groupreplay.streaming.cli.options import file_option, option, option_group

if TYPE_CHECKING:
    from groupreplay.state.policy.redaction import Redaction
    from groupreplay.streaming.config.rules_file import RulesSource


def _rules(rules: Path | None, rule_numbers: Sequence[tuple[str, str]] = ()) -> RulesSource:
    from groupreplay.streaming.config.rules_file import RulesSource

    return RulesSource(path=rules, numbers=rule_numbers)


_RULES: Final = file_option(
    "--rules", help="Rules for groups: thresholds, labels, groups to ignore (docs/cli.md)."
)
rules_file_option: Final = option_group("rules", _rules, _RULES)
rules_options: Final = option_group(
    "rules",
    _rules,
    _RULES,
    option(
        "--rule",
        "rule_numbers",
        type=pair,
        multiple=True,
        metavar="NUMBER=VALUE",
        help="Set one number of the rules for all groups, for example rebalance.stuck.threshold_ms=3000; "
        "overrides the file; may be repeated.",
    ),
)


def _redaction(redact: str | None, redact_key_file: Path | None) -> Redaction | None:
    if redact is None and redact_key_file is None:
        return None
    from groupreplay.streaming.config.redaction_key import need_redaction

    return need_redaction(redact, redact_key_file)


redact_options: Final = option_group(
    "redaction",
    _redaction,
    option(
        "--redact",
        metavar="WHAT",
        help="Replace these by a keyed hash (comma-separated): hosts, client-id, member-id, instance-id.",
    ),
    file_option("--redact-key-file", help="Secret key of the hashes, at least 16 bytes."),
)


def need_event_types(names: Sequence[str]) -> frozenset[str] | None:
    """The CloudEvents types of events by name; None for all events.

    Raises:
        UsageError: there is no event of that name.
    """
    from groupreplay.state.output.catalogue import EVENTS
    from groupreplay.state.output.envelope import event_type

    known = [event.NAME for event in EVENTS]
    for name in names:
        if name not in known:
            raise click.UsageError(f"There is no event {name!r}; there are {', '.join(known)}.")
    return frozenset(map(event_type, names)) or None
