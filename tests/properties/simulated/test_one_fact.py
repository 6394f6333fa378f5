"""One fact is told in one way, by whatever command, page or server: no contradictions in simulated histories.

Compared are, for each group:

- the severity of each event (envelope, table of the report, ``describe --history``), and the tone of the group (events,
  headline, dot of the overview, its strip, strip of ``serve``);
- begin, end, severity and number of conditions (events, bars, strip of the overview, strip of ``serve``);
- partitions that lost their offsets (event, its text, marks, verdict, overview);
- number and length of rebalances, and the name of a slow leader (event, its text, flag, lanes, ``describe --history``,
  verdict, overview, ``serve``);
- states and present members (lanes, ``describe --states``, ``describe``), and deadlines (report, ``describe``);
- gaps (report, ``describe --history``, remark; none where nothing is missing);
- members that left, were replaced or are blamed (bars, events);
- lag, and of how many partitions it is known (``list``, ``list --topic``, ``describe``, ``lag``, ``lag --since``).

``watch`` has the same events, as ``tests/streaming/watch/test_polls.py`` proves for each scenario; incidents are the
same live and in a capture (``tests/timeline/test_incidents.py``); ``explain`` prints the verdict of the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from groupreplay.app.inspection import lag_history
from groupreplay.app.text import event_text
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.state.phrases import RebalanceLength
from groupreplay.state.replay import classic
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.group_state import GroupState
from groupreplay.timeline import findings, overview
from groupreplay.timeline.document import Hole
from groupreplay.timeline.event_reading import ReadEvent
from groupreplay.timeline.facts import MemberEnd, MemberEnds
from groupreplay.timeline.lag import Lag, Range, total
from support.simulated.contradictions import contradictions
from support.simulated.renderings import (
    HOUR_MS,
    MINUTE_MS,
    GroupRenderings,
    SimulatedLog,
    Variant,
    changed,
    compacted,
    renderings,
    replaced_again,
    simulated_log,
    slowly_led,
)

#: What is done to each log; None: nothing.
VARIANTS: tuple[Variant | None, ...] = (None, compacted, slowly_led, replaced_again)
#: Scenarios whose story needs longer, or whose groups have many records.
DURATIONS_MS = {"weekend": 72 * HOUR_MS, "mirrored": 2 * HOUR_MS, "poison": HOUR_MS, "pause": HOUR_MS}


def duration_ms(scenario: str, usual_ms: int) -> int:
    """How long a scenario is simulated."""
    return DURATIONS_MS.get(scenario, usual_ms // 4 if "-50-" in scenario else usual_ms)


def all_renderings(folder: Path, log: SimulatedLog) -> list[GroupRenderings]:
    """Those of the log, and of the log after each change."""
    logs = [log if variant is None else changed(log, variant) for variant in VARIANTS]
    return [group for one in logs for group in renderings(folder, one)]


# Fifty members do what ten do; the long test below has them.
@pytest.mark.parametrize("scenario", [one for one in SCENARIOS if "-50-" not in one])
def test_no_contradiction(tmp_path: Path, scenario: str) -> None:
    """One group of each scenario for half an hour or longer: as it is, and after each change of its log."""
    log = simulated_log(scenario, 1, duration_ms(scenario, HOUR_MS // 2), seed=1)
    groups = all_renderings(tmp_path, log)
    assert len(groups) >= len(VARIANTS)
    assert [text for group in groups for text in contradictions(group)] == []


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_contradiction_in_many(tmp_path: Path, scenario: str) -> None:
    """Six groups of each of the 42 scenarios, as they are and after each change of the log: 1 008 histories."""
    log = simulated_log(scenario, 6, duration_ms(scenario, HOUR_MS // 2), seed=2)
    groups = all_renderings(tmp_path, log)
    assert len(groups) >= len(VARIANTS) * 6
    assert [text for group in groups for text in contradictions(group)] == []


# Each of the faults that were found, made again: the comparison must find it.


def _bound_of_the_join_phase(data: dict[str, Any]) -> RebalanceLength:
    """The bound of the join phase as the length of the whole."""
    return RebalanceLength(
        least_ms=0, most_ms=data.get("duration_upper_bound_ms"), sync_ms=None, slow_leader=None
    )


_holes = findings.holes


def _holes_with_a_length(events: list[ReadEvent], since_ms: int) -> list[Hole]:
    """Without what lies before the first event."""
    return [hole for hole in _holes(events, since_ms) if hole.since_ms < hole.until_ms]


def _no_event(_: MemberEnds, *_place: object) -> MemberEnd:
    """A diamond that belongs to no event."""
    return MemberEnd()


def _only_warnings(event: ReadEvent) -> bool:
    """A loss of severity INFO and a slow leader are no trouble for one of the forms."""
    return event.severity != "INFO"


def _forget_all(snapshot: GroupSnapshot) -> None:
    """A deleted group of which nothing is known any more, not even that its history was."""
    snapshot.group = GroupState()


def _lag_of_the_first_partition(lags: Iterable[Lag]) -> tuple[Range | None, Range | None, int]:
    """As if a topic had one partition."""
    return total(list(lags)[:1])


FAULTS: dict[str, tuple[str, Variant | None, object, str, Callable[..., object]]] = {
    "length": ("deployment", slowly_led, event_text, "rebalance_length", _bound_of_the_join_phase),
    "gaps": ("rolling-restart-3-dynamic-eager", compacted, findings, "holes", _holes_with_a_length),
    "diamonds": ("crash-loop", replaced_again, MemberEnds, "of_process", _no_event),
    "tones": ("deployment", slowly_led, overview, "is_trouble", _only_warnings),
    "lags": ("deployment", None, lag_history, "total", _lag_of_the_first_partition),
    "remarks": ("expiry", None, classic, "forget", _forget_all),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """No comparison passes by comparing nothing."""
    scenario, variant, place, name, faulty = FAULTS[fault]
    log = simulated_log(scenario, 1, 3 * HOUR_MS, seed=1)
    log = log if variant is None else changed(log, variant)
    assert [text for group in renderings(tmp_path, log) for text in contradictions(group)] == []
    monkeypatch.setattr(place, name, faulty)
    assert [text for group in renderings(tmp_path, log) for text in contradictions(group)] != []


def test_the_changed_logs_have_what_they_are_for(tmp_path: Path) -> None:
    """A cleaned log has gaps, a slowly led one names its leader, static members that flap repeat their event."""
    log = simulated_log("deployment", 1, 3 * HOUR_MS, seed=1)
    (cleaned,) = renderings(tmp_path, changed(log, compacted))
    (led,) = renderings(tmp_path, changed(log, slowly_led))
    assert cleaned.report.holes
    assert any(flag.slow_leader for flag in led.report.generations)
    looping = simulated_log("crash-loop", 1, 30 * MINUTE_MS, seed=1)
    (replaced,) = renderings(tmp_path, changed(looping, replaced_again))
    assert any(row.repeats for row in replaced.report.events)
