"""Which topics count as deleted, and which groups are told; the brokers are asked in ``test_prober_live.py``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.kafka.group_admin import GroupAdmin
from groupreplay.streaming.prober.deleted_topics import DeletedTopics


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
