"""What readers decode of events and of groups' documents: the fields that more than one reader needs, declared once.

Readers add the fields that they alone need in a subclass. A field that a document of an earlier release may not have
has a default. The tests compare the names with what ``envelope`` and ``document`` write: a default would hide a field
that nobody writes any more.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

#: An integer of 64 bits: Python's own have no limit, and one of 400 digits cannot be divided.
Integer: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class EventHead(msgspec.Struct):
    """The attributes of a CloudEvent that readers need; each declares ``data`` with the fields that it needs."""

    id: str
    type: str
    time: Annotated[str, Meta(max_length=40)]
    severitynumber: Integer
    severitytext: str


class ConditionForm(msgspec.Struct):
    """An active condition in a document."""

    condition: str
    severity: str
    condition_id: str = ""
    since_ms: Integer | None = None


class OffsetSums(msgspec.Struct):
    """The committed offsets of a group: how many, and when the first of them may be removed."""

    partitions: Integer = 0
    next_expiry_ms: Integer | None = None


class GroupHead(msgspec.Struct):
    """A group's document without its members, who may be many, and without its conditions."""

    group_id: str
    cluster_id: str = ""
    type: str = ""
    simple: bool = False
    state: str = ""
    generation: Integer | None = None
    group_epoch: Integer | None = None
    since_ms: Integer | None = None
    member_count: Integer = 0
    offsets: OffsetSums = msgspec.field(default_factory=OffsetSums)
    labels: dict[str, str] = {}

    @property
    def epoch(self) -> int | None:
        """The generation, or the group epoch of a newer kind of group."""
        return self.generation if self.group_epoch is None else self.group_epoch
