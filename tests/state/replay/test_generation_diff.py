"""What two generations show of the trigger of a rebalance, and whose members are the same."""

from __future__ import annotations

from groupreplay.state.events import group_events
from support.histories.builders import asked_for, check, facts, generation, member, replay


def test_triggers_that_two_generations_can_show() -> None:
    """A changed subscription and a partition that never had an owner are triggers; without any, the leader rejoined."""
    history = [
        asked_for(at=1),
        generation(1, member("a", [0]), at=100),
        generation(2, member("a", [0], subscribed=["t", "u"]), at=200),
        generation(3, member("a", [0, 1], subscribed=["t", "u"]), at=300),
        generation(4, member("a", [0, 1], subscribed=["t", "u"]), at=400),
    ]
    _, events = replay(history)
    rounds = [fact for fact in facts(events) if isinstance(fact, group_events.RebalanceCompleted)]
    assert [fact.trigger for fact in rounds] == [
        "first_join",
        "subscription_changed",
        "metadata_changed",
        "leader_rejoined",
    ]
    # Nothing is different either, but a generation without a record lies between.
    _, events = replay([*history, generation(6, member("a", [0, 1], subscribed=["t", "u"]), at=600)])
    check(facts(events)[-1], trigger="unknown", skipped_generations=1)


def test_two_consumers_of_one_host_cannot_be_told_apart() -> None:
    """Slots that are not unique are identified by member id: one member left, one joined."""
    one = {"client_id": "c", "host": "/h"}
    _, events = replay(
        [
            asked_for(at=1),
            generation(1, member("c-1", [0], **one), member("c-2", [1], **one), at=100),
            generation(2, member("c-1", [0], **one), member("c-3", [1], **one), at=900),
        ]
    )
    completed = next(fact for fact in facts(events) if getattr(fact, "generation", None) == 2)
    check(completed, joined=("c-3",), left=("c-2",), kept=("c-1",), trigger="members_changed")
