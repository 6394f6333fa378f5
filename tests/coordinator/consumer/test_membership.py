"""A member's steps to its target: revoke, then take free partitions, then Stable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.codecs.kafka_terms import MemberPhase
from groupreplay.coordinator.consumer.consumer_group import ConsumerMember
from groupreplay.coordinator.consumer.membership import Reconciliation

T, U = b"t" * 16, b"u" * 16


def held(since: int, *numbers: int) -> dict[tuple[bytes, int], int]:
    """Partitions of topic t, owned since an epoch."""
    return {(T, number): since for number in numbers}


#: A member that has partitions 0 and 1 at epoch 2.
MEMBER = ConsumerMember(member_id="a", epoch=2, previous_epoch=1, assigned=held(2, 0, 1))
REVOKING = replace(
    MEMBER, previous_epoch=2, phase=MemberPhase.UNREVOKED, assigned=held(2, 0), revoking=held(2, 1)
)
#: It shall have 0 and 2 at epoch 3.
NEXT = Reconciliation(
    target_epoch=3,
    target=held(3, 0, 2),
    subscribed=frozenset({T}),
    subscribes=True,
    taken=held(2, 0, 1),
    owned=frozenset(held(2, 0, 1)),
    subscription_changed=False,
)
STABLE = replace(MEMBER, epoch=3, previous_epoch=2, assigned={**held(2, 0), **held(3, 2)})


@pytest.mark.parametrize(
    ("member", "step", "after"),
    [
        # It has its target already.
        (MEMBER, replace(NEXT, target_epoch=2), MEMBER),
        # Something has to go first, at the old epoch.
        (MEMBER, NEXT, REVOKING),
        # It has gone before anybody asked.
        (MEMBER, replace(NEXT, owned=frozenset(held(2, 0))), STABLE),
        # It has not gone, or nobody knows.
        (REVOKING, NEXT, REVOKING),
        (REVOKING, replace(NEXT, owned=None), REVOKING),
        # It has gone: the new epoch, with what is free.
        (REVOKING, replace(NEXT, owned=frozenset()), STABLE),
        (
            REVOKING,
            replace(NEXT, owned=frozenset(), taken=held(2, 0, 1, 2)),
            replace(STABLE, phase=MemberPhase.UNRELEASED, assigned=held(2, 0)),
        ),
        # What it gives up itself is free for it.
        (
            REVOKING,
            replace(NEXT, owned=frozenset(), target=held(3, 0, 1)),
            replace(STABLE, assigned={**held(2, 0), **held(3, 1)}),
        ),
        # It has subscribed to other topics.
        (
            MEMBER,
            replace(NEXT, target_epoch=2, subscribed=frozenset({U}), subscription_changed=True),
            replace(
                MEMBER, previous_epoch=2, phase=MemberPhase.UNREVOKED, assigned={}, revoking=held(2, 0, 1)
            ),
        ),
        (
            MEMBER,
            replace(
                NEXT,
                target_epoch=2,
                subscribed=frozenset(),
                subscribes=False,
                subscription_changed=True,
                owned=frozenset(),
            ),
            replace(MEMBER, previous_epoch=2, assigned={}),
        ),
        (MEMBER, replace(NEXT, target_epoch=2, subscription_changed=True), MEMBER),
    ],
)
def test_steps(member: ConsumerMember, step: Reconciliation, after: ConsumerMember) -> None:
    """For each state of the member and each input, the next state."""
    assert step.step(member) == after
