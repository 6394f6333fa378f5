"""Events that clients can repeat without end are emitted at most once a minute."""

from __future__ import annotations

from dataclasses import fields

from groupreplay.state.events.event import Event
from groupreplay.state.events.group_events import GroupEmptied
from groupreplay.state.events.offset_events import OffsetRewound, RewindKind, RewoundOffset
from groupreplay.state.output.repeats import without_repeats
from groupreplay.state.snapshot.group_snapshot import Repetitions
from support.histories.samples import one_of_each


def rewound(at_ms: int, partition: int = 0, kind: RewindKind = "other") -> Event:
    """An offset that was wound back."""
    place = RewoundOffset(topic="t", partition=partition, old_offset=5, new_offset=1)
    return Event(
        fact=OffsetRewound(kind=kind, partitions=(place,), partition_count=1), group_id="g", time_ms=at_ms
    )


def shown(events: list[Event]) -> list[tuple[int, int]]:
    """(time, suppressed) of each."""
    return [(event.time_ms, event.fact.suppressed) for event in events]  # type: ignore[attr-defined]


def test_the_same_event_once_a_minute() -> None:
    """The next one tells how many were not emitted; across calls, as the state is stored between them."""
    repeats = Repetitions()
    first = without_repeats(repeats, [rewound(second * 1_000) for second in range(90)])
    assert shown(first) == [(0, 0), (60_000, 59)]
    assert shown(without_repeats(repeats, [rewound(125_000)])) == [(125_000, 29)]


def test_different_events_do_not_suppress_each_other() -> None:
    """Another partition and another kind are another event, up to a number that bounds the state."""
    repeats = Repetitions()
    events = [rewound(0), rewound(1, 1), rewound(2, 0, "small")]
    assert without_repeats(repeats, events) == events
    many = without_repeats(repeats, [rewound(3, partition) for partition in range(5_000)])
    assert (len(many), len(repeats.emitted)) == (256 - 3, 256)


def test_a_wrong_time_does_not_suppress_the_others() -> None:
    """After an event that is dated a year ahead the next one is emitted."""
    events = [rewound(0), rewound(365 * 86_400_000), rewound(61_000)]
    assert without_repeats(Repetitions(), events) == events


def test_what_cannot_repeat_is_never_suppressed() -> None:
    """Rebalances, members and conditions pass: each is an occasion of its own."""
    event = Event(fact=GroupEmptied(generation=1, since_ms=0), group_id="g", time_ms=0)
    assert without_repeats(Repetitions(), [event, event]) == [event, event]


def test_facts_that_repeat_say_how_many_were_suppressed() -> None:
    """These can repeat without end; each has the field."""
    facts = {event.fact.NAME: event.fact for event in one_of_each() if event.fact.sameness() is not None}
    assert sorted(facts) == [
        "offset.rewound",
        "offsets.deleted",
        "offsets.expired",
        "offsets.reset",
        "static.replaced",
    ]
    assert all("suppressed" in {one.name for one in fields(fact)} for fact in facts.values())
