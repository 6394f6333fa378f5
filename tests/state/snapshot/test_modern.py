"""Records of share and streams groups; tests/state/conditions/test_scenarios.py has their states."""

from __future__ import annotations

from groupreplay.codecs import REGISTRY
from groupreplay.state.snapshot.modern import RECORDS
from support.histories.builders import names, replay
from support.histories.group_records import Described, HeldPartitions, Share, Streams
from support.histories.modern_builders import operation


def test_every_record_type_has_its_place() -> None:
    """Whatever the codecs read, apart from offsets and classic groups, is replayed."""
    assert set(RECORDS) == set(REGISTRY) - {0, 1, 2}


def test_a_share_group_names_its_topics() -> None:
    """Type 15 has the names of the topics that are being initialised."""
    write = Share()
    history = operation(1_000, write.described(Described("a", "c")), write.group_epoch(1, 7))
    history += operation(
        2_000,
        write.target_epoch(1),
        write.current("a", HeldPartitions(1, assigned=(0, 1))),
        write.state_partitions((0, 1)),
    )
    group, events = replay(history)
    assert names(events) == ["group.created", "rebalance.started", "member.joined", "rebalance.completed"]
    described = group.describe()
    assert (described["type"], described["members"][0]["partitions"]) == ("share", {"t": [0, 1]})


def test_a_topology_tombstone_after_the_end_is_nothing() -> None:
    """On deletion it comes after the group's own tombstone."""
    write = Streams()
    member = write.described(Described("a", "c"))
    history = operation(1_000, member, write.group_epoch(1, 7), write.topology(1))
    tombstones = [write.record(name) for name in ("Metadata", "Topology")]
    history += operation(9_000, write.record("MemberMetadata", "a"), *tombstones)
    group, events = replay(history)
    assert (names(events)[-1], group.gone) == ("group.deleted", True)
