"""When the finder of incidents is stored."""

from __future__ import annotations

import msgspec

from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.watch.incidents import PolledIncidents
from support.histories.builders import CONTEXT
from support.populations import AT, MINUTE, Population

EVENT = OutputRow(Output.EVENTS, b"g", b"{}")


def test_an_event_is_stored_with_its_poll() -> None:
    """Also in a poll that no heartbeat ends: a process that is killed then has nothing else of what the event says."""
    incidents = PolledIncidents(CONTEXT, b"")
    assert incidents.to_store(100_000) != b""
    assert incidents.to_store(100_001) == b""
    assert incidents.found([EVENT], (), None) == []
    assert incidents.to_store(100_002) != b""
    assert incidents.to_store(100_003) == b""


def paused_readers() -> list[OutputRow]:
    """What is written of sixty groups when the readers of one topic stop."""
    population = Population.of(60)
    for group in population.change(12, topic="orders"):
        population.pauses(group, AT)
    rows = [OutputRow(Output.STATES, b"g", msgspec.json.encode(body)) for body in population.documents]
    return [*rows, *(OutputRow(Output.EVENTS, b"g", msgspec.json.encode(body)) for body in population.bodies)]


def test_what_was_told_is_stored_with_it() -> None:
    """Time alone opens the incident: a process that is killed then and goes on does not open it once more."""
    incidents = PolledIncidents(CONTEXT, b"")
    assert incidents.found(paused_readers(), (), None) == []
    assert incidents.to_store(AT) != b""
    assert len(incidents.found((), (), AT + 5 * MINUTE)) == 1
    later = PolledIncidents(CONTEXT, incidents.to_store(AT + 1))
    assert later.found((), (), AT + 6 * MINUTE) == []
