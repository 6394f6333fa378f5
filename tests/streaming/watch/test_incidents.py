"""When the finder of incidents is stored."""

from __future__ import annotations

from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.watch.incidents import PolledIncidents
from support.histories.builders import CONTEXT

EVENT = OutputRow(Output.EVENTS, b"g", b"{}")


def test_an_event_is_stored_with_its_poll() -> None:
    """Also in a poll that no heartbeat ends: a process that is killed then has nothing else of what the event says."""
    incidents = PolledIncidents(CONTEXT, b"")
    assert incidents.to_store(100_000) != b""
    assert incidents.to_store(100_001) == b""
    assert incidents.found([EVENT], (), None) == []
    assert incidents.to_store(100_002) != b""
    assert incidents.to_store(100_003) == b""
