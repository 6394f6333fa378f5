"""How the bounds of a state are told."""

from __future__ import annotations

import pytest

from groupreplay.app.inspection.state_history import StateRow, state_table
from groupreplay.app.text.tables import Cell, Moment

AT = 1_767_225_600_000


@pytest.mark.parametrize(
    ("bounds", "since", "lasted"),
    [
        ((0, 0, 5_000, 5_000), Moment(AT), "5.0 s"),
        ((0, 2_000, 5_000, 5_000), (Moment(AT), " .. ", Moment(AT + 2_000)), "3.0 s .. 5.0 s"),
        ((0, 2_000, 1_000, 5_000), (Moment(AT), " .. ", Moment(AT + 2_000)), "at most 5.0 s"),
        ((None, 2_000, 5_000, 5_000), ("before ", Moment(AT + 2_000)), "at least 3.0 s"),
        ((0, 0, None, None), Moment(AT), "holds at the end"),
    ],
)
def test_bounds_in_words(bounds: tuple[int | None, ...], since: Cell, lasted: str) -> None:
    """An interval has both ends, a duration goes from the latest begin to the earliest end or the other way round."""
    earliest, latest, next_earliest, next_latest = (one if one is None else AT + one for one in bounds)
    assert latest is not None
    row = StateRow(
        group_id="g",
        group_type="classic",
        state="PreparingRebalance",
        generation=1,
        earliest_ms=earliest,
        since_ms=latest,
        until_earliest_ms=next_earliest,
        until_ms=next_latest,
        evidence="probe",
        partition=0,
        offset=0,
    )
    assert state_table([row]).rows == [("g", "classic", "PreparingRebalance", since, lasted, 1, "probe")]
