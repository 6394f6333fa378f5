"""Writes the golden events and schemas anew: ``cd tests && python -m golden.refresh``.

Run it after a change of the contract that is meant, and read the difference before you commit it.
"""

from __future__ import annotations

from groupreplay.state.output.envelope import EVENTS, json_schemas
from support.histories.golden import write_events, write_schemas
from support.histories.samples import one_of_each, written

write_events(
    {fact.NAME: [written(event) for event in one_of_each() if type(event.fact) is fact] for fact in EVENTS}
)
write_schemas(json_schemas())
