"""Every event there is: the facts, then the conditions; what docs, schemas and tests are made from."""

from __future__ import annotations

from typing import Final

from groupreplay.state.conditions import CONDITIONS
from groupreplay.state.events import FACTS, Fact

#: In the order of the docs.
EVENTS: Final[tuple[type[Fact], ...]] = (*FACTS, *CONDITIONS)
