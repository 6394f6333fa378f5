"""Workers of Kafka Connect: what they run after each of its three protocols."""

from __future__ import annotations

import pytest

from groupreplay.state.snapshot.members import (
    Member,
    Pairing,
    Worker,
    group_topics,
    pair,
    read_members,
    read_worker,
)
from support.histories.builders import generation, member
from support.histories.connect_blobs import OFFSET, URL, assignment, metadata, tasks


def test_eager_assignments_are_whole() -> None:
    """Protocol 0 contains the whole assignment; the connector itself is not one of its tasks."""
    given = assignment(0, tasks(sink=[-1, 0, 1], source=[3]))
    assert read_worker(metadata(0), given) == Worker(URL, OFFSET, ("sink",), {"sink": "0-1", "source": "3"})


@pytest.mark.parametrize("version", [1, 2])
def test_incremental_assignments_add_to_what_was_there(version: int) -> None:
    """The allocation before, less what is revoked, and what is new."""
    before = assignment(version, tasks(sink=[-1, 0, 1], source=[0]))
    given = assignment(version, tasks(other=[-1, 2]), tasks(sink=[-1, 1]))
    expected = Worker(URL, OFFSET, ("other",), {"other": "2", "sink": "0", "source": "0"})
    assert read_worker(metadata(version, before), given) == expected


def test_a_new_worker_ran_nothing() -> None:
    """Null for an allocation, null for lists: nothing is revoked, nothing is assigned."""
    assert read_worker(metadata(1), assignment(1, None)) == Worker(URL, OFFSET, (), {})


def test_what_cannot_be_read_is_unknown() -> None:
    """With a broken assignment the worker's address is still known; with broken metadata there is no worker."""
    given = assignment(1, tasks(sink=[0]))
    unknown = Worker(URL, OFFSET, None, None)
    assert read_worker(metadata(1), b"") == unknown
    assert read_worker(metadata(1), given[:-3]) == unknown
    assert read_worker(metadata(1, b"\x00"), given) == unknown
    assert read_worker(b"\x00\x01\x7f", given) is None
    assert read_worker(b'{"url": "json"}', given) is None


def test_tasks_below_the_connector_are_none() -> None:
    """A negative number that is not the connector is no task."""
    assert read_worker(metadata(0), assignment(0, tasks(sink=[-7, 0]))) == Worker(
        URL, OFFSET, (), {"sink": "0"}
    )


def members(*given: object) -> tuple[Member, ...]:
    """Members as a record shows them."""
    return read_members(generation(1, *given, at=1).value)  # type: ignore[arg-type]


def ids(pairing: Pairing) -> tuple[list[tuple[str, str]], list[str], list[str]]:
    """Kept pairs, left and joined, by member id."""
    kept = [(old.member_id, new.member_id) for old, new in pairing.kept]
    return kept, [one.member_id for one in pairing.left], [one.member_id for one in pairing.joined]


def test_a_member_in_full() -> None:
    """Everything a record holds of a member, its blobs read."""
    assert members(member("a", [2, 0], instance_id="i")) == (
        Member(
            member_id="a",
            instance_id="i",
            client_id="client-a",
            client_host="/10.0.0.1",
            rebalance_timeout_ms=300_000,
            session_timeout_ms=45_000,
            supported_protocols=("range",),
            topics=("t",),
            partitions={"t": "0,2"},
        ),
    )


def test_the_same_id_is_the_same_member() -> None:
    """The member id alone is enough."""
    old = members(member("a", host="/h1"))
    assert ids(pair(old, members(member("a", host="/h2", client_id="x")))) == ([("a", "a")], [], [])


def test_the_same_instance_is_the_same_member() -> None:
    """A static member keeps its slot on another host."""
    old = members(member("i-1", instance_id="i", host="/h1"))
    assert ids(pair(old, members(member("i-2", instance_id="i", host="/h2")))) == ([("i-1", "i-2")], [], [])


def test_a_unique_place_is_the_same_member() -> None:
    """Client id and host, where no other member has them in either record."""
    one = {"client_id": "c", "host": "/h"}
    assert ids(pair(members(member("a", **one)), members(member("b", **one)))) == ([("a", "b")], [], [])
    crowd = members(member("a", **one), member("b", **one))
    assert ids(pair(crowd, members(member("c", **one)))) == ([], ["a", "b"], ["c"])


def test_an_instance_id_is_no_place() -> None:
    """A static and a dynamic member never share a slot, even with confusing names."""
    old = members(member("a", instance_id="c", client_id="c", host="/h"))
    assert ids(pair(old, members(member("b", client_id="c", host="/h")))) == ([], ["a"], ["b"])


def test_topics_of_a_group() -> None:
    """The union over members; unknown for another protocol type."""
    both = members(member("a", subscribed=["t"]), member("b", subscribed=["u", "t"]))
    assert group_topics(both, "consumer") == {"t", "u"}
    assert group_topics(both, "connect") is None
    assert group_topics((), "consumer") == set()


def test_a_timeout_below_one_was_not_given() -> None:
    """The rebalance timeout is then the session timeout, and that the broker's default."""
    for not_given in (0, -1, -(2**31)):
        (one,) = members(member("a", rebalance_ms=not_given, session_ms=10_000))
        assert (one.rebalance_timeout_ms, one.session_timeout_ms) == (10_000, 10_000)
        (one,) = members(member("a", rebalance_ms=not_given, session_ms=not_given))
        assert (one.rebalance_timeout_ms, one.session_timeout_ms) == (45_000, 45_000)
