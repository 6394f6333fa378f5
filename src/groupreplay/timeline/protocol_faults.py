"""The rebalance protocols that a group can move to, and known faults of Kafka's in such a move, by release."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from groupreplay.state.policy.context import BrokerRelease


class Target(str, Enum):
    """The protocol that a group is to use."""

    CONSUMER = "consumer"
    STREAMS = "streams"


#: Stands for each later release, because brokers since 4.0 do not name theirs.
UNNAMED: Final = (4, 0)


class Fault(NamedTuple):
    """A known fault of Kafka's in such a move; ``releases`` with it, and ``fixed`` in these."""

    issue: str
    targets: frozenset[Target]
    since: BrokerRelease
    before: BrokerRelease
    releases: str
    effect: str


_BOTH: Final = frozenset(Target)
#: By the change that mended each one, and by the classes of each release: a fault ends with ``before``, the first minor
#: release of which no patch release has it.
FAULTS: Final = (
    Fault(
        "KAFKA-20254",
        frozenset({Target.STREAMS}),
        (4, 1),
        (4, 3),
        "4.1.0 to 4.2.0",
        "a converted group cannot be loaded again: its partition of the offsets topic stays without a coordinator",
    ),
    Fault(
        "KAFKA-19862",
        _BOTH,
        (4, 0),
        (4, 2),
        "4.0.0, 4.0.1, 4.1.0 and 4.1.1",
        "a partition that is compacted while it is loaded may fail to load",
    ),
    Fault(
        "KAFKA-19233",
        _BOTH,
        (4, 0),
        (4, 2),
        "4.0 and 4.1",
        "a member that the coordinator fenced cannot join again with epoch 0",
    ),
    Fault(
        "KAFKA-20442",
        frozenset({Target.CONSUMER}),
        (4, 0),
        (4, 4),
        "4.0 to 4.3",
        "after the last member was fenced the group epoch stays above the epoch of the assignment",
    ),
)


def known_faults(to: Target, release: BrokerRelease | None) -> list[Fault]:
    """The faults that brokers of this release may have; all of them where the release is not known."""
    known = None if release == UNNAMED else release
    return [
        fault
        for fault in FAULTS
        if to in fault.targets and (known is None or fault.since <= known < fault.before)
    ]
