"""Events that a group can repeat without end."""

from __future__ import annotations

from groupreplay.state.events.group_events import GroupEmptied
from groupreplay.state.events.offset_events import OffsetRewound, RewindKind, RewoundOffset
from groupreplay.state.replay.report import without_repeat
from groupreplay.state.snapshot.group_snapshot import Repetitions


def rewound(partition: int = 0, kind: RewindKind = "other") -> OffsetRewound:
    """An offset of this partition goes back."""
    place = RewoundOffset(topic="t", partition=partition, old_offset=5, new_offset=1)
    return OffsetRewound(kind=kind, partitions=(place,), partition_count=1)


def suppressed(repeats: Repetitions, at_ms: int, fact: OffsetRewound) -> int | None:
    """How many were left out before this one; None: it is left out."""
    emitted = without_repeat(repeats, fact, at_ms)
    return None if emitted is None else emitted.suppressed  # type: ignore[attr-defined, no-any-return]


def test_the_same_event_once_a_minute() -> None:
    """The next one has the number of those that were left out."""
    repeats = Repetitions()
    first = [suppressed(repeats, second * 1_000, rewound()) for second in range(90)]
    assert [(second, count) for second, count in enumerate(first) if count is not None] == [(0, 0), (60, 59)]
    assert suppressed(repeats, 125_000, rewound()) == 29


def test_different_events_do_not_suppress_each_other() -> None:
    """Another partition and another kind are another event, up to a number that bounds the state."""
    repeats = Repetitions()
    facts = [rewound(), rewound(1), rewound(0, "small")]
    assert [suppressed(repeats, at_ms, fact) for at_ms, fact in enumerate(facts)] == [0, 0, 0]
    emitted = [suppressed(repeats, 3, rewound(partition)) for partition in range(5_000)]
    assert (len(emitted) - emitted.count(None), len(repeats.emitted)) == (256 - 3, 256)


def test_a_wrong_time_does_not_suppress_the_others() -> None:
    """After an event that is dated a year ahead the next one is emitted."""
    repeats = Repetitions()
    assert [suppressed(repeats, at_ms, rewound()) for at_ms in (0, 365 * 86_400_000, 61_000)] == [0, 0, 0]


def test_what_cannot_repeat_is_never_suppressed() -> None:
    """Rebalances, members and conditions pass: each is an occasion of its own."""
    repeats, fact = Repetitions(), GroupEmptied(generation=1, since_ms=0)
    assert [without_repeat(repeats, fact, 0) for _ in range(2)] == [fact, fact]
