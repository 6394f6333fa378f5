"""Which groups are asked about, and which of the answers are written; the cluster is a fake with a clock."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from groupreplay.streaming.contract.probe_messages import GroupSettingsAnswer
from groupreplay.streaming.kafka.group_admin import GroupAdmin
from groupreplay.streaming.prober.own_settings import OwnSettings

SHORT = {"consumer.session.timeout.ms": 8_000}


@dataclass
class Groups(GroupAdmin):
    """Groups of KIP-848 with their own settings; None: the brokers list none."""

    own: dict[str, dict[str, int]] | None
    now: float = 0.0
    asked_about: list[list[str]] = field(default_factory=list)

    def consumer_groups(self) -> frozenset[str] | None:
        return None if self.own is None else frozenset(self.own)

    def own_settings(self, groups: Collection[str]) -> dict[str, dict[str, int]]:
        assert self.own is not None
        self.asked_about.append(sorted(groups))
        return {group: dict(self.own[group]) for group in sorted(groups)}

    def seconds(self) -> float:
        return self.now


def rounds(asking: OwnSettings, cluster: Groups, *pauses: float) -> list[dict[str, dict[str, int]]]:
    """The answers of rounds so many seconds after each other, each of which is written."""
    written = []
    for pause in pauses:
        cluster.now += pause
        written.append(asking.find())
        asking.remember(
            GroupSettingsAnswer(cluster_id="c", group_id=group, taken_ms=1, settings=settings)
            for group, settings in written[-1].items()
        )
    return written


def test_what_is_new_is_written() -> None:
    """A new group is asked about at once, all each minute; an answer that is the same is repeated each hour."""
    cluster = Groups({"g": SHORT, "h": {}})
    asking = OwnSettings(cluster, cluster.seconds)
    assert rounds(asking, cluster, 0, 10) == [{"g": SHORT, "h": {}}, {}]
    cluster.own = {"g": {}, "h": {}, "i": {}}
    assert rounds(asking, cluster, 10, 10, 60) == [{"i": {}}, {}, {"g": {}}]
    assert cluster.asked_about == [["g", "h"], [], ["i"], [], ["g", "h", "i"]]
    assert rounds(asking, cluster, 3_509, 60, 60) == [{}, {"h": {}, "i": {}}, {"g": {}}]


def test_a_group_that_comes_back_is_new() -> None:
    """Nothing is kept of a group that is gone, so its settings are written again."""
    cluster = Groups({"g": SHORT})
    asking = OwnSettings(cluster, cluster.seconds)
    assert rounds(asking, cluster, 0) == [{"g": SHORT}]
    cluster.own = {}
    assert rounds(asking, cluster, 10) == [{}]
    cluster.own = {"g": SHORT}
    assert rounds(asking, cluster, 10) == [{"g": SHORT}]


def test_brokers_that_list_no_groups() -> None:
    """Nothing is said about any group, and nothing is forgotten of those that were written."""
    cluster = Groups({"g": SHORT})
    asking = OwnSettings(cluster, cluster.seconds)
    rounds(asking, cluster, 0)
    cluster.own = None
    assert rounds(asking, cluster, 10) == [{}]
    cluster.own = {"g": SHORT, "h": {}}
    assert rounds(asking, cluster, 10) == [{"h": {}}]
