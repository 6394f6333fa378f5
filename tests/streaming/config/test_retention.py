"""What flags, a broker's settings and a capture say about the retention together; releases in texts."""

from __future__ import annotations

import pytest

from groupreplay.streaming.config.retention import Retention, contradiction, effective, parsed_release
from groupreplay.streaming.config.settings import RetentionFlags


def test_a_capture_has_nobody_to_ask() -> None:
    """Only a flag can tell, or what was recorded; the flag counts first."""
    assert effective(RetentionFlags(retention_minutes=1), Retention()).retention_ms == 60_000
    assert effective(RetentionFlags(), Retention()) == Retention()
    recorded = Retention(retention_ms=1, check_interval_ms=2, broker_release=(3, 1))
    flags = RetentionFlags(check_interval_ms=7)
    assert effective(flags, recorded) == Retention(retention_ms=1, check_interval_ms=7, broker_release=(3, 1))


def test_clean_ups_further_apart_than_the_retention() -> None:
    """Kafka accepts that: offsets only stay for longer."""
    odd = contradiction(60_000, 120_000)
    assert odd is not None
    assert "an offset may stay for 2 min 0 s after its deadline" in odd
    assert contradiction(60_000, 60_000) is None
    assert contradiction(None, 120_000) is contradiction(60_000, None) is None


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("2.8", (2, 8)),
        ("2.8.1", (2, 8)),
        ("2.8-IV1", (2, 8)),
        ("3.10-IV0", (3, 10)),
        ("Kafka 3.9", (3, 9)),
        ("Kafka 4.0 or later", (4, 0)),
        ("simulated Kafka 3.9 (Scala coordinator)", (3, 9)),
        ("simulated", None),
        ("", None),
        ("4", None),
        ("x2.8", None),
        ("v23.1 of something", None),
        ("99999.1", None),
    ],
)
def test_a_release_in_a_text(text: str, release: tuple[int, int] | None) -> None:
    """As flags, brokers and captures write it; anything else is no release, and never guessed."""
    assert parsed_release(text) == release
