"""Everything that is kept of one group between two calls.

The layout is positional: a field may be added at the end of a struct with a default; anything else needs a new
version of the snapshot and a reader for the old one (``storage``).
"""

from __future__ import annotations

import msgspec

from groupreplay.state.snapshot.conditions import Conditions
from groupreplay.state.snapshot.group_state import GroupState
from groupreplay.state.snapshot.log_position import LogPosition, ProbeQueue
from groupreplay.state.snapshot.losses import Losses, OffsetSets
from groupreplay.state.snapshot.offsets import OffsetsSnapshot
from groupreplay.state.snapshot.slot_history import SlotHistory


class GroupActivity(msgspec.Struct, array_like=True):
    """What the group did in all its life, deletions included.

    ``born_ms``: first record read, -1 for none. ``peopled``: the group has had members; ``empty``: it has none
    since. ``returns`` counts how often members came back to the empty group, ``commits`` all commits; ``widest``
    is the largest number of partitions with an offset. ``staffed_ms`` is when members came to the group that had none,
    -1 for never.
    """

    born_ms: int = -1
    peopled: bool = False
    empty: bool = False
    returns: int = 0
    commits: int = 0
    widest: int = 0
    staffed_ms: int = -1


class Repetitions(msgspec.Struct, array_like=True):
    """Events that the group can repeat without end: when each was emitted in the last minute, by a hash of it.

    ``suppressed`` counts those that were not emitted since the last one of their type, by name.
    """

    emitted: dict[bytes, int] = {}
    suppressed: dict[str, int] = {}


class GroupSnapshot(msgspec.Struct, array_like=True):
    """One part for each owner: the module that changes it.

    ``log`` and ``probes`` belong to ``state.group``, ``group`` to the modules that apply records and probes,
    ``conditions`` to the condition tracker. ``slot_history`` is None for a group that does not exist;
    ``document_digest`` is that of the last document that was written, empty for none.
    """

    log: LogPosition = msgspec.field(default_factory=LogPosition)
    probes: ProbeQueue = msgspec.field(default_factory=ProbeQueue)
    group: GroupState = msgspec.field(default_factory=GroupState)
    offsets: OffsetsSnapshot | None = None
    losses: Losses = msgspec.field(default_factory=Losses)
    activity: GroupActivity = msgspec.field(default_factory=GroupActivity)
    slot_history: SlotHistory | None = None
    conditions: Conditions = msgspec.field(default_factory=Conditions)
    document_digest: bytes = b""
    repeats: Repetitions = msgspec.field(default_factory=Repetitions)
    sets: OffsetSets = msgspec.field(default_factory=OffsetSets)
