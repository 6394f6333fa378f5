"""Every condition there is: one tuple of detectors, from which docs, schemas, rules and texts are made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeVar

from groupreplay.state.conditions.commits_paused import CommitsPausedDetector
from groupreplay.state.conditions.condition import Condition
from groupreplay.state.conditions.detection import Detector, GroupDetector, JobDetector
from groupreplay.state.conditions.job_behind import JobBehindDetector
from groupreplay.state.conditions.job_blind import JobBlindDetector
from groupreplay.state.conditions.leader_flapping import LeaderFlappingDetector
from groupreplay.state.conditions.member_flapping import MemberFlappingDetector
from groupreplay.state.conditions.member_idle import MemberIdleDetector
from groupreplay.state.conditions.offsets_expiring import OffsetsExpiringDetector
from groupreplay.state.conditions.owner_silent import OwnerSilentDetector
from groupreplay.state.conditions.partition_poison import PartitionPoisonDetector
from groupreplay.state.conditions.rebalance_slow import RebalanceSlowDetector
from groupreplay.state.conditions.rebalance_storm import RebalanceStormDetector
from groupreplay.state.conditions.rebalance_stuck import RebalanceStuckDetector
from groupreplay.state.conditions.rebalance_suspected import RebalanceSuspectedDetector
from groupreplay.state.conditions.rebalance_timeouts import RebalanceTimeoutsDetector
from groupreplay.state.conditions.static_conflict import StaticConflictDetector
from groupreplay.state.conditions.static_crash_loop import StaticCrashLoopDetector
from groupreplay.state.conditions.transaction_hanging import TransactionHangingDetector
from groupreplay.state.policy.rules import Thresholds

#: Every detector with its default thresholds, in the order of the docs and of events of one moment.
DETECTORS: Final[tuple[Detector, ...]] = (
    RebalanceSlowDetector(),
    RebalanceStuckDetector(),
    RebalanceSuspectedDetector(),
    RebalanceTimeoutsDetector(),
    RebalanceStormDetector(),
    LeaderFlappingDetector(),
    MemberFlappingDetector(),
    MemberIdleDetector(),
    StaticConflictDetector(),
    StaticCrashLoopDetector(),
    OwnerSilentDetector(),
    PartitionPoisonDetector(),
    CommitsPausedDetector(),
    OffsetsExpiringDetector(),
    TransactionHangingDetector(),
    JobBlindDetector(),
    JobBehindDetector(),
)
#: Every condition, in the order of the docs.
CONDITIONS: Final[tuple[type[Condition], ...]] = tuple(detector.CONDITION for detector in DETECTORS)
#: Condition by name.
KINDS: Final = {kind.NAME: kind for kind in CONDITIONS}


def kind_named(name: str) -> type[Condition]:
    """The condition with the words for it; for one of a later release the base of all, which has none."""
    return KINDS.get(name, Condition)


#: Conditions that are about no group.
OF_THE_JOB: Final = frozenset(detector.name for detector in DETECTORS if isinstance(detector, JobDetector))

#: Those of a group.
GROUP_DETECTORS: Final = tuple(detector for detector in DETECTORS if isinstance(detector, GroupDetector))
# In the order in which the events of one observation are numbered.
_JOB_DETECTORS: Final = tuple(
    sorted(
        (detector for detector in DETECTORS if isinstance(detector, JobDetector)),
        key=lambda detector: detector.name,
    )
)
_AnyDetector = TypeVar("_AnyDetector", bound=Detector)


def job_detectors(thresholds: Thresholds) -> tuple[JobDetector, ...]:
    """The detectors of the job with the thresholds of a policy."""
    return with_thresholds(_JOB_DETECTORS, thresholds)


def with_thresholds(detectors: Iterable[_AnyDetector], thresholds: Thresholds) -> tuple[_AnyDetector, ...]:
    """These detectors with other thresholds, which also reach the detectors that they are parts of.

    Raises:
        ValueError: a threshold that a detector cannot have.
    """
    changed = {
        detector.name: replace(detector, **thresholds.get(detector.name, {})) for detector in detectors
    }
    return tuple(
        replace(detector, **{field: changed[part.name] for field, part in detector.parts().items()})
        for detector in changed.values()
    )
