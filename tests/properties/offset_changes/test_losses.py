"""Events about lost, returning and decreasing offsets do not depend on batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state import Event, Group
from groupreplay.state.conditions.condition import Condition
from groupreplay.state.policy.rules import GroupRule, Policy
from support.histories.builders import (
    CONTEXT,
    GROUP,
    Raw,
    asked_for,
    commit,
    emptied,
    generation,
    gone,
    member,
    no_offset,
    observed,
    read,
    read_in_batches,
)
from support.histories.strategies import cuts

#: Offsets expire within these histories, and the losses are remembered.
RETENTION_MS = 30_000
SHORT = replace(
    CONTEXT, retention_ms=RETENTION_MS, policy=Policy(groups=(GroupRule(groups="*", matters=True),))
)
PLACES = st.tuples(st.sampled_from("tu"), st.integers(0, 2))


@st.composite
def histories(draw: Any) -> list[Raw]:
    """Mostly commits; tombstones of some of them, and a group that is created and deleted."""
    records: list[Raw] = []
    at, offset = 1_000, 10
    for _ in range(draw(st.integers(1, 14))):
        kind = draw(
            st.sampled_from(["commit", "commit", "commit", "drop", "drop", "end", "round", "emptied"])
        )
        places = draw(st.lists(PLACES, min_size=1, max_size=4))
        made = {
            "commit": lambda: [commit(*place, draw(st.integers(0, 2_000)), at=at) for place in places],  # noqa: B023
            "drop": lambda: [no_offset(*place, at=at) for place in places],  # noqa: B023
            "end": lambda: [*(no_offset(*place, at=at) for place in places), gone(at=at)],  # noqa: B023
            "round": lambda: [generation(1, member("a", [0]), at=at)],  # noqa: B023
            "emptied": lambda: [draw(st.sampled_from([emptied(2, at=at), asked_for(at=at)]))],  # noqa: B023
        }[kind]()
        for raw in made:
            records.append(replace(raw, offset=offset))
            offset += 1
        offset += draw(st.integers(0, 2))
        at += draw(st.sampled_from([0, 1, 9_000, 60_000]))
    return records


def facts(events: list[Event]) -> list[Event]:
    """Without conditions: a batch in which an offset's deadline is passed and extended hides the condition."""
    return [event for event in events if not isinstance(event.fact, Condition)]


@given(histories(), st.data())
def test_cuts_and_restarts_do_not_matter(records: list[Raw], data: st.DataObject) -> None:
    """Facts, remembered losses and deadlines are those of one batch."""
    whole, expected = read(records, SHORT)
    group, events = read_in_batches(cuts(data, records), SHORT, records[-1].at + 1)
    assert facts(events) == facts(expected)
    assert group.describe()["offsets"] == whole.describe()["offsets"]
    assert group._snapshot.losses.lost == whole._snapshot.losses.lost


@given(histories())
def test_a_loss_is_expired_only_if_each_offset_was_due(records: list[Raw]) -> None:
    """Compared with the group's own deadlines just before each tombstone; the possible ones where it is unclear."""
    group = Group(GROUP, SHORT)
    for number, raw in enumerate(records):
        before = {
            (one["topic"], one["partition"]): (one["expires_at_ms"], one["may_expire_at_ms"])
            for one in group.describe()["offsets"]
        }
        for event in group.apply(observed([raw]), 0):
            if event.fact.NAME == "offsets.expired":
                lost, unclear = event.fact.partitions, event.fact.unclear  # type: ignore[attr-defined]
                limits = [before[one.topic, one.partition][unclear] for one in lost]
                assert all(at is not None and at <= event.time_ms + 5_000 for at in limits), number
