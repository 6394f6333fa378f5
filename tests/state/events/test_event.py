"""What happens once to the job itself."""

from __future__ import annotations

import json

from groupreplay.state.events.event import JobGap, Severity, UnreadRange, gap_event
from groupreplay.state.output.envelope import cloud_event
from support.histories.builders import CONTEXT, check


def test_a_gap_is_named_by_its_moment() -> None:
    """Said again after a kill it has the same id; it is an error, about no group, with the range."""
    lost = UnreadRange(partition=3, read_to=900, log_start=950, log_end=960)
    event = gap_event(JobGap(reason="removed", partitions=(lost,)), 86_400_000)
    first, again = (cloud_event(event, CONTEXT, recorded_ms) for recorded_ms in (1, 2))
    assert (first.id, first.severity) == (again.id, Severity.ERROR) == ("job.gap-86400000", Severity.ERROR)
    data = json.loads(first.value)["data"]
    partition = {"partition": 3, "read_to": 900, "log_start": 950, "log_end": 960}
    check(data, group_id=None, reason="removed", partitions=[partition])
