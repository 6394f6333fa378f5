"""What the members of a group did lately, by slot, as the snapshot keeps it."""

from __future__ import annotations

import msgspec


class Mark(msgspec.Struct, array_like=True):
    """An operation that made generations or changed slots. ``slots``: short hashes of the latter."""

    at_ms: int
    generations: int
    slots: tuple[int, ...]


class Takeover(msgspec.Struct, array_like=True, frozen=True):
    """A static member that came back under a new member id; places are ``client id@host``."""

    at_ms: int
    old_place: str
    new_place: str


class Slot(msgspec.Struct, array_like=True):
    """A slot and its present or last holder: when it came back under a new member id, and when it was dropped.

    ``left_ms`` is set while nobody holds it. ``idle_rounds`` counts completed rounds without a partition.
    """

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    left_ms: int | None = None
    returned_ms: tuple[int, ...] = ()
    dropped_ms: tuple[int, ...] = ()
    rebalance_timeout_ms: int = -1
    takeovers: tuple[Takeover, ...] = ()
    idle_rounds: int = 0
    idle_since_ms: int = -1


class SlotHistory(msgspec.Struct, array_like=True):
    """The memory of one group; ``slots`` by a hash of what makes a slot.

    ``number`` is the last generation or group epoch. ``config_offset`` is that of a Connect group, ``configured``
    whether the last generation came with another one. ``unsettled`` counts answers of the prober that were
    not Stable, by minute.
    """

    slots: dict[str, Slot] = {}
    marks: list[Mark] = []
    number: int | None = None
    config_offset: int = -1
    configured: bool = False
    unsettled: dict[int, int] = {}
