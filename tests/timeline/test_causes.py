"""The table of causes: what a row must have, and that its words lead somewhere."""

from __future__ import annotations

import re
import string

import pytest

from groupreplay.app.cli.program import COMMANDS
from groupreplay.state.conditions.registry import KINDS
from groupreplay.timeline.causes import CAUSES, Cause, cause_of
from groupreplay.timeline.episodes import OFFSET_CHANGES, Episode
from support.kafka.runbook_commands import CLASSES
from support.paths import ROOT
from timeline.test_episodes import FACTS, MEMBER, told

#: What ``chain.first_step`` fills in.
PLACES = {"who", "group", "sign", "place", "topic", "partition", "offset", "log_partition", "fix"}
#: Signs that are no condition.
OTHER_SIGNS = {"member.left", "leader.slow", "generations.failed", *OFFSET_CHANGES}


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: f"{cause.name} {sorted(cause.signs)[0]}")
def test_a_row(cause: Cause) -> None:
    """Its signs exist, its section is in the runbook, its command is one of ours or of Kafka's tools."""
    assert cause.signs | cause.explains <= {*KINDS, *OTHER_SIGNS}
    headings = re.findall(r"^##+ (.*)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE)
    assert cause.section in {heading.lower().replace(" ", "-") for heading in headings}
    program, *words = cause.command.split()
    assert program in CLASSES or (program == "groupreplay" and words[0] in COMMANDS)
    places = {
        name for text in (cause.first, cause.command) for _, name, _, _ in string.Formatter().parse(text)
    }
    assert places - {None} <= PLACES


def test_the_first_row_whose_sum_holds() -> None:
    """A reason that no row knows has no cause; an observation has none where the row asks for a warning."""

    def cause(sign: str, severity: str, **data: object) -> str | None:
        episode = Episode(
            sign=sign, since_ms=100, until_ms=200, severity=severity, event=told(sign, 150, severity, **data)
        )
        concluded = cause_of(episode, FACTS)
        return None if concluded is None else concluded[0].name

    assert cause("member.left", "WARN", reason="unknown", **MEMBER) is None
    assert cause("rebalance.slow", "INFO", reason="not_joined") is None
    # No event of it is in a log: it has no id, and nothing is stated without evidence.
    assert cause("offsets.expired", "ERROR") is None
