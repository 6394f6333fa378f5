"""Makes messages small enough for the topics that they go to: a message that a broker refuses would stop the job.

A message that is too large is shortened. One that cannot be shortened enough (the key counts, too) becomes a dead
letter.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from groupreplay.state.policy.context import Context
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.engine.json_messages import shortened, unfit_letter_row

log = logging.getLogger(__name__)

#: What a batch of one message adds: 61 bytes, and the lengths in the message.
_BATCH_BYTES: Final = 100
#: Lengths of the name and the value of a header.
_HEADER_BYTES: Final = 6


def message_bytes(row: OutputRow) -> int:
    """An upper bound of what a broker counts for the message."""
    headers = sum(len(name) + len(value) + _HEADER_BYTES for name, value in row.headers)
    return _BATCH_BYTES + len(row.key) + len(row.value or b"") + headers


def fit_rows(
    rows: Sequence[OutputRow], limits: Mapping[str, int], context: Context
) -> tuple[Sequence[OutputRow], int]:
    """The rows with those that are too large replaced, and the number of those that nothing could be written of.

    ``limits`` by the values of ``Output``; outputs without one are not limited.
    """
    if not limits or all(message_bytes(row) <= limits.get(row.output.value, _NO_LIMIT) for row in rows):
        return rows, 0
    fitting = [_fitting(row, limits, context) for row in rows]
    return [row for row in fitting if row is not None], fitting.count(None)


_NO_LIMIT: Final = 1 << 62


def _fitting(row: OutputRow, limits: Mapping[str, int], context: Context) -> OutputRow | None:
    limit = limits.get(row.output.value, _NO_LIMIT)
    smaller = _within(row, limit)
    if smaller is None and row.output is not Output.DEAD_LETTERS:
        letter = unfit_letter_row(row, limit, context)
        smaller = _within(letter, limits.get(letter.output.value, _NO_LIMIT))
    if smaller is None:
        log.error(
            "a message of %d bytes for %s is not written: %d are allowed, and a dead letter does not fit either",
            message_bytes(row),
            row.output.value,
            limit,
        )
    return smaller


def _within(row: OutputRow, limit: int) -> OutputRow | None:
    if message_bytes(row) <= limit:
        return row
    smaller = shortened(row, limit, message_bytes)
    return None if smaller is None or message_bytes(smaller) > limit else smaller
