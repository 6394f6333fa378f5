"""Which topics count as deleted, and which groups are told; the brokers are asked in ``test_prober_live.py``.

Whom a round asks for, what is remembered between two, and what is written down.
The cluster is a fake: brokers that do not answer, and groups that end between two questions, cannot be made to
happen at the right moment. The real one is asked in ``integration/test_prober_live.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.contract.probe_messages import (
    DeletedTopicsAnswer,
    GroupSettingsAnswer,
    ProbeMessage,
)
from groupreplay.streaming.kafka.group_admin import (
    ClusterLayout,
    GroupAdmin,
    GroupDescription,
    GroupListing,
    Refusal,
)
from groupreplay.streaming.prober.prober import DeletedTopics, Prober, ProbeRound, prober_thread, round_line
from support.job.captures import CLUSTER_ID
from support.job.probes import asked, summed_up
from support.kafka.waiting import wait_until


@dataclass
class Topics(GroupAdmin):
    """A cluster with topics, of which some may not be described, and tombstones by offset of partition 0."""

    visible: set[str] | None = field(default_factory=lambda: {"t", "u"})
    hidden: set[str] = field(default_factory=set)
    removed: dict[int, tuple[str, str]] = field(default_factory=dict)
    readable: bool = True
    read: list[Mapping[int, tuple[int, int]]] = field(default_factory=list)

    def topics(self) -> frozenset[str] | None:
        return None if self.visible is None else frozenset(self.visible)

    def unknown_topics(self, topics: Collection[str]) -> frozenset[str]:
        return frozenset(topics) - self.hidden

    def removed_offsets(
        self, spans: Mapping[int, tuple[int, int]], topics: Collection[str]
    ) -> set[tuple[str, str]]:
        self.read.append(dict(spans))
        if not self.readable:
            raise GroupReplayError("not authorised")
        start, end = spans[0]
        return {one for at, one in self.removed.items() if start <= at < end and one[1] in topics}


def rounds(cluster: Topics, *ends: int) -> list[dict[str, tuple[str, ...]]]:
    """The answers of the rounds after two in which nothing had happened."""
    looking = DeletedTopics(cluster)
    topics, cluster.visible = cluster.visible, {"t", "u"}
    assert [looking.find({0: (10, 10)}), looking.find({0: (20, 20)})] == [{}, {}]
    cluster.visible = topics
    return [looking.find({0: (end, end)}) for end in ends]


def test_each_group_is_told_once() -> None:
    """Also of tombstones that a slow coordinator writes in the next rounds, but not for ever."""
    removed = {19: ("early", "t"), 25: ("g", "t"), 26: ("h", "u"), 35: ("late", "t"), 55: ("too late", "t")}
    cluster = Topics(visible={"u"}, removed=removed)
    assert rounds(cluster, 30, 40, 50, 60) == [{"g": ("t",)}, {"late": ("t",)}, {}, {}]
    assert cluster.read == [{0: (20, 30)}, {0: (30, 40)}, {0: (40, 50)}]


def test_two_topics_of_one_group() -> None:
    """They are one answer, in order."""
    cluster = Topics(visible=set(), removed={25: ("g", "u"), 26: ("g", "t"), 27: ("h", "t")})
    assert rounds(cluster, 30) == [{"g": ("t", "u"), "h": ("t",)}]


def test_a_missing_right_is_no_deletion() -> None:
    """A topic that is not in the list any more may be there, unless a broker says that it does not know it."""
    cluster = Topics(visible={"u"}, hidden={"t"}, removed={25: ("g", "t")})
    assert rounds(cluster, 30, 40) == [{}, {}]
    assert cluster.read == []
    assert rounds(Topics(visible=None, removed={25: ("g", "t")}), 30) == [{}]


def test_a_log_that_may_not_be_read() -> None:
    """Nobody is told; the rounds go on."""
    cluster = Topics(visible={"u"}, readable=False, removed={25: ("g", "t")})
    assert rounds(cluster, 30, 40) == [{}, {}]


def test_a_topic_that_is_deleted_again() -> None:
    """It is gone once more, and the same group is told once more."""
    cluster = Topics(removed={25: ("g", "t"), 85: ("g", "t")})
    looking, found = DeletedTopics(cluster), []
    for end in range(20, 100, 10):
        cluster.visible = {"u"} if end in (30, 40, 50, 60, 90) else {"t", "u"}
        found.append(looking.find({0: (end, end)}))
    assert found == [{}, {"g": ("t",)}, {}, {}, {}, {}, {}, {"g": ("t",)}]


STABLE, PREPARING, COMPLETING, DEAD = "Stable", "PreparingRebalance", "CompletingRebalance", "Dead"
LOST, FORBIDDEN = Refusal(unauthorised=False), Refusal(unauthorised=True)


@dataclass
class Cluster(GroupAdmin):
    """One broker, two partitions, and groups; a group without a state is described by nobody.

    A millisecond passes with every look at the clock, which somebody may set.
    """

    states: dict[str, str | Refusal] = field(default_factory=dict)
    unknown: Refusal | None = None
    is_up: bool = True
    error: str | None = None
    now_ms: int = 1_000
    set_by_ms: int = 0
    describes: bool = True
    described: list[list[str]] = field(default_factory=list)
    existing: set[str] = field(default_factory=set)
    own: dict[str, dict[str, int]] = field(default_factory=dict)

    def consumer_groups(self) -> frozenset[str]:
        return frozenset(self.own)

    def own_settings(self, groups: Collection[str]) -> dict[str, dict[str, int]]:
        return {group: self.own[group] for group in groups}

    def clock(self) -> int:
        self.now_ms += 1
        return self.now_ms + self.set_by_ms

    def seconds(self) -> float:
        return self.now_ms / 1_000

    def layout(self) -> ClusterLayout:
        if not self.is_up:
            raise GroupReplayError("cannot reach the cluster")
        return ClusterLayout(frozenset({1}), 2, {0: 1, 1: 1})

    def rebalancing(self, brokers: Collection[int]) -> GroupListing:
        assert set(brokers) == {1}
        self.now_ms += 100
        found = {group for group, state in self.states.items() if state in {PREPARING, COMPLETING}}
        return GroupListing(frozenset(() if self.error else found), {1: self.error})

    def describe(self, groups: Sequence[str]) -> dict[str, GroupDescription | Refusal]:
        self.described.append([group for group in groups if not group.startswith("groupreplay-")])
        return {group: self._picture(group) for group in groups}

    def _picture(self, group: str) -> GroupDescription | Refusal:
        known = self.states.get(group) if self.describes else None
        state = known or self.unknown or DEAD
        if isinstance(state, Refusal):
            return state
        return GroupDescription(state=state, broker=1, protocol_type="consumer", protocol="", members=())

    def ends(self, partitions: int) -> dict[int, tuple[int, int]]:
        return {0: (5, 5), 1: (7, 6)}

    def topics(self) -> frozenset[str]:
        return frozenset(self.existing)

    def uncommitted(self, spans: Mapping[int, tuple[int, int]]) -> dict[int, bytes]:
        return {}

    def unknown_topics(self, topics: Collection[str]) -> frozenset[str]:
        return frozenset(topics)

    def removed_offsets(
        self, spans: Mapping[int, tuple[int, int]], topics: Collection[str]
    ) -> set[tuple[str, str]]:
        return {("g", topic) for topic in topics} if spans == {0: (5, 5), 1: (6, 6)} else set()


def prober(cluster: Cluster, *in_progress: str) -> Prober:
    """A prober of that cluster."""
    return Prober(
        cluster,
        cluster_id=CLUSTER_ID,
        clock=cluster.clock,
        seconds=cluster.seconds,
        job_id="j",
        in_progress=in_progress,
    )


def states(taken: ProbeRound) -> dict[str, str]:
    """What a round says of its groups."""
    return {answer.group_id: answer.state for answer in taken.answers}


def test_a_round() -> None:
    """Only groups in the middle of a rebalance are asked for; the summary stands behind the answers.

    An answer is dated before its question, so that whatever is written meanwhile is newer.
    """
    cluster = Cluster({"well": STABLE, "busy": PREPARING, "syncing": COMPLETING})
    taken = prober(cluster).take()
    assert cluster.described == [["busy", "syncing"]]
    summary = summed_up(at=1_001, partitions={0: (5, 5), 1: (7, 6)}, count=2)
    assert taken.messages == [
        replace(asked("busy", PREPARING, at=1_102), answered_ms=1_103),
        replace(asked("syncing", COMPLETING, at=1_102), answered_ms=1_103),
        replace(summary, groups=2, job_id="j", leaders={0: 1, 1: 1}),
    ]


@pytest.mark.parametrize("set_by_ms", [0, -3_600_000, 31_536_000_000])
def test_how_long_nobody_had_looked(set_by_ms: int) -> None:
    """An answer says how much earlier its rebalance may have begun: rounds may be late, or miss a broker.

    A clock that somebody sets in between does not matter.
    """
    cluster = Cluster({"g": PREPARING})
    asking = prober(cluster)
    told = []
    for pause_ms, error in [(0, None), (5_000, None), (30_000, "timed out"), (10_000, None)]:
        cluster.now_ms += pause_ms
        cluster.error = error
        taken = asking.take()
        asking.remember(taken)
        told += [answer.unseen_ms for answer in taken.answers]
        cluster.set_by_ms = set_by_ms
    # A round asks about groups 101 ms after its start, and starts 1 ms late. The third knew of the group before.
    assert told == [None, 10_000, 30_000 + 204, 30_000 + 10_000 + 307]


def test_a_new_process_goes_on_from_the_last_round_in_the_topic() -> None:
    """It does not know of a round before; with one, the time since then counts."""
    cluster = Cluster({"g": PREPARING}, now_ms=50_000)
    asking = Prober(
        cluster, cluster_id=CLUSTER_ID, clock=cluster.clock, seconds=cluster.seconds, listed_ms=20_000
    )
    (answer,) = asking.take().answers
    assert answer.unseen_ms == 30_000 + 104


def test_a_group_that_nobody_has_described() -> None:
    """Listed, but without an answer, or in a round that was not written: its rebalance may be older."""
    cluster = Cluster({"g": STABLE})
    asking = prober(cluster)
    asking.remember(asking.take())
    cluster.states = {"g": PREPARING}
    cluster.now_ms += 10_000
    asking.take()  # what is not remembered was not written
    cluster.unknown, cluster.describes = LOST, False
    cluster.now_ms += 10_000
    asking.remember(asking.take())
    cluster.unknown, cluster.describes = None, True
    cluster.now_ms += 10_000
    (answer,) = (taken := asking.take()).answers
    asking.remember(taken)
    assert answer.unseen_ms == 30_000 + 410
    cluster.now_ms += 10_000
    (answer,) = asking.take().answers
    assert answer.unseen_ms == 10_000 + 204


def test_a_clock_that_is_ahead() -> None:
    """An answer says by how much at most."""
    cluster = Cluster({"g": PREPARING})
    asking = Prober(
        cluster, cluster_id=CLUSTER_ID, clock=cluster.clock, seconds=cluster.seconds, ahead_ms=lambda: 70
    )
    assert [answer.ahead_ms for answer in asking.take().answers] == [70]


def test_the_end_is_asked_for_once() -> None:
    """A group that is no longer listed is described once more, and then forgotten."""
    cluster = Cluster({"g": PREPARING, "h": PREPARING})
    asking = prober(cluster)
    asking.remember(asking.take())
    cluster.states = {"g": STABLE}
    asking.remember(second := asking.take())
    asking.remember(asking.take())
    assert states(second) == {"g": STABLE, "h": DEAD}
    assert cluster.described == [["g", "h"], ["g", "h"], []]


def test_a_round_that_was_not_written_is_asked_again() -> None:
    """The end of a rebalance must not be lost with an outage of the sink.

    The first round asks for groups that were in progress when the last process ended.
    """
    asking = prober(Cluster({"g": STABLE}), "g")
    assert states(asking.take()) == {"g": STABLE}
    assert states(asking.take()) == {"g": STABLE}


def test_no_answer_is_no_end() -> None:
    """A coordinator that moves or a broker that is away: nothing is written of the group, nothing forgotten."""
    cluster = Cluster({"g": LOST}, error="timed out")
    asking = prober(cluster, "g")
    silent = asking.take()
    asking.remember(silent)
    assert (states(silent), silent.summary.brokers, silent.summary.groups) == ({}, {1: "timed out"}, 0)
    cluster.states, cluster.error = {"g": STABLE}, None
    assert states(asking.take()) == {"g": STABLE}


def test_a_whole_cluster_that_is_away() -> None:
    """Before the first answer it is an error; then a round that says so, and changes nothing."""
    cluster = Cluster({"g": PREPARING}, is_up=False)
    asking = prober(cluster)
    with pytest.raises(GroupReplayError, match="cannot reach"):
        asking.take()
    cluster.is_up = True
    asking.remember(asking.take())
    cluster.is_up = False
    away = asking.take()
    asking.remember(away)
    said = away.summary
    assert (away.answers, said.brokers) == ((), {1: "cannot reach the cluster"})
    assert (said.rights, said.partitions, said.partition_count) == ("unknown", {}, None)
    cluster.is_up, cluster.states = True, {"g": STABLE}
    assert states(asking.take()) == {"g": STABLE}


@pytest.mark.parametrize(("unknown", "rights"), [(None, "ok"), (FORBIDDEN, "missing"), (LOST, "unknown")])
def test_missing_rights_are_not_no_groups(unknown: Refusal | None, rights: str) -> None:
    """The list is empty either way; only the question for a group that nobody has tells the difference."""
    assert prober(Cluster(unknown=unknown)).take().summary.rights == rights


def test_the_thread_survives_outages(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing stops it, each outage is logged once, and it begins anew where it could not even open."""
    cluster = Cluster({"g": PREPARING})
    written: list[ProbeMessage] = []
    told: list[ProbeRound] = []
    troubles = ["fourth", "third", "second", "first"]

    def open_one() -> Prober:
        if len(troubles) > 2:
            raise OSError(troubles.pop())
        return prober(cluster)

    def write(messages: Sequence[ProbeMessage]) -> None:
        if troubles:
            raise OSError(troubles.pop())
        written.extend(messages)

    thread = prober_thread(open_one, interval_seconds=0.001, write=write, on_round=told.append)
    thread.start(at_once=True)
    wait_until(lambda: len(told) > 2)
    thread.close()
    assert written == [message for one in told for message in one.messages]
    assert [record.getMessage() for record in caplog.records] == ["the prober failed: first"]


def test_a_topic_that_is_gone() -> None:
    """Each group that has lost offsets of it gets one answer, dated after the log was read; before the summary."""
    cluster = Cluster({}, existing={"t", "u"})
    asking = prober(cluster)
    assert asking.take().deletions == ()
    cluster.existing = {"u"}
    taken = asking.take()
    expected = DeletedTopicsAnswer(
        cluster_id=CLUSTER_ID, group_id="g", taken_ms=cluster.now_ms, topics=("t",), interval_ms=10_000
    )
    assert taken.messages == [expected, taken.summary]
    assert asking.take().deletions == ()


def test_settings_stand_before_the_summary() -> None:
    """Once written they are remembered; those of a round that was not written are told again."""
    cluster = Cluster(own={"g": {"consumer.session.timeout.ms": 8_000}})
    asking = prober(cluster)
    for is_written in (False, True):
        taken = asking.take()
        assert taken.messages == [
            GroupSettingsAnswer(
                cluster_id=CLUSTER_ID, group_id="g", taken_ms=cluster.now_ms, settings=cluster.own["g"]
            ),
            taken.summary,
        ]
        if is_written:
            asking.remember(taken)
    assert asking.take().settings == ()


def test_a_round_in_one_line() -> None:
    """How many, who answered, and what hides something."""
    well = "1970-01-01T00:00:01.000Z: 0 groups rebalancing, 1 of 1 brokers answered"
    assert round_line(summed_up(at=1_000)) == well
    ends = {0: (5, 4), 1: (5, 5)}
    summary = summed_up(at=1_000, brokers={1: None, 2: "x"}, partitions=ends, rights="missing")
    assert round_line(summary) == (
        "1970-01-01T00:00:01.000Z: 0 groups rebalancing, 1 of 2 brokers answered, "
        "1 partitions with an open transaction, rights missing"
    )
