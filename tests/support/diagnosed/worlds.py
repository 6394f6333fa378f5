"""Timelines of incidents: simulated groups whose clients do what a scenario says, and histories written by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from groupreplay.app.report.timelines import TimelineQuery, group_timelines
from groupreplay.app.simulate.files import write_simulation
from groupreplay.app.text.event_text import text_of
from groupreplay.coordinator.simulation.scenario import ClientValue, GroupSettings, Scenario
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.script_steps import ScriptedEvent, ScriptedStep
from groupreplay.state import Context
from groupreplay.state.output.envelope import cloud_event
from groupreplay.state.policy.rules import Policy
from groupreplay.state.snapshot.observations import PendingTransactions, Probe
from groupreplay.streaming.engine.group_choice import GroupChoice
from groupreplay.streaming.sources.capture import read_captures
from groupreplay.timeline.document import TimelineDocument
from groupreplay.timeline.group_timeline import timeline_document
from groupreplay.timeline.states import ProbedState, TimelineInput
from support.histories.builders import GROUP, Raw, group_record, placed
from support.histories.probed import PROBING, told
from support.pictures.timelines import SOURCE, commit_log
from support.simulated.renderings import plan_of, probed_context

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
#: A timeline; a number other than 0 draws another world of the same kind, where numbers are drawn.
World = Callable[[int], TimelineDocument]
#: Clients that commit every five seconds, whether offsets have changed or not.
STEADY: Mapping[str, ClientValue] = {
    "auto.commit.interval.ms": 5_000,
    "partition.assignment.strategy": "range",
}


def clients(
    *steps: ScriptedStep,
    members: int = 3,
    minutes: int = 40,
    after_minutes: int = 10,
    every_minutes: int | None = None,
    client: Mapping[str, Any] | None = None,
    seed: int = 1,
    policy: Policy | None = None,
    **given: Any,
) -> World:
    """One group whose members do this ten minutes after they have started; ``given`` as for ``Scenario``."""
    every_ms = None if every_minutes is None else every_minutes * MINUTE
    events = (
        (ScriptedEvent(after_ms=after_minutes * MINUTE, every_ms=every_ms, steps=steps),) if steps else ()
    )
    group = {"partitions": 12, "repeats": 0.2, **given.pop("group", {})}
    scenario = Scenario(
        name="g",
        client={**STEADY, **(client or {})},
        group=GroupSettings(members=members, **group),
        events=events,
        **given,
    )
    return lambda draw: _simulated(scenario, minutes * MINUTE, seed + 100 * draw, policy=policy or Policy())


def scenario(name: str, hours: float = 1, seed: int = 1, **settings: Any) -> World:
    """One group of a scenario that is built in; ``settings`` as for ``Context``."""
    return lambda draw: _simulated(SCENARIOS[name], int(hours * HOUR), seed + 100 * draw, **settings)


def _simulated(chosen: Scenario, duration_ms: int, seed: int, **settings: Any) -> TimelineDocument:
    plan = plan_of(chosen, 1, duration_ms, seed)
    context = probed_context(plan, **settings)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "incident.parquet"
        write_simulation(plan, path)
        (document,), _ = group_timelines(
            read_captures([path]), context, TimelineQuery(groups=GroupChoice(), source=SOURCE)
        )
    return document


def history(
    *records: Raw | Sequence[Raw],
    probes: Sequence[Probe | PendingTransactions] = (),
    until: int | None = None,
    context: Context = PROBING,
    **given: Any,
) -> World:
    """A history written by hand, with the answers of a prober; ``given`` as for ``TimelineInput``."""
    flat = [raw for part in records for raw in ([part] if isinstance(part, Raw) else part)]

    def document(_: int) -> TimelineDocument:
        log = placed(sorted(flat, key=lambda raw: raw.at))
        end_ms = max(raw.at for raw in log) + SECOND if until is None else until
        events = told(log, list(probes), end_ms, context)[1]
        defaults: dict[str, Any] = {
            "group_id": GROUP,
            "source": SOURCE,
            "events": [json.loads(cloud_event(one, context, one.time_ms).value) for one in events],
            "end_ms": end_ms,
            "has_log": True,
            "probed": context.probing,
            "records": [group_record(raw) for raw in log],
            "commits": commit_log(log),
            "answers": [
                ProbedState(one.taken_ms, one.taken_ms, one.state, broker=one.broker)
                for one in probes
                if isinstance(one, Probe)
            ],
        }
        return timeline_document(TimelineInput(**{**defaults, **given}), text_of)

    return document
