"""What is played, and which histories are refused with a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from groupreplay.timeline.whatif.inputs import RecordedBroker, Unplayable, play_inputs
from groupreplay.timeline.whatif.settings import HEARTBEAT, SESSION
from support.histories.builders import Raw, generation, member
from support.histories.played import BEGIN, SECOND, commits, history_of, joined_and_left, restarted

COMMITS = commits(0, 1 * SECOND, 90 * SECOND)


def test_recorded_stated_and_assumed_settings() -> None:
    """Records have the session and the assignor; the retention is the broker's; the rest is assumed or stated."""
    history = history_of(restarted(), 180 * SECOND)
    broker = RecordedBroker(retention_ms=3_600_000)
    inputs = play_inputs(history, broker, {HEARTBEAT: 1_000})
    assert inputs.settings.values == {
        "auto.commit.interval.ms": 5_000,
        "group.instance.id": "none",
        "group.protocol": "classic",
        "partition.assignment.strategy": ("range",),
        SESSION: 45_000,
        "max.poll.interval.ms": 300_000,
        "offsets.retention.minutes": 60,
        "group.initial.rebalance.delay.ms": 3_000,
        "offsets.retention.check.interval.ms": 600_000,
        HEARTBEAT: 1_000,
    }
    assert inputs.assumed == {
        "group.initial.rebalance.delay.ms": 3_000,
        "offsets.retention.check.interval.ms": 600_000,
    }
    assert (inputs.partitions, inputs.interval_ms) == (2, 5_000)


@pytest.mark.parametrize(
    ("records", "end_ms", "sentence"),
    [
        (COMMITS, 90_000, "the log has no generation with members of it"),
        ([generation(1, member("a", (0,)), at=BEGIN + 60_000), *COMMITS], 90_000, "is too short: 30.0 s"),
        (
            [
                generation(11, member("a", (0,)), at=BEGIN),
                generation(14, member("a", (0,)), at=BEGIN + 80_000),
                *COMMITS,
            ],
            90_000,
            "is too short: 10.0 s after 1 rebalance with a gap behind",
        ),
        (
            [
                generation(1, member("a", (0,)), member("b", (0,), topic="u"), at=BEGIN),
                *COMMITS,
            ],
            90_000,
            "its members subscribe to different topics",
        ),
        ([generation(1, member("a", (0,)), at=BEGIN)], 90_000, "no partition of it has 4 commits"),
    ],
)
def test_what_cannot_be_played(records: Sequence[Raw], end_ms: int, sentence: str) -> None:
    """Too short, partial, other kinds of members, no commits."""
    with pytest.raises(Unplayable, match=sentence):
        play_inputs(history_of(records, end_ms, is_whole=False), RecordedBroker(), {})


def by_assignor(name: str) -> list[Raw]:
    """A group with this assignor."""
    first = generation(1, member("a", (0,)), at=BEGIN)
    return [replace(first, value=replace(first.value, protocol=name)), *COMMITS]


def test_assignors() -> None:
    """The model's range does what Kafka's roundrobin does; it has nothing like another one."""
    inputs = play_inputs(history_of(by_assignor("roundrobin"), 90_000), RecordedBroker(), {})
    assert inputs.settings["partition.assignment.strategy"] == ("range",)
    with pytest.raises(
        Unplayable, match="its assignor is mine, and the clients of the model have range, cooperative-sticky"
    ):
        play_inputs(history_of(by_assignor("mine"), 90_000), RecordedBroker(), {})


def test_a_consumer_group() -> None:
    """Sessions and heartbeats are the broker's: no record has them, and Kafka's defaults are assumed; no assignor."""
    inputs = play_inputs(history_of(joined_and_left(4 * SECOND), 180 * SECOND), RecordedBroker(), {})
    assert inputs.settings.values == {
        "auto.commit.interval.ms": 5_000,
        "group.instance.id": "none",
        "group.protocol": "consumer",
        "max.poll.interval.ms": 30_000,
        "group.consumer.session.timeout.ms": 45_000,
        "group.consumer.heartbeat.interval.ms": 5_000,
        "offsets.retention.minutes": 10_080,
        "offsets.retention.check.interval.ms": 600_000,
    }
    assert inputs.assumed == {
        name: value
        for name, value in inputs.settings.values.items()
        if name.startswith(("group.consumer", "offsets"))
    }
