"""``deploy/rules.toml``, the default rules as a file to start from."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Iterator
from typing import Final

from groupreplay.state.conditions.detection import Detector
from groupreplay.state.conditions.registry import DETECTORS
from groupreplay.state.policy.rules import EPHEMERAL, MovedOffsets, Policy

_WIDTH: Final = 110

_INTRO: Final = """\
# The default rules, made from the code by `make docs`.
# `groupreplay run --rules rules.toml` takes a file like this one; the lines that differ are enough. The running job
# reads the file again when it changes; a file with a mistake is refused with a log line, and the former rules stay.
# `--rule rebalance.stuck.threshold_ms=3000` wins over the file. Times are in milliseconds.

# The page that events link to, with a fragment such as #rebalance-stuck.
"""

_GROUPS: Final = """\
# Rules for groups: all that match apply, in their order, and a later one wins over an earlier one. These are built in,
# and those of a file come after them: groups that tools create by the thousand and that do not matter.
# Globs know *, ? and [abc].
"""

_EXAMPLE: Final = """\
# Everything that a rule for groups can contain:
#
# [[group]]
# match = ["payments-*", "ledger"]
# matters = true                                # its expiring offsets are a warning
# severity_cap = "warn"                         # nothing is more than that; "info" or "warn"
# labels = { team = "payments", runbook = "https://wiki.example.com/payments" }   # go into its events
# rebalance.stuck.threshold_ms = 120000         # numbers of any condition
#
# [[group]]
# match = "*-test"
# ignore = true                                 # no events, no document
#
# Planned windows, such as deployments: meanwhile nothing about these groups is more than `severity_cap` ("info" or
# "warn", by default "info"). A condition that holds at the end of the window gets its own severity then; one that was
# reported before the window keeps its severity. `offsets.expired` is never capped by a window.
#
# [[window]]
# match = "payments-*"
# weekly = "Sat 02:00-04:00"                    # or ["Mon-Fri 12:00-12:30", "Sun 23:00-01:00"]
# zone = "Europe/Berlin"                        # by default UTC
#
# [[window]]
# match = ["orders-*", "ledger"]
# from = 2026-11-28T02:00:00+01:00
# until = 2026-11-28T04:00:00+01:00
# severity_cap = "warn"
"""


def _comment(text: str) -> Iterator[str]:
    for paragraph in text.replace("``", "`").split("\n\n"):
        yield from textwrap.wrap(
            paragraph, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
        )


def _section(detector: Detector | MovedOffsets) -> Iterator[str]:
    yield from _comment(inspect.getdoc(type(detector)) or "")
    yield f"[{detector.name}]"
    for name in detector.thresholds():
        value = getattr(detector, name)
        yield (
            f"# {name} = 180000   # not set: it follows from the other numbers"
            if value is None
            else (f"{name} = {json.dumps(value)}")
        )
    yield ""


def page() -> str:
    """The whole file, in TOML."""
    lines = [f"{_INTRO}runbook = {json.dumps(Policy().runbook)}", ""]
    detectors: tuple[Detector | MovedOffsets, ...] = (*DETECTORS, MovedOffsets())
    for detector in detectors:
        lines += _section(detector)
    globs = "".join(f"    {json.dumps(rule.groups)},\n" for rule in EPHEMERAL)
    lines += [f"{_GROUPS}[[group]]\nmatch = [\n{globs}]\nmatters = false\n", _EXAMPLE]
    return "\n".join(lines)
