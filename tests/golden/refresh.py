"""Writes the golden events and schemas anew: ``cd tests && python -m golden.refresh``.

Forms of conditions are only added to stored_conditions.json, because later commits must read what earlier ones stored.
Run it after a change of the contract that is meant, and read the difference before you commit it.
"""

from __future__ import annotations

import json
from pathlib import Path

from groupreplay.state.output.catalogue import EVENTS
from groupreplay.state.output.schemas import json_schemas
from support.histories.samples import one_of_each, written
from support.stored import conditions as stored_conditions

HERE = Path(__file__).parent

events = {
    fact.NAME: [written(event) for event in one_of_each() if type(event.fact) is fact] for fact in EVENTS
}
(HERE / "events.json").write_text(json.dumps(events, indent=1, ensure_ascii=False) + "\n")
(HERE / "schemas.json").write_text(json.dumps(json_schemas(), indent=1, ensure_ascii=False) + "\n")
stored = stored_conditions.with_new_forms(
    stored_conditions.load(), (one for some in events.values() for one in some)
)
stored_conditions.FILE.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")
