"""A condition that holds, as documents show it, in the form in which the exporter keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from groupreplay.state.conditions.condition import Condition
from groupreplay.state.conditions.registry import KINDS
from groupreplay.state.display.safe_text import safe_text
from groupreplay.streaming.contract.message_decoder import Integer

#: Characters of ``Holding.who`` and of ``Holding.runbook``: a label must not fill a page.
_LIMIT: Final = 300


class Holding(msgspec.Struct, frozen=True, gc=False):
    """An active condition of a group or of the job (``what``: why it is blind).

    ``condition_id`` (empty: not known) is the same from its begin to its end, and it began at ``since_ms``. ``who`` are
    its blockers or suspects, or its subject, for people; ``runbook`` is the address of its section. An INFO has none of
    these, nor has one of a group that does not matter: nobody is told of it, and any number of groups may have one.
    """

    condition: str
    severity: str
    wedged: bool = False
    what: str | None = None
    condition_id: str = ""
    since_ms: Integer | None = None
    who: str = ""
    runbook: str = ""


class HeldForm(msgspec.Struct):
    """The fields of a condition in a document that become metrics. Those of ``Any`` differ between conditions."""

    condition: str
    severity: str
    wedged: bool = False
    matters: bool = True
    what: str | None = None
    condition_id: str = ""
    since_ms: Integer | None = None
    runbook: str = ""
    blockers: Any = None
    suspects: Any = None
    places: Any = None
    member_id: Any = None
    client_id: Any = None
    client_host: Any = None
    instance_id: Any = None
    topic: Any = None
    partition: Any = None

    def holding(self) -> Holding:
        """The condition, in bounded size."""
        if self.severity == "INFO" or not self.matters:
            return Holding(self.condition, self.severity, self.wedged, self.what)
        return Holding(
            condition=self.condition,
            severity=self.severity,
            wedged=self.wedged,
            what=self.what,
            condition_id=safe_text(self.condition_id, _LIMIT),
            since_ms=self.since_ms,
            who=_who(self.condition, msgspec.structs.asdict(self)),
            runbook=safe_text(self.runbook, _LIMIT),
        )


def _who(name: str, data: Mapping[str, Any]) -> str:
    """Blockers, suspects, or the one member or partition that it is about; empty when it is the whole group."""
    try:
        text = KINDS.get(name, Condition).who(data)
    except Exception:  # others may write to the topic; which one depends on the value
        return ""
    return safe_text(text, _LIMIT) if len(text) > _LIMIT else text
