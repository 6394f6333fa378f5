"""Names of time zones."""

from __future__ import annotations

from datetime import timedelta

import pytest

from groupreplay.streaming.base.time_zones import UTC, time_zone


def test_offsets_and_utc() -> None:
    """An offset has one form of its name; UTC has several names."""
    half_past = time_zone("-0330")
    assert (half_past.name, half_past.info.utcoffset(None)) == ("-03:30", timedelta(hours=-3, minutes=-30))
    assert [time_zone(name) for name in ("UTC", "utc", "Z", "z")] == [UTC] * 4


@pytest.mark.parametrize(
    "name", ["Mars/Olympus", "", "../../etc/passwd", "+99:00", "Europe", "CE\x00T", "+2"]
)
def test_no_such_zone(name: str) -> None:
    """A folder of the database, a path and an offset that cannot be are no zones."""
    with pytest.raises(ValueError, match="there is no time zone"):
        time_zone(name)
