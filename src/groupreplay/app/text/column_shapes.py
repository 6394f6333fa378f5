"""How the columns of tables become narrower where the terminal is: by heading, the same in every table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from rich.cells import cell_len, set_cell_size

#: No cell that can be shortened becomes narrower than this, unless nothing else is left.
LEAST_WIDTH: Final = 12
_ELLIPSIS: Final = "…"


class Keep(IntEnum):
    """When a column is left out for want of room: before others, after them, or only if it is alone too wide."""

    OPTIONAL = 0
    IMPORTANT = 1
    ALWAYS = 2


class Cut(IntEnum):
    """Where a text is shortened: an id in its middle, because its ends differ, another text at its end; or nowhere."""

    END = 0
    MIDDLE = 1
    NEVER = 2


class Shape(NamedTuple):
    """``short``: the heading where the whole one does not fit."""

    cut: Cut = Cut.END
    keep: Keep = Keep.OPTIONAL
    short: str = ""


_ID: Final = Shape(Cut.MIDDLE)
_NUMBER: Final = Shape(Cut.NEVER)
_STATE: Final = Shape(Cut.NEVER, Keep.IMPORTANT)
_TEXT: Final = Shape(keep=Keep.IMPORTANT)

_SHAPES: Final[Mapping[str, Shape]] = {
    "GROUP": Shape(Cut.MIDDLE, Keep.ALWAYS),
    "TOPIC": Shape(Cut.MIDDLE, Keep.ALWAYS),
    "PARTITION": Shape(Cut.NEVER, Keep.ALWAYS, "PART"),
    "CONSUMER-ID": Shape(Cut.MIDDLE, Keep.IMPORTANT),
    "MEMBER": Shape(Cut.MIDDLE, Keep.IMPORTANT),
    "GROUP-INSTANCE-ID": Shape(Cut.MIDDLE, Keep.IMPORTANT, "INSTANCE-ID"),
    "CLIENT-ID": _ID,
    "PROCESS": _ID,
    "HOST": _ID,
    "RACK": _ID,
    "COORDINATOR (ID)": Shape(Cut.MIDDLE, short="COORDINATOR"),
    "PROTOCOL": _ID,
    "ASSIGNMENT-STRATEGY": Shape(Cut.MIDDLE, short="STRATEGY"),
    "STATE": _STATE,
    "TYPE": _NUMBER,
    "BROKER": _NUMBER,
    "MEMBER-STATE": _STATE,
    "RISK": Shape(Cut.NEVER, Keep.ALWAYS),
    "CONDITIONS": Shape(keep=Keep.ALWAYS),
    "#MEMBERS": Shape(Cut.NEVER, short="MEMB"),
    "#PARTITIONS": Shape(Cut.NEVER, Keep.IMPORTANT, "#PART"),
    "MEMBERS": _TEXT,
    "GENERATION": Shape(Cut.NEVER, short="GEN"),
    "GROUP-EPOCH": Shape(Cut.NEVER, short="EPOCH"),
    "CURRENT-EPOCH": Shape(Cut.NEVER, short="EPOCH"),
    "MEMBER-EPOCH": Shape(Cut.NEVER, short="EPOCH"),
    "TARGET-EPOCH": Shape(Cut.NEVER, short="T-EPOCH"),
    "TARGET-ASSIGNMENT-EPOCH": Shape(Cut.NEVER, short="T-EPOCH"),
    "ASSIGNMENT-EPOCH": Shape(Cut.NEVER, short="T-EPOCH"),
    "TOPOLOGY-EPOCH": Shape(Cut.NEVER, short="TOPOLOGY"),
    "LEADER-EPOCH": Shape(Cut.NEVER, short="LEPOCH"),
    "CURRENT-OFFSET": Shape(Cut.NEVER, Keep.IMPORTANT, "OFFSET"),
    "LOG-END-OFFSET": Shape(Cut.NEVER, Keep.IMPORTANT, "LOG-END"),
    "START-OFFSET": Shape(Cut.NEVER, Keep.IMPORTANT, "START"),
    "LAG": Shape(Cut.NEVER, Keep.IMPORTANT),
    "OFFSET-LAG": Shape(Cut.NEVER, Keep.IMPORTANT, "LAG"),
    "EARLIEST-REPLAYS": Shape(Cut.NEVER, Keep.IMPORTANT, "REPLAYS"),
    "LATEST-SKIPS": Shape(Cut.NEVER, Keep.IMPORTANT, "SKIPS"),
    "ASSIGNMENTS": _TEXT,
    "ASSIGNMENT": _TEXT,
    "CURRENT-ASSIGNMENT": Shape(keep=Keep.IMPORTANT, short="ASSIGNMENT"),
    "TARGET-ASSIGNMENT": Shape(short="TARGET"),
    "EXPIRES": _STATE,
    "COMMITTED": _NUMBER,
    "TIME": _STATE,
    "EVENT": _STATE,
    "WHO": _TEXT,
    "WHY": _TEXT,
    "SINCE": _STATE,
    "UNTIL": _STATE,
    "LASTED": _STATE,
}


def shape_of(heading: str) -> Shape:
    """The shape of the column with this heading; of one that is not listed, a text that may be left out."""
    return _SHAPES.get(heading, Shape())


def shortened(text: str, width: int, cut: Cut = Cut.END) -> str:
    """The text in at most so many cells of the terminal, with an ellipsis in place of what is left out."""
    if cell_len(text) <= width:
        return text
    if width < 1:
        return ""
    head = (width - 1) // 2 if cut is Cut.MIDDLE else width - 1
    begin = set_cell_size(text, head).rstrip()
    if cut is not Cut.MIDDLE:
        return begin + _ELLIPSIS
    return begin + _ELLIPSIS + _end(text, width - 1 - cell_len(begin))


def _end(text: str, width: int) -> str:
    """The last characters that fit."""
    place = len(text)
    # A sign that joins its neighbours is as wide as both only together: measure what is taken.
    while place and cell_len(text[place - 1 :]) <= width:
        place -= 1
    return text[place:]
