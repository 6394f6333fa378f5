"""How likely members that came back had been back within a session, and which rebalances that would have saved."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from groupreplay.coordinator.simulation.script import MINUTE_MS, SECOND_MS
from groupreplay.coordinator.simulation.script_steps import Restart as RestartStep
from groupreplay.coordinator.simulation.script_steps import ScriptedEvent
from groupreplay.timeline.advice.aways import Away, aways, savings
from groupreplay.timeline.document import Tenure
from groupreplay.timeline.likely import Part
from groupreplay.timeline.rolling_restarts import Restart, restarts
from support.simulated.advised import scripted, simulated

SESSION_MS = 45_000


@dataclass(frozen=True)
class Moved:
    """A rebalance in which members came and went."""

    at_ms: int
    came: frozenset[str] = field(default_factory=frozenset)
    went: frozenset[str] = field(default_factory=frozenset)


def away(before: str, after: str, likely_ms: Part | None, *, waited: bool = False) -> Away:
    """A member that came back as another one; how long it was away is inferred."""
    tenures = [
        Tenure(member_id=name, since_ms=number, until_ms=number + 1, reason="left")
        for number, name in enumerate((before, after))
    ]
    restart = Restart((None, "client", "/1"), *tenures)
    return Away(restart, 0, 90_000, likely_ms=likely_ms, joins_ms=2_000, is_waited_for=waited)


def test_a_member_is_back_before_its_session_ends_or_in_the_rebalance_of_its_end() -> None:
    """The second one saves one rebalance; one that a rebalance waited for was back before, whatever else is known."""
    assert away("a", "b", Part.evenly(10_000, 14_000)).chances(SESSION_MS) == (1, 1)
    assert away("a", "b", Part.evenly(45_500, 46_500)).chances(SESSION_MS) == (0, 1)
    assert away("a", "b", Part.evenly(43_100, 46_900)).chances(SESSION_MS) == (0.5, 1)
    assert away("a", "b", Part.evenly(60_000, 64_000)).chances(SESSION_MS) == (0, 0)
    assert away("a", "b", None).chances(SESSION_MS) is None
    assert away("a", "b", None, waited=True).chances(SESSION_MS) == (1, 1)


def test_each_rebalance_has_the_chance_of_its_restart() -> None:
    """A member that came back may go again: both restarts have their own chance."""
    absences = [
        away("a", "b", Part.evenly(43_100, 46_900)),
        away("b", "c", Part.evenly(60_000, 64_000)),
        away("x", "y", None),
    ]
    rebalances = [
        Moved(1, went=frozenset("a")),
        Moved(2, came=frozenset("b")),
        Moved(3),
        Moved(4, went=frozenset("b")),
        Moved(5, came=frozenset("c")),
        Moved(6, went=frozenset("x")),
        Moved(7, came=frozenset("b"), went=frozenset("x")),
        Moved(8, went=frozenset("z")),
        Moved(9, came=frozenset("c"), went=frozenset("a")),
        Moved(10, went=frozenset("z")),
    ]
    told = savings(rebalances, rebalances[-1:], absences, dict.fromkeys("abx", SESSION_MS))
    assert [(each.rebalance.at_ms, each.chance, each.unit) for each in told] == [
        (1, 0.5, "a"),
        (2, 1.0, "a"),
        # The second half of a cooperative one.
        (3, 1.0, "a"),
        (4, 0.0, "b"),
        (5, 0.0, "b"),
        (6, None, ""),
        (7, None, ""),
        # It may come back after the end of the history.
        (8, None, ""),
        (9, 0.0, "b"),
        (10, 1.0, ""),
    ]


def test_absences_of_the_model_are_as_long_as_inferred(tmp_path: Path) -> None:
    """Members that are away for 20 s, of which their last heartbeat was up to one interval before."""
    step = RestartStep("random", 20 * SECOND_MS)
    scenario = scripted(ScriptedEvent(every_ms=5 * MINUTE_MS, steps=(step,)))
    (history,) = simulated(scenario, tmp_path / "a.parquet", groups=1)
    found = aways(history, restarts(history.slots))
    assert len(found) >= 15
    for each in found:
        assert each.likely_ms is not None
        assert each.likely_ms.least <= 20_000 <= each.likely_ms.most
        assert each.likely_ms.most - each.likely_ms.least <= 9_000
        assert each.least_ms <= each.likely_ms.most
        assert each.chances(SESSION_MS) == (1, 1)
