"""The broker's expiry rules compared with a slow and simple model, and cases beyond the model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.codecs.kafka_terms import GroupType, Phase
from groupreplay.state.events.event import Evidence
from groupreplay.state.policy.context import Context
from groupreplay.state.replay import retention
from groupreplay.state.replay.classic import apply_value
from groupreplay.state.replay.report import Report
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.group_state import ClassicGeneration, GroupState
from groupreplay.state.snapshot.members import Member
from groupreplay.state.snapshot.modern import Modern, ModernMember
from groupreplay.state.snapshot.offsets import Offsets
from support.histories import builders

RETENTION_MS = 500
SIMPLE = GroupState(phase=Phase.EMPTY)
CONTEXT = replace(builders.CONTEXT, retention_ms=RETENTION_MS)
TOPICS = ("t", "u", "v")


def table(commits: dict[tuple[str, int], tuple[int, int]]) -> Offsets:
    """Topic partition -> (commit time, expiry of its own or -1)."""
    history: list[builders.Raw] = [
        builders.commit(topic, partition, 5, at=at, version=1 if own >= 0 else 4, expire_timestamp_ms=own)
        for (topic, partition), (at, own) in commits.items()
    ]
    offsets = Offsets()
    for run in builders.observed(builders.placed(history)).items:
        offsets.apply(run)  # type: ignore[arg-type]
    return offsets


def simple_member(topics: tuple[str, ...] | None) -> Member:
    """A member with nothing but a subscription."""
    return Member("m", None, "c", "/h", 1, 1, (), topics, {})


def due(group: GroupState, offsets: Offsets, context: Context = CONTEXT) -> dict[tuple[str, int], int | None]:
    """Every deadline by topic partition; ``first_deadline`` finds the first without the others."""
    times = retention.deadlines(group, offsets, context).tolist()
    earliest = min(times, default=retention.NEVER)
    told = retention.first_deadline(group, offsets, context)
    assert told == (None if earliest == retention.NEVER else earliest)
    named = offsets.names(np.arange(len(offsets)))
    return {name: None if at == retention.NEVER else at for name, at in zip(named, times, strict=True)}


def expired_in_kafka(
    group: GroupState, subscribed: tuple[str, ...] | None, topic: str, at: int, own: int, now: int
) -> bool:
    """One offset at one moment, as the coordinator's classes decide it, written out.

    ``subscribed`` None: a subscription that cannot be read.
    """
    if group.group_type is GroupType.SHARE:
        return False
    if group.group_type is GroupType.CLASSIC:
        # ClassicGroup.offsetExpirationCondition
        if group.classic.protocol_type is None:
            base = at
        elif group.phase is Phase.EMPTY:
            base = at if group.classic.emptied_ms is None else group.classic.emptied_ms
        elif (
            group.phase is Phase.STABLE
            and group.classic.protocol_type == "consumer"
            and subscribed is not None
        ):
            base = at
        else:
            return False
        # ClassicGroup.isSubscribedToTopic
        if group.classic.protocol_type == "consumer" and topic in (subscribed or ()):
            return False
    else:
        base = at
        if topic in (subscribed or ()):
            return False
    # OffsetExpirationConditionImpl.isOffsetExpired
    return now >= own if own >= 0 else now - base >= RETENTION_MS


@st.composite
def groups(draw: Any) -> tuple[GroupState, tuple[str, ...] | None]:
    """A group of any kind in any state, and the topics that its members are subscribed to."""
    kind = draw(st.sampled_from(list(GroupType)))
    subscribed = draw(st.none() | st.lists(st.sampled_from(TOPICS), max_size=3).map(tuple))
    if kind is GroupType.CLASSIC:
        phase = draw(st.sampled_from([one for one in Phase if one is not Phase.DEAD]))
        protocol_type = draw(st.sampled_from([None, "consumer", "connect"]))
        peopled = phase in (Phase.STABLE, Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE)
        readable = subscribed if protocol_type == "consumer" else None
        group = GroupState(
            phase=phase,
            classic=ClassicGeneration(
                protocol_type=protocol_type,
                members=(simple_member(readable),) if peopled and protocol_type else (),
                emptied_ms=draw(st.none() | st.integers(0, 2_000)) if phase is Phase.EMPTY else None,
            ),
        )
        if not group.classic.members:
            subscribed = ()
        return group, subscribed
    group = Modern(exists=True)
    if draw(st.booleans()):
        topics = subscribed or ()
        group.members["m"] = ModernMember(described=True, topics=topics[:1])
        group.regexes["r"] = topics[1:]
        group.source_topics = topics
    else:
        subscribed = ()
    return GroupState(group_type=kind, modern=group, phase=Phase.EMPTY), subscribed


@given(
    groups(),
    st.dictionaries(
        st.tuples(st.sampled_from(TOPICS), st.integers(0, 2)),
        st.tuples(st.integers(0, 2_000), st.sampled_from([-1, -1, 0, 900])),
        min_size=1,
    ),
)
def test_as_the_coordinator_decides(
    group: tuple[GroupState, tuple[str, ...] | None], commits: dict[tuple[str, int], tuple[int, int]]
) -> None:
    """Every kind, state, subscription and base: due at its deadline, not a millisecond before, never without."""
    state, subscribed = group
    times = due(state, table(commits))
    for (topic, partition), (at, own) in commits.items():
        deadline = times[topic, partition]
        moments = (0, 10_000) if deadline is None else (deadline - 1, deadline)
        decided = [expired_in_kafka(state, subscribed, topic, at, own, now) for now in moments]
        assert decided == ([False, False] if deadline is None else [False, True])


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (4_102_444_800_000, 4_102_444_800_000),
        (4_102_444_800_001, None),
        (2**62, None),
        (2**63 - 1, None),
        (-1, 550),
        (-2, -2),
        (-(2**63), -(2**60)),
    ],
)
def test_an_expiry_of_its_own_far_ahead(own: int, expected: int | None) -> None:
    """After the year 2100 it means never; -1 that there is none; below that the broker expires the offset at once."""
    raw = builders.commit("t", 0, 5, at=50, version=1, expire_timestamp_ms=own)
    offsets = Offsets()
    for run in builders.observed(builders.placed([raw])).items:
        offsets.apply(run)  # type: ignore[arg-type]
    assert due(SIMPLE, offsets) == {("t", 0): expected}


@pytest.mark.parametrize("retention_ms", [2**62, 2**63 - 1, 10**30])
def test_a_retention_beyond_all_bounds(retention_ms: int) -> None:
    """Sums do not overflow: the deadline is in another age."""
    offsets = table({("t", 0): (2_000, -1)})
    context = replace(CONTEXT, retention_ms=retention_ms)
    (at_ms,) = retention.deadlines(SIMPLE, offsets, context).tolist()
    assert retention.first_deadline(SIMPLE, offsets, context) == at_ms == 2_000 + 2**60


@pytest.mark.parametrize(("since", "expected"), [(1_000, 1_500), (-1, 550), (-9, 550), (2**60, 1_510)])
def test_an_empty_group_whose_record_tells_since_when(since: int, expected: int) -> None:
    """Records of versions 0 and 1 do not: then each offset's own commit counts. It is not later than the record."""
    snapshot = GroupSnapshot()
    value = builders.generation(2, at=1_010, since=since).value
    apply_value(snapshot, value, Offsets(), _silent())
    assert due(snapshot.group, table({("t", 0): (50, -1)})) == {("t", 0): expected}


def test_a_group_that_gets_members_again() -> None:
    """The time at which the group became Empty is removed."""
    snapshot = GroupSnapshot()
    for raw in (builders.emptied(2, at=1_000), builders.generation(3, builders.member("a"), at=1_200)):
        apply_value(snapshot, raw.value, Offsets(), _silent())
    assert snapshot.group.classic.emptied_ms is None
    assert due(snapshot.group, table({("t", 0): (50, -1), ("u", 0): (60, -1)})) == {
        ("t", 0): None,
        ("u", 0): 560,
    }


def test_a_rebalance_that_a_prober_has_seen() -> None:
    """While it lasts nothing expires."""
    group = GroupState(
        phase=Phase.PREPARING_REBALANCE,
        classic=ClassicGeneration(protocol_type="consumer", members=(simple_member(("t",)),)),
    )
    assert retention.rule_of(group, None).base is None
    assert due(group, table({("u", 0): (50, -1)})) == {("u", 0): None}


def test_the_end_of_time() -> None:
    """A very large commit time or retention neither overflows nor expires."""
    offsets = table({("t", 0): ((1 << 63) - 1, -1), ("t", 1): (-(1 << 63), -1)})
    context = replace(CONTEXT, retention_ms=1 << 62)
    late, early = retention.deadlines(SIMPLE, offsets, context).tolist()
    assert retention.first_deadline(SIMPLE, offsets, context) == early < late < retention.NEVER


def _silent() -> Report:
    return Report(builders.GROUP, builders.CONTEXT, builders.PARTITION, 1, 1_010)


def consumers(phase: Phase, **classic: Any) -> GroupState:
    """A classic group of one consumer that is subscribed to t."""
    members = () if phase is Phase.EMPTY else (simple_member(("t",)),)
    return GroupState(
        phase=phase, classic=ClassicGeneration(protocol_type="consumer", members=members, **classic)
    )


NEVER, BY_RETENTION = (None, None), (550, 550)
PERHAPS = (None, 550)
STABLE, REBALANCES = consumers(Phase.STABLE), consumers(Phase.PREPARING_REBALANCE)
WORKERS = GroupState(
    phase=Phase.STABLE, classic=ClassicGeneration(protocol_type="connect", members=(simple_member(None),))
)
UNREADABLE = GroupState(
    phase=Phase.STABLE, classic=ClassicGeneration(protocol_type="consumer", members=(simple_member(None),))
)


def both(group: GroupState, release: tuple[int, int] | None) -> dict[str, tuple[int | None, int | None]]:
    """The sure and the possible deadline of an offset of t and of one of u."""
    offsets, context = (
        table({("t", 0): (50, -1), ("u", 0): (50, -1)}),
        replace(CONTEXT, broker_release=release),
    )
    sure = due(group, offsets, context)
    possible = retention.possible_deadlines(group, offsets, context).tolist()
    perhaps = dict(zip(offsets.names(np.arange(2)), possible, strict=True))
    return {
        topic: (sure[topic, 0], None if perhaps[topic, 0] == retention.NEVER else perhaps[topic, 0])
        for topic in ("t", "u")
    }


@pytest.mark.parametrize(
    ("release", "stable", "rebalances", "workers", "unreadable"),
    [
        ((1, 1), (BY_RETENTION, BY_RETENTION), (BY_RETENTION,) * 2, BY_RETENTION, BY_RETENTION),
        ((2, 0), (BY_RETENTION, BY_RETENTION), (BY_RETENTION,) * 2, BY_RETENTION, BY_RETENTION),
        ((2, 1), (NEVER, NEVER), (NEVER, NEVER), NEVER, NEVER),
        ((2, 3), (NEVER, NEVER), (NEVER, NEVER), NEVER, NEVER),
        ((2, 4), (NEVER, BY_RETENTION), (PERHAPS, PERHAPS), NEVER, NEVER),
        ((2, 8), (NEVER, BY_RETENTION), (PERHAPS, PERHAPS), NEVER, NEVER),
        ((3, 1), (NEVER, BY_RETENTION), (PERHAPS, PERHAPS), NEVER, NEVER),
        ((3, 2), (NEVER, BY_RETENTION), (NEVER, NEVER), NEVER, NEVER),
        ((4, 0), (NEVER, BY_RETENTION), (NEVER, NEVER), NEVER, NEVER),
        (None, (NEVER, BY_RETENTION), (NEVER, NEVER), NEVER, NEVER),
    ],
)
def test_the_rules_of_a_release(
    release: tuple[int, int] | None, stable: Any, rebalances: Any, workers: Any, unreadable: Any
) -> None:
    """A group with members, by the class files of those releases; one without members expires in all of them."""
    assert both(STABLE, release) == {"t": stable[0], "u": stable[1]}
    assert both(REBALANCES, release) == {"t": rebalances[0], "u": rebalances[1]}
    assert both(WORKERS, release) == {"t": workers, "u": workers}
    assert both(UNREADABLE, release) == {"t": unreadable, "u": unreadable}
    assert both(SIMPLE, release) == {"t": BY_RETENTION, "u": BY_RETENTION}
    empty = BY_RETENTION if release is not None and release < (2, 1) else (1_500, 1_500)
    assert both(consumers(Phase.EMPTY, emptied_ms=1_000), release) == {"t": empty, "u": empty}


def test_an_unseen_rebalance_of_an_old_broker() -> None:
    """Up to 3.1 the topics of a stable group may have expired in a rebalance that nobody has seen."""
    offsets = table({("t", 0): (50, -1)})
    for release, expected in (((2, 3), retention.NEVER), ((3, 1), 550), ((3, 2), retention.NEVER)):
        context = replace(CONTEXT, broker_release=release)
        found = retention.possible_deadlines(STABLE, offsets, context, unseen=True)
        assert found.tolist() == [expected], release


def group_of(*history: builders.Raw) -> GroupState:
    """The group after these records."""
    snapshot = GroupSnapshot()
    for raw in history:
        report = _silent().at(raw.at)
        apply_value(snapshot, raw.value, Offsets(), report)
    return snapshot.group


def static(topics: str, name: str, number: int = 1, **fields: Any) -> builders.Raw:
    """A record with one static member that is subscribed to these topics."""
    one = builders.member(name, instance_id="i", subscribed=tuple(topics))
    return builders.generation(number, one, **fields)


def test_a_static_member_that_comes_back_with_another_subscription() -> None:
    """What every subscription has is protected, what one has perhaps; the next generation ends that."""
    asked = builders.asked_for(at=1)
    group = group_of(asked, static("tv", "a", at=20), static("uv", "b", at=30))
    offsets = table({(topic, 0): (50, -1) for topic in "tuvw"})
    named = offsets.names(np.arange(4))

    def possible(group: GroupState) -> dict[str, int | None]:
        found = retention.possible_deadlines(group, offsets, CONTEXT).tolist()
        return {
            topic: None if at == retention.NEVER else at for (topic, _), at in zip(named, found, strict=True)
        }

    assert due(group, offsets) == {("t", 0): None, ("u", 0): None, ("v", 0): None, ("w", 0): 550}
    assert possible(group) == {"t": 550, "u": 550, "v": None, "w": 550}
    again = group_of(asked, static("tv", "a", at=20), static("uv", "b", at=30), static("tv", "c", at=40))
    assert (due(again, offsets), possible(again)) == (due(group, offsets), possible(group))
    later = group_of(asked, static("tv", "a", at=20), static("uv", "b", at=30), static("uv", "b", 2, at=40))
    assert possible(later) == {"t": 550, "u": None, "v": None, "w": 550}
    assert due(later, offsets)["t", 0] == 550
    same = group_of(asked, static("tv", "a", at=20), static("tv", "b", at=30))
    assert same.classic.earlier is None


def test_a_replacement_whose_generation_compaction_has_removed() -> None:
    """Its time says so: nobody knows what the generation was subscribed to. The leader's sync comes in time."""
    member_ms = 300_000
    offsets = table({("t", 0): (50, -1), ("u", 0): (50, -1)})
    replaced = group_of(static("t", "b", 7, at=member_ms + 100, since=50))
    assert due(replaced, offsets) == {("t", 0): None, ("u", 0): 550}
    assert retention.possible_deadlines(replaced, offsets, CONTEXT).tolist() == [550, 550]
    synced = group_of(static("t", "b", 7, at=member_ms + 50, since=50))
    assert synced.classic.earlier is None


def test_an_earlier_subscription_that_cannot_be_read() -> None:
    """While its coordinator is the same nothing expires."""
    unreadable = replace(builders.member("a", instance_id="i"), subscription=b"\xff")
    group = group_of(
        builders.asked_for(at=1), builders.generation(1, unreadable, at=20), static("t", "b", at=30)
    )
    offsets = table({("t", 0): (50, -1), ("u", 0): (50, -1)})
    assert due(group, offsets) == {("t", 0): None, ("u", 0): None}


def test_what_a_deadline_rests_on() -> None:
    """The rule, the base, and each number that nobody has given."""
    offsets = table({("t", 0): (50, -1), ("t", 1): (50, 70)})
    places = np.arange(2)

    def found(group: GroupState, place: int, **context: Any) -> tuple[Any, ...]:
        one = places[place : place + 1]
        basis = retention.grounds(group, offsets, one, one, replace(CONTEXT, **context))
        return basis.rule, basis.base, basis.assumed, basis.assumed_release, basis.evidence

    week = {"retention_ms": 7 * 24 * 3_600_000}
    simple = "classic, no protocol type"
    assert found(SIMPLE, 0) == (simple, "commit", {}, None, Evidence.LOG)
    assert found(SIMPLE, 1, retention_ms=None) == (simple, "own", {}, None, Evidence.LOG)
    assert found(SIMPLE, 0, retention_ms=None) == (simple, "commit", week, None, Evidence.INFERRED)
    stable = "classic consumers, Stable"
    assert found(STABLE, 0) == (stable, "commit", {}, "3.2 or later", Evidence.INFERRED)
    assert found(STABLE, 0, broker_release=(3, 9)) == (stable, "commit", {}, None, Evidence.LOG)
    empty = consumers(Phase.EMPTY, emptied_ms=60)
    assert found(empty, 0) == ("classic, Empty", "emptied", {}, None, Evidence.LOG)
