"""One client of a simulated group: what it knows of itself, and what becomes of it.

Must not know what it does next: `simulated_group` decides that, and `simulated_consumer` for KIP-848.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class SimulatedClient:
    """A consumer. ``turn`` counts its plans: one that was made for an earlier turn is dropped."""

    name: str
    host: str
    instance_id: str | None
    #: Whether it speaks KIP-848.
    modern: bool = False
    alive: bool = False
    hangs: bool = False
    member_id: str = ""
    generation: int = -1
    owned: tuple[int, ...] = ()
    waits: bool = False
    commits_at_ms: int = 0
    turn: int = 0
    life: int = 0
    starts: int = 0
