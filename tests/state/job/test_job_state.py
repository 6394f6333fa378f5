"""The job's state as bytes, of this version and of those before."""

from __future__ import annotations

import msgspec
import pytest

from groupreplay.state.events.event import Evidence
from groupreplay.state.job.bursts import Burst
from groupreplay.state.job.daily_summary import DayTotal
from groupreplay.state.job.job_state import JobState, Silence, Stall, read, write
from groupreplay.state.snapshot.conditions import ActiveCondition, ConditionKey
from groupreplay.state.stored_form import SnapshotError

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


def test_version_2_is_read() -> None:
    """It has the same fields behind the version alone."""
    assert read(b"\x02" + write(STATE)[6:]) == STATE


def test_version_3_is_read() -> None:
    """It has the least reader, and no checksum."""
    assert read(b"\x03\x01" + write(STATE)[6:]) == STATE


@pytest.mark.parametrize(
    "blob", [b"\x01\xa1x", b"\x02\xff", b"\x03\x01\xff", b"\x03\x02\x90", b"\x04abcd", b"\x09"]
)
def test_another_state_is_refused(blob: bytes) -> None:
    """Damaged bytes and those of a later release."""
    with pytest.raises(SnapshotError, match="job state"):
        read(blob)


def test_version_1_is_read() -> None:
    """Its conditions had texts as keys; its first releases wrote fewer fields."""
    fields = [getattr(STATE, name) for name in STATE.__struct_fields__]
    fields[9] = {
        "job.blind no_rights": (17, "{}", "probe", b"{}", True),
        "job.behind": (17, "", "log", b"{}"),
    }
    assert read(b"\x01" + msgspec.msgpack.encode(fields)) == STATE
    assert read(b"\x01" + msgspec.msgpack.encode([1, 2, 3])) == JobState(1, 2, 3)
