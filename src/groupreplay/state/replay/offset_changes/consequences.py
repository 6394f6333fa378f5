"""The severity of events about offsets that were moved: by how many records are read again or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from groupreplay.state.events.event import Severity
from groupreplay.state.policy.moved_offsets import MovedOffsets

if TYPE_CHECKING:
    from groupreplay.state.policy.rules import Rules


def severity_of_moves(moves: Iterable[tuple[int, int]], rules: Rules, *, most: Severity) -> Severity:
    """That of offsets that went from one place to another; ``most`` is the highest.

    A group that does not matter by the rules has nobody who would miss a record.
    """
    distances = [new - old for old, new in moves]
    if rules.matters is False:
        return Severity.INFO
    found = MovedOffsets.of(rules).severity(
        repeated=sum(-one for one in distances if one < 0), skipped=sum(one for one in distances if one > 0)
    )
    return min(found, most)
