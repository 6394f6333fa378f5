"""The job's state as bytes."""

from __future__ import annotations

import pytest

from groupreplay.state.events.event import Evidence
from groupreplay.state.job.bursts import Burst
from groupreplay.state.job.daily_summary import DayTotal
from groupreplay.state.job.job_state import JobState, Silence, Stall, read, write
from groupreplay.state.snapshot.conditions import ActiveCondition, ConditionKey
from groupreplay.state.stored_form import SnapshotError, sealed

#: Every field has a value that no other field and no default has.
STATE = JobState(
    round_ms=1,
    heartbeat_ms=2,
    partition_count=3,
    other_count_since_ms=4,
    refused_since_ms=5,
    late_since_ms=6,
    stalls={7: Stall(8, 9)},
    silent_brokers={10: Silence(11, 12)},
    silent_partitions={13: Silence(14, 15)},
    active={
        ConditionKey("job.blind", "no_rights"): ActiveCondition(17, ("{}",), Evidence.PROBE, b"{}", True),
        ConditionKey("job.behind", ""): ActiveCondition(17, (), Evidence.LOG, b"{}"),
    },
    day_total=DayTotal("r", 16, 17, 18),
    burst=Burst("q", 19, ((20, 21),), 22),
)


def test_what_was_written_is_read() -> None:
    """Every field comes back."""
    assert read(write(STATE)) == STATE


@pytest.mark.parametrize(
    "blob", [b"\x01\xa1x", b"\x01abcd", sealed(1, 1, b"\xff"), sealed(1, 2, b"\x90"), b"\x09"]
)
def test_another_state_is_refused(blob: bytes) -> None:
    """Damaged bytes and those of a later release."""
    with pytest.raises(SnapshotError, match="job state"):
        read(blob)
