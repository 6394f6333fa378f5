"""What the members of a group did lately, by slot."""

from __future__ import annotations

import msgspec


class Mark(msgspec.Struct, array_like=True):
    """An operation that completed generations or changed slots; ``slots`` are short hashes of those slots."""

    at_ms: int
    generations: int
    slots: tuple[int, ...]


class Takeover(msgspec.Struct, array_like=True, frozen=True):
    """A static member that came back under a new member id; a place is ``client id@host``."""

    at_ms: int
    old_place: str
    new_place: str


class Slot(msgspec.Struct, array_like=True):
    """A slot and its present or last holder.

    ``returned_ms``: when a holder came back under a new member id; ``dropped_ms``: when the broker removed a holder;
    ``left_ms`` is set while the slot has no holder. ``idle_rounds`` counts generations without a partition.
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


class MemberCount(msgspec.Struct, array_like=True, frozen=True):
    """How many members a group had from this time on."""

    at_ms: int
    members: int


class Leader(msgspec.Struct, array_like=True, frozen=True):
    """A member that leads a classic group, and when its slot became the leader."""

    at_ms: int
    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None


class SlotHistory(msgspec.Struct, array_like=True):
    """The history of one group; ``slots`` are by a hash of instance id, or of client id and host, or of member id.

    ``number`` is the last generation or group epoch. ``config_offset`` is that of a Connect group, ``configured``
    whether it changed with the last generation. ``unsettled`` counts probes that did not show Stable, by minute.
    ``durations_ms`` are upper bounds of the last rebalances, the latest one last. ``counts`` are the last numbers of
    members; ``stopped_ms`` is when a member last left on purpose or was started again (-1: never).
    ``leaders`` are the last slots that led, the present one last.
    """

    slots: dict[str, Slot] = {}
    marks: list[Mark] = []
    number: int | None = None
    config_offset: int = -1
    configured: bool = False
    unsettled: dict[int, int] = {}
    durations_ms: tuple[int, ...] = ()
    counts: tuple[MemberCount, ...] = ()
    stopped_ms: int = -1
    leaders: tuple[Leader, ...] = ()


def usual_duration_ms(history: SlotHistory | None, least: int) -> int | None:
    """95 % of the rebalances took no longer; None before there were so many of them."""
    durations_ms = sorted(history.durations_ms) if history is not None else []
    if not durations_ms or len(durations_ms) < least:
        return None
    return durations_ms[-(-95 * len(durations_ms) // 100) - 1]
