"""How far offsets may be moved before it is more than information: bounds of the policy, for events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, get_type_hints

from groupreplay.state.events.event import Severity
from groupreplay.state.policy.rules import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedOffsets:
    """Offsets are moved by `offsets.set`, `offsets.reset` or `offset.rewound`, in all partitions of the event together.

    It is a WARN if more than `most_repeated` records are read again, and an ERROR if more than `most_skipped` are not
    read.
    """

    name: ClassVar[str] = "offsets.moved"
    most_repeated: int = 10_000
    most_skipped: int = 500

    @classmethod
    def thresholds(cls) -> dict[str, Any]:
        """The name of each bound and its type."""
        types = get_type_hints(cls)
        return {one.name: types[one.name] for one in fields(cls)}

    @classmethod
    def of(cls, rules: Rules) -> MovedOffsets:
        """The bounds of a group with these rules."""
        given: Mapping[str, Any] = rules.thresholds.get(cls.name, {})
        return cls(**given)

    def severity(self, *, repeated: int, skipped: int) -> Severity:
        """That of an event after which at most so many records are read again, and not at all."""
        if skipped > self.most_skipped:
            return Severity.ERROR
        return Severity.WARN if repeated > self.most_repeated else Severity.INFO
