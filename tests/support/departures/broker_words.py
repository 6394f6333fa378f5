"""What really ended each membership, in the words of the broker's own log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

#: Pattern of a line -> the reason. A group is the member's id, or for ``instance`` its instance id.
_LINES: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"Member (\S+) in group \S+ has failed, removing it from the group"), "session_timeout"),
    (re.compile(r"Member (\S+) fenced from the group because the member session expired"), "session_timeout"),
    (re.compile(r"Member (\S+) fenced from the group because it failed to transition"), "rebalance_timeout"),
    (re.compile(r"Member (\S+) has left group through explicit `LeaveGroup`"), "left"),
    (
        re.compile(r"Static member \S* ?with instance id (?P<instance>\S+) has left group through explicit"),
        "left",
    ),
    (re.compile(r"Member (\S+) left the consumer group"), "left"),
)
_LATE: Final = re.compile(r"removed dynamic members who haven't joined: \[([^\]]*)\]")


def endings(log: Path) -> Mapping[str, str]:
    """Member id, or instance id where the line has no other -> ``left``, or the timeout that removed it."""
    return dict(_endings(log.read_text("utf-8", "replace").splitlines()))


def _endings(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        late = _LATE.search(line)
        if late is not None:
            for member_id in late[1].split(", "):
                yield member_id, "rebalance_timeout"
        for pattern, reason in _LINES:
            if (found := pattern.search(line)) is not None:
                yield found[1], reason
