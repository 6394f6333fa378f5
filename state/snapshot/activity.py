"""How long a group has lived and how often it came back, as the snapshot keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    pass


class GroupActivity(msgspec.Struct, array_like=True):
    """``born_ms``: first record seen, -1 for none; ``peopled``: somebody was in it, ``empty`` nobody since.

    ``returns`` counts how often members came back, ``commits`` all commits; ``widest`` is the largest number of
    partitions with an offset.
    """

    born_ms: int = -1
    peopled: bool = False
    empty: bool = False
    returns: int = 0
    commits: int = 0
    widest: int = 0
