"""A small form of ``benchmarks/members/stops.py``: groups of both protocols stop, and what that cost is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.stops.run import KINDS, played

pytestmark = [pytest.mark.broker, pytest.mark.timeout(1_800)]


def test_cost_of_stops(tmp_path: Path) -> None:
    """A stop of a classic and of a KIP-848 group: all comparisons with the clients and with Kafka's tool hold."""
    lines: list[str] = []
    score, tally = played(
        tmp_path,
        lines.append,
        kinds=("transactional",),
        stops=("away",),
        seconds=32.0,  # a time without commits is one from 30 s on
        pause_seconds=6.0,
    )
    assert (score.stops, score.cost.count) == (2, 2)
    assert tally.count > 0
    assert [*score.wrong(), *tally.wrong] == []


@pytest.mark.long
def test_sixty_stops(tmp_path: Path) -> None:
    """Twelve groups of both protocols stop five times: topics that are plain, transactional, compacted, or recreated.

    It is the run of the table in docs/lag.md.
    """
    lines: list[str] = []
    stops = ("away", "stuck", "away", "stuck", "away")
    score, tally = played(tmp_path, lines.append, kinds=KINDS, stops=stops, seconds=40.0)
    assert (score.stops, score.cost.count) == (60, 60)
    assert tally.count > 0
    assert [*score.wrong(), *tally.wrong] == []
