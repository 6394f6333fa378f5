"""Simulated clients that send requests to the model of the coordinator, and the scenarios that say what they do.

For groups of your own make a ``Scenario``, then a ``SimulationPlan``, and give it to ``simulate`` or to
``groupreplay.app.simulate.files.write_simulation`` (docs/simulations.md).
"""

from groupreplay.coordinator.simulation.scenario import BrokerRestarts, FailedAppends, GroupSettings, Scenario
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.script import About, Between, Committer, OneOf, ShareOfTime
from groupreplay.coordinator.simulation.script_steps import (
    Crash,
    Deploy,
    Hang,
    Restart,
    Resume,
    Roll,
    Scale,
    ScriptedEvent,
    SlowPoll,
    Start,
    Stop,
)
from groupreplay.coordinator.simulation.simulation import SimulationPlan, simulate

__all__ = [
    "SCENARIOS",
    "About",
    "Between",
    "BrokerRestarts",
    "Committer",
    "Crash",
    "Deploy",
    "FailedAppends",
    "GroupSettings",
    "Hang",
    "OneOf",
    "Restart",
    "Resume",
    "Roll",
    "Scale",
    "Scenario",
    "ScriptedEvent",
    "ShareOfTime",
    "SimulationPlan",
    "SlowPoll",
    "Start",
    "Stop",
    "simulate",
]
