"""A consumer group of the model: its state, state changes, and the hash of its topics."""

from __future__ import annotations

import pytest

from groupreplay.codecs.kafka_terms import ConsumerPhase, MemberPhase, Phase
from groupreplay.coordinator.consumer.consumer_group import (
    VALID_PREVIOUS,
    ConsumerGroup,
    ConsumerMember,
    Topic,
    metadata_hash,
)
from support.model.consumer_clients import TOPIC_IDS, topics


def group(*members: ConsumerMember, epoch: int = 3, target_epoch: int = 3) -> ConsumerGroup:
    """A group of these members."""
    return ConsumerGroup(
        group_id="g",
        changes=[],
        epoch=epoch,
        target_epoch=target_epoch,
        members={member.member_id: member for member in members},
    )


@pytest.mark.parametrize(
    ("one", "state"),
    [
        (group(), ConsumerPhase.EMPTY),
        (group(epoch=4), ConsumerPhase.EMPTY),
        (group(ConsumerMember(member_id="a", epoch=3), epoch=4), ConsumerPhase.ASSIGNING),
        (group(ConsumerMember(member_id="a", epoch=2)), ConsumerPhase.RECONCILING),
        (
            group(ConsumerMember(member_id="a", epoch=3, phase=MemberPhase.UNRELEASED)),
            ConsumerPhase.RECONCILING,
        ),
        (group(ConsumerMember(member_id="a", epoch=3)), ConsumerPhase.STABLE),
    ],
)
def test_the_state_follows_from_epochs_and_members(one: ConsumerGroup, state: ConsumerPhase) -> None:
    """The conditions are checked in Kafka's order."""
    assert one.state is state


@pytest.mark.parametrize("state", [*ConsumerPhase, Phase.EMPTY, Phase.STABLE])
@pytest.mark.parametrize("before", [*ConsumerPhase, *Phase])
def test_illegal_changes_are_refused(before: ConsumerPhase | Phase, state: ConsumerPhase | Phase) -> None:
    """For every pair of states that the table does not have."""
    group = ConsumerGroup(group_id="g", changes=[], last_state=before)
    if before == state or before in VALID_PREVIOUS[state]:
        group.transition_to(state, 1)
        assert group.last_state is state
    else:
        with pytest.raises(ValueError, match=r"group 'g' cannot go from .* to "):
            group.transition_to(state, 1)


def test_the_hash_changes_with_the_topics() -> None:
    """It does not change with the order of topics or with unknown topics; without topics it is 0."""
    here = topics()
    both, turned = (
        ConsumerMember(member_id="a", topics=("t", "u")),
        ConsumerMember(member_id="b", topics=("u", "t")),
    )
    unknown = ConsumerMember(member_id="c", topics=("nowhere",))
    assert metadata_hash([both], here) == metadata_hash([turned, unknown], here) != 0
    assert metadata_hash([unknown], here) == metadata_hash([], here) == 0
    more = {**here, "t": Topic(TOPIC_IDS["t"], 4)}
    assert metadata_hash([both], more) != metadata_hash([both], here)
