"""Writes the golden events and schemas anew: ``cd tests && python -m golden.refresh``.

Run it after a change of the contract that is meant, and read the difference before you commit it.
"""

from __future__ import annotations

import json
from pathlib import Path

from groupreplay.coordinator.simulation.scenario_schema import scenario_schema
from groupreplay.state.output.catalogue import EVENTS
from groupreplay.state.output.schemas import json_schemas
from support.histories.samples import one_of_each, written

HERE = Path(__file__).parent

events = {
    fact.NAME: [written(event) for event in one_of_each() if type(event.fact) is fact] for fact in EVENTS
}
(HERE / "events.json").write_text(json.dumps(events, indent=1, ensure_ascii=False) + "\n")
(HERE / "schemas.json").write_text(json.dumps(json_schemas(), indent=1, ensure_ascii=False) + "\n")
(HERE / "scenario_file_schema.json").write_text(
    json.dumps(scenario_schema(), indent=1, ensure_ascii=False) + "\n"
)
