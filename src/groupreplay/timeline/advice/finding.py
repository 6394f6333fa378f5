"""The form of advice: a finding with its evidence, its effect and its limits; a deployment with its cost.

Times are integer milliseconds since 1970. A range is inclusive; its end null: no bound is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

_MINUTE_MS: Final = 60_000
_HALF_HOUR_MS: Final = 30 * _MINUTE_MS
_DAY_MS: Final = 48 * _HALF_HOUR_MS
#: The page of the docs with a section for each kind; its anchor is the kind's name.
PAGE: Final = "docs/advice.md"


class Kind(str, Enum):
    """What advice is about. The names are anchors of ``PAGE`` and stay."""

    OFFSETS_AT_RISK = "offsets-at-risk"
    STATIC_MEMBERSHIP = "static-membership"
    INCREMENTAL_REBALANCES = "incremental-rebalances"
    SESSION_TIMEOUT = "session-timeout"
    MAX_POLL_INTERVAL = "max-poll-interval"
    REBALANCE_TIMEOUT = "rebalance-timeout"
    RANDOM_INSTANCE_IDS = "random-instance-ids"
    TWO_WAVES = "two-waves"
    SLOW_LEADER = "slow-leader"
    MEMBERS_WITHOUT_WORK = "members-without-work"
    UNEVEN_ASSIGNMENT = "uneven-assignment"
    DIFFERING_MEMBERS = "differing-members"
    FREQUENT_COMMITS = "frequent-commits"
    UNUSED_GROUP = "unused-group"

    @property
    def page(self) -> str:
        """The section with the source, and when not to follow the advice."""
        return f"{PAGE}#{self.value}"


#: How long a history each kind needs, in milliseconds: a shorter one would show an exception as a habit.
NEEDED_MS: Final[Mapping[Kind, int]] = {
    Kind.OFFSETS_AT_RISK: 7 * _DAY_MS,
    Kind.STATIC_MEMBERSHIP: _HALF_HOUR_MS,
    Kind.INCREMENTAL_REBALANCES: _HALF_HOUR_MS,
    Kind.SESSION_TIMEOUT: _HALF_HOUR_MS,
    Kind.MAX_POLL_INTERVAL: _HALF_HOUR_MS,
    Kind.REBALANCE_TIMEOUT: _HALF_HOUR_MS,
    Kind.RANDOM_INSTANCE_IDS: _HALF_HOUR_MS,
    Kind.TWO_WAVES: _DAY_MS,
    Kind.SLOW_LEADER: _HALF_HOUR_MS,
    Kind.MEMBERS_WITHOUT_WORK: _HALF_HOUR_MS,
    Kind.UNEVEN_ASSIGNMENT: _HALF_HOUR_MS,
    Kind.DIFFERING_MEMBERS: 10 * _MINUTE_MS,
    Kind.FREQUENT_COMMITS: 10 * _MINUTE_MS,
    Kind.UNUSED_GROUP: 7 * _DAY_MS,
}

#: What an effect counts. ``partition_stopped_ms``: the times of partitions that nobody worked on, summed.
Measure = Literal[
    "rebalances",
    "stopped_ms",
    "partition_stopped_ms",
    "partition_stops",
    "members",
    "partitions",
    "bytes",
    "offsets_lost",
]


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What the setting would have saved in the span of the finding: at least and at most, and what is likely.

    ``likely_least`` and ``likely_most``: 98 of 100 are within, by the sum in ``how``; both are null or none is.
    """

    measure: Measure
    least: int
    most: Annotated[int | None, Meta(description="Null: no bound is known.")]
    likely_least: Annotated[
        int | None, Meta(description="The inferred range, within the other one; null: nothing is inferred.")
    ] = None
    likely_most: Annotated[int | None, Meta(description="The end of the inferred range.")] = None
    how: Annotated[str, Meta(description="How it is computed, in words.")]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of advice on a group."""

    id: Annotated[str, Meta(description="KIND:GROUP. The same advice on the same group has the same id.")]
    kind: Kind
    group_id: str
    text: Annotated[str, Meta(description="What the history shows.")]
    setting: Annotated[str, Meta(description="What to change, by Kafka's name where it has one.")]
    value: str
    since_ms: Annotated[int, Meta(description="The span that the finding covers: its first moment.")]
    until_ms: Annotated[int, Meta(description="Its last moment.")]
    effects: tuple[Effect, ...]
    evidence: Annotated[tuple[str, ...], Meta(description="Ids of events, the first 20.")]
    events: Annotated[int, Meta(description="How many events the finding rests on.")]
    needs_ms: Annotated[int, Meta(description="The length of history that this kind needs.")]
    unless: Annotated[str, Meta(description="The section that says when not to follow it.")]
    order_ms: Annotated[
        int, Meta(description="By what findings are ordered: the stop that it would have saved, estimated.")
    ] = 0
    assumed: Annotated[
        Mapping[str, int], Meta(description="Numbers that it rests on, and that no record has.")
    ] = {}


class Unsaid(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of advice that this history is too short for."""

    kind: Kind
    text: str


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """A rolling restart, and what it cost the group.

    ``stopped_ms``: how long the group stood still, at least and at most; only an eager classic group does.
    ``likely_stopped_ms``: where 98 of 100 such times are; null: nothing is inferred.
    """

    group_id: str
    since_ms: int
    until_ms: int
    members: int
    rebalances: int
    stopped_ms: tuple[int, int | None]
    records: Annotated[
        int | None,
        Meta(description="Records that waited at the ends of the stops, an estimate; null: not known."),
    ]
    events: Annotated[tuple[str, ...], Meta(description="Ids of its events rebalance.completed.")]
    labels: Mapping[str, str]
    likely_stopped_ms: tuple[int, int] | None = None


class GroupAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """The advice on one group: at most five findings, those of the largest effect first."""

    group_id: str
    type: str
    since_ms: int
    until_ms: int
    findings: tuple[Finding, ...]
    left_out: Annotated[int, Meta(description="Further findings, of less effect.")]
    unsaid: tuple[Unsaid, ...]
    deployments: tuple[Deployment, ...]


class DeploymentSum(msgspec.Struct, frozen=True, kw_only=True):
    """The deployments of one label's value, or of all groups, in a time and in the one of the same length before it."""

    label: Annotated[str | None, Meta(description="Name of the label; null: all groups.")]
    value: Annotated[str | None, Meta(description="Its value; null: groups without the label, or all.")]
    deployments: int
    groups: int
    rebalances: int
    stopped_ms: tuple[int, int | None]
    records: int | None
    before: Annotated[
        int | None,
        Meta(description="Deployments in the time before; null: that time is not known."),
    ]
    stopped_before_ms: tuple[int, int | None] | None
    likely_stopped_ms: Annotated[
        tuple[int, int] | None, Meta(description="The inferred range; null: nothing is inferred.")
    ] = None
    likely_stopped_before_ms: tuple[int, int] | None = None


class FindingSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A finding as a page shows it."""

    id: str
    kind: Kind
    text: Annotated[str, Meta(description="What the history shows.")]
    setting: str
    value: str
    saves: Annotated[tuple[str, ...], Meta(description="Its effects in words: at least and at most.")]
    assumed: Annotated[
        tuple[str, ...], Meta(description="Numbers that it rests on, and that no record has, in words.")
    ]
    evidence: Annotated[tuple[str, ...], Meta(description="Ids of events, the first 3.")]
    events: Annotated[int, Meta(description="How many events it rests on.")]
    page: Annotated[
        str, Meta(description="The section with its source, and when not to follow it: an address or a path.")
    ]


class AdviceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The advice on a group as a page shows it: of the time from ``since_ms`` on, of which everything is known."""

    since_ms: int
    until_ms: int
    findings: tuple[FindingSummary, ...]
    left_out: Annotated[int, Meta(description="Further findings, of less effect.")]
    deployments: Annotated[
        str, Meta(description="What rolling restarts cost the group, in words; empty: there were none.")
    ]
    page: Annotated[str, Meta(description="The page on all kinds: an address or a path.")]
