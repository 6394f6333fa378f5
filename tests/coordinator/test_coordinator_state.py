"""What DescribeGroups answers."""

from __future__ import annotations

from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.coordinator_state import DescribedGroup, DescribedMember
from support.model.classic_clients import Clients, owning, subscription


def test_the_summary_of_a_group() -> None:
    """Metadata and assignments are only in the summary of a Stable group."""
    clients = Clients()
    assert clients.coordinator.summary() == DescribedGroup(state=Phase.DEAD)
    (member_id,) = clients.stable("a")
    shown = DescribedMember(
        member_id=member_id,
        instance_id=None,
        client_id="a",
        client_host="/10.0.0.1",
        metadata=subscription("t"),
        assignment=owning("t", 0),
    )
    assert clients.coordinator.summary() == DescribedGroup(
        state=Phase.STABLE, protocol_type="consumer", protocol="range", members=(shown,)
    )
    clients.join("b")
    summary = clients.coordinator.summary()
    assert (summary.state, summary.protocol) == (Phase.PREPARING_REBALANCE, "")
    assert [(member.metadata, member.assignment) for member in summary.members] == [(b"", b""), (b"", b"")]
