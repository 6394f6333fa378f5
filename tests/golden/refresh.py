"""Writes the golden events and schemas anew: ``cd tests && python golden/refresh.py``.

Run it after a change of the contract that is meant, and read the difference before you commit it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from samples import one_of_each, written  # noqa: E402

from groupreplay.state.catalogue import EVENTS  # noqa: E402
from groupreplay.state.schemas import json_schemas  # noqa: E402

events = {
    fact.NAME: [written(event) for event in one_of_each() if type(event.fact) is fact] for fact in EVENTS
}
(HERE / "events.json").write_text(json.dumps(events, indent=1, ensure_ascii=False) + "\n")
(HERE / "schemas.json").write_text(json.dumps(json_schemas(), indent=1, ensure_ascii=False) + "\n")
