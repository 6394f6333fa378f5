"""What is remembered of a group: how much at most, and what a hole in the history may not teach."""

from __future__ import annotations

from builders import GROUP, PARTITION, asked_for, generation, member, observed, placed, replay
from connect_blobs import worker

from groupreplay.codecs import MemberMetadata
from groupreplay.state.events import MemberLeft
from groupreplay.state.habits import KEPT_MS, Habits, learn
from groupreplay.state.phases import Phase
from groupreplay.state.report import Report
from groupreplay.state.saved import Saved

HOUR = 3_600_000


def learned(*rounds: list[MemberMetadata], every: int = 60_000) -> Habits:
    """The memory after generations of these members, an equal time apart."""
    history = [asked_for(at=1)]
    history += [generation(number, *members, at=number * every) for number, members in enumerate(rounds, 1)]
    group, _ = replay(history)
    assert group._saved.habits is not None
    return group._saved.habits
