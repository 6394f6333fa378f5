"""Incidents of known cause, played by real clients on real brokers: the diagnosis names the cause and the member.

``benchmarks/members/incidents.py --page`` writes the same table to docs/simulations.md, with the simulated ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.diagnosed.real_incidents import REAL_INCIDENTS
from support.diagnosed.recorded import explained, record_incidents
from support.diagnosed.scores import IncidentScore, judge_real


@pytest.mark.broker
@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_real_incidents(tmp_path: Path) -> None:
    """95 % of the causes and 98 % of the blame are right, and nothing is stated of healthy groups."""
    record_incidents(tmp_path, REAL_INCIDENTS, print)
    score = IncidentScore(
        [judge_real(incident, explained(tmp_path, incident)) for incident in REAL_INCIDENTS]
    )
    assert len(score.incidents) >= 12
    assert score.holds(), score.wrong()


def test_what_is_wrong_is_counted() -> None:
    """Another cause, another member, and a cause of a healthy group: each makes the table fail."""
    by_group = {incident.group: incident for incident in REAL_INCIDENTS}
    killed = {"cause": "process_lost", "blamed": [{"name": "killed-c"}], "text": ""}

    def holds(group: str, *diagnosis: dict[str, object]) -> bool:
        return IncidentScore([judge_real(by_group[group], diagnosis)]).holds()

    assert holds("killed", killed)
    assert not holds("killed", {**killed, "cause": "gave_up"})
    assert not holds("killed", {**killed, "blamed": [{"name": "killed-a"}]})
    assert not holds("killed", killed, {**killed, "cause": "crash_loop"})
    assert not holds("scaled", killed)
    rolled = {"cause": None, "blamed": [], "text": "3 members were restarted one after another."}
    assert holds("rolling", rolled)
    assert not holds("rolling", {**rolled, "text": ""})
