"""Deletions whose reason only the prober can know."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state import Event, Evidence, Group, Severity
from groupreplay.state.events.offset_events import OffsetsDeleted, OffsetsReset, PartitionOffset
from groupreplay.state.policy.rules import GroupRule, Policy
from groupreplay.state.snapshot.observations import DeletedTopics
from support.histories.builders import (
    CONTEXT,
    GROUP,
    Raw,
    check,
    commit,
    emptied,
    generation,
    gone,
    member,
    no_offset,
    observed,
    placed,
)
from support.histories.strategies import cuts

PROBING = replace(CONTEXT, probing=True)
MISSED = replace(PROBING, policy=Policy(groups=(GroupRule(groups="*", matters=True),)))
EMPTY = [
    generation(1, member("a", [0, 1]), at=1),
    commit("t", 0, 5, at=2),
    commit("t", 1, 6, at=2),
    commit("u", 0, 7, at=2),
    emptied(2, at=1_000),
]
#: The topic was deleted, or somebody has deleted all offsets of it.
REMOVED = [no_offset("t", 0, at=9_000), no_offset("t", 1, at=9_000)]


def answer(at: int, *topics: str) -> DeletedTopics:
    """A round of the prober that has found topics gone."""
    return DeletedTopics(taken_ms=at, topic="group-probes", partition=0, offset=at, topics=topics)


def told(
    history: list[Raw], *answers: DeletedTopics, until: int = 60_000, context: Any = PROBING
) -> list[Event]:
    """What is said of deletions and of what comes after them: in one call, and in two with a restart between."""
    records = placed(history)
    group = Group(GROUP, context)
    whole = group.apply(replace(observed(records), probes=answers), 0) + group.expire(until)
    group = Group(GROUP, context)
    pieces = group.apply(observed([one for one in records if one.at <= 10_000]), 0)
    group = Group.from_snapshot(GROUP, context, group.snapshot())
    rest = observed([one for one in records if one.at > 10_000], seen_to=records[-1].offset)
    pieces += group.apply(replace(rest, probes=answers), until)
    assert pieces == whole
    return [one for one in whole if isinstance(one.fact, OffsetsDeleted | OffsetsReset)]


def test_a_topic_that_the_prober_has_found_gone() -> None:
    """The event has the time and the record of the tombstones; the prober proves the reason."""
    (event,) = told([*EMPTY, *REMOVED], answer(20_000, "other", "t"), context=MISSED)
    assert event.fact == OffsetsDeleted(
        partitions=(
            PartitionOffset(topic="t", partition=0, offset=5),
            PartitionOffset(topic="t", partition=1, offset=6),
        ),
        partition_count=2,
        reason="topic_deleted",
        deadline_ms=1_000 + 7 * 24 * 3_600_000,
    )
    assert (event.time_ms, event.cause and event.cause.offset) == (9_000, 108)
    assert (event.evidence, event.severity) == (Evidence.PROBE, Severity.WARN)


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([], id="none"),
        pytest.param([answer(8_999, "t")], id="a deletion before"),
        pytest.param([answer(20_000, "u")], id="another topic"),
        pytest.param([answer(39_001, "t")], id="too late"),
    ],
)
def test_what_no_round_explains_is_unknown(answers: list[DeletedTopics]) -> None:
    """After three rounds; it may have been a request, or a topic that the prober may not describe."""
    history = [*EMPTY, *REMOVED]
    assert told(history, *answers, until=38_999) == []
    (event,) = told(history, *answers)
    check(event.fact, reason="unknown")
    assert (event.time_ms, event.evidence) == (9_000, Evidence.INFERRED)


def test_two_topics_in_one_operation() -> None:
    """One of them is there: it was a request for both."""
    history = [*EMPTY, *REMOVED, no_offset("u", 0, at=9_000)]
    assert [one.fact.reason for one in told(history, answer(20_000, "t"))] == ["unknown"]  # type: ignore[union-attr]
    assert [one.fact.reason for one in told(history, answer(20_000, "t", "u"))] == ["topic_deleted"]  # type: ignore[union-attr]


def test_the_group_is_deleted_meanwhile() -> None:
    """The event says what the group was; the state is not dropped before."""
    history = [*EMPTY, *REMOVED, gone(at=10_000)]
    group = Group(GROUP, PROBING)
    group.apply(observed(placed([*history, no_offset("u", 0, at=10_000)])), 10_001)
    assert not group.gone
    first, *_ = told(history, answer(20_000, "t"))
    assert (first.fact.NAME, first.simple, first.group_type.value) == ("offsets.deleted", False, "classic")


def test_a_topic_that_begins_anew() -> None:
    """The first commit afterwards knows the reason, too: no record was skipped."""
    back = [generation(3, member("a", [0, 1]), at=25_000), commit("t", 0, 1, at=26_000)]
    events = told([*EMPTY, *REMOVED, *back], answer(20_000, "t"), context=MISSED)
    assert [(one.fact.NAME, one.fact.reason, one.severity) for one in events] == [  # type: ignore[union-attr]
        ("offsets.deleted", "topic_deleted", Severity.WARN),
        ("offsets.reset", "topic_deleted", Severity.INFO),
    ]


@given(st.lists(st.tuples(st.sampled_from("tu"), st.integers(0, 60_000)), max_size=5), st.data())
def test_batches_do_not_matter(found: list[tuple[str, int]], data: st.DataObject) -> None:
    """One call or many, with a restart after each, and answers at any time: the same events."""
    history = placed([*EMPTY, *REMOVED, commit("t", 0, 9, at=30_000), no_offset("u", 0, at=31_000)])
    answers = [answer(at, topic) for at, topic in sorted({at: topic for topic, at in found}.items())]
    group = Group(GROUP, PROBING)
    whole = group.apply(replace(observed(history), probes=answers), 0) + group.expire(90_000)
    blob, events = Group(GROUP, PROBING).snapshot(), list[Event]()
    batches = cuts(data, history)
    ends = [*(batch[0].at - 1 for batch in batches[1:] if batch), 90_000]
    for batch, (low, high) in zip([one for one in batches if one], pairwise([-1, *ends]), strict=True):
        group = Group.from_snapshot(GROUP, PROBING, blob)
        fresh = [one for one in answers if low < one.taken_ms <= high]
        events += group.apply(replace(observed(batch), probes=fresh), high)
        blob = group.snapshot()
    assert events == whole
