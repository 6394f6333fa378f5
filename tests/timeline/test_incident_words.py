"""What is told of an incident in one sentence."""

from __future__ import annotations

import pytest

from groupreplay.state.events.incident_events import Shared
from groupreplay.timeline.incident_words import incident_text


@pytest.mark.parametrize(
    ("others", "of", "words"),
    [
        (0, 0, "which are all groups"),
        (0, 1, "the other one does not"),
        (1, 1, "so does the other one"),
        (0, 3, "none of the 3 others does"),
        (1, 3, "so does 1 of the 3 others"),
        (2, 3, "so do 2 of the 3 others"),
    ],
)
def test_how_many_others_share_it(others: int, of: int, words: str) -> None:
    """Nouns and verbs agree with each number."""
    incident = {
        "kinds": {"commits.paused": 4},
        "group_count": 4,
        "since_ms": 1_000,
        "last_began_ms": 1_000,
        "shared": [Shared(kind="topic", value="t", groups=4, other_groups=others, all_other_groups=of)],
    }
    assert incident_text(incident, None, 4 + of) == (
        f"4 groups stopped committing at 00:00:01 UTC in one moment; all consume topic t, {words}"
    )
