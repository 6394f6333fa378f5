"""The structure of a scenario file: what the clients of a group do, and with which settings.

A time is a text such as ``90s`` (ms, s, m, h, d). Most values may be drawn for each group or each occurrence: one of
several, or one in a range.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
#: The least time between two occurrences of an event.
_LEAST_EVERY_MS: Final = 1_000

Time: TypeAlias = Annotated[
    str, Meta(pattern="^[0-9]{1,9}(ms|s|m|h|d)$", description="A time: 500ms, 90s, 20m, 1h or 2d.")
]
_Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
_Weights: TypeAlias = tuple[Annotated[float, Meta(ge=0)], ...]
_Members: TypeAlias = Annotated[int, Meta(ge=1, le=1_000)]
_Client: TypeAlias = Annotated[int, Meta(ge=0, le=10_000, description="The number of a member, from 0.")]
_CommitterName: TypeAlias = Literal["consumers", "producers", "both"]


def milliseconds(text: str) -> int:
    """A ``Time`` in milliseconds."""
    number = text.rstrip("dhms")
    return int(number) * _UNITS_MS[text[len(number) :]]


class _Table(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab", omit_defaults=True
):
    """A table of the file: it has no keys but these."""


class Choice(_Table, frozen=True, kw_only=True):
    """One of several values; ``weights`` are as many numbers, 1 each if they are left out."""

    one_of: Annotated[tuple[Any, ...], Meta(min_length=1)]
    weights: _Weights = ()

    def __post_init__(self) -> None:
        _check_weights(self.one_of, self.weights)


class ShareChoice(Choice, frozen=True, kw_only=True):
    """One of several shares from 0 to 1."""

    one_of: Annotated[tuple[_Share, ...], Meta(min_length=1)]


class CommitterChoice(Choice, frozen=True, kw_only=True):
    """One of several committers."""

    one_of: Annotated[tuple[_CommitterName, ...], Meta(min_length=1)]


class NumberDraw(_Table, frozen=True, kw_only=True):
    """A whole number: from ``from`` to ``to``, both inclusive, or one of several."""

    from_: int | None = msgspec.field(name="from", default=None)
    to: int | None = None
    one_of: tuple[int, ...] = ()
    weights: _Weights = ()

    def __post_init__(self) -> None:
        if (self.from_ is None) != (self.to is None) or (self.from_ is None) == (not self.one_of):
            raise ValueError("either from and to, or one-of")
        if self.from_ is not None and self.to is not None and self.from_ > self.to:
            raise ValueError(f"from = {self.from_} is more than to = {self.to}")
        _check_weights(self.one_of, self.weights)

    def bounds(self) -> tuple[int, int]:
        """The least and the largest number."""
        both = (*self.one_of, *(one for one in (self.from_, self.to) if one is not None))
        return min(both), max(both)


class TimeDraw(_Table, frozen=True, kw_only=True):
    """A time: from ``from`` to ``to``; ``about`` a time, from half of it to one and a half; or a share of the whole.

    ``or-per-member`` (with ``about``): this time for each member, if that is longer. ``at-least``: with ``share``.
    """

    from_: Time | None = msgspec.field(name="from", default=None)
    to: Time | None = None
    about: Time | None = None
    or_per_member: Time | None = None
    share: _Share | None = None
    at_least: Time | None = None

    def __post_init__(self) -> None:
        ways = [self.from_ is not None or self.to is not None, self.about is not None, self.share is not None]
        if sum(ways) != 1:
            raise ValueError("either from and to, or about, or share")
        if (self.from_ is None) != (self.to is None):
            raise ValueError("from and to belong together")
        if self.from_ and self.to and milliseconds(self.from_) > milliseconds(self.to):
            raise ValueError(f"from = {self.from_} is more than to = {self.to}")
        if self.or_per_member is not None and self.about is None:
            raise ValueError("or-per-member needs about")
        if self.at_least is not None and self.share is None:
            raise ValueError("at-least needs share")


_Numbers: TypeAlias = int | NumberDraw
_Times: TypeAlias = Time | TimeDraw
#: A member by its number; a random one of those that run; the next one in turn; all that run (``start``: that do not).
Member: TypeAlias = _Client | Literal["random", "next", "all"]


# -- the steps of an event, by the word behind ``do``


class ScriptedStep(_Table, frozen=True, kw_only=True, tag_field="do"):
    """A step; ``at`` is the time since the event."""

    at: _Times = "0s"


class StartStep(ScriptedStep, frozen=True, kw_only=True, tag="start"):
    """A member that does not run starts; a number above those of the group is a new client."""

    member: Member


class StopStep(ScriptedStep, frozen=True, kw_only=True, tag="stop"):
    """A member shuts down in order; ``crash`` (0) is the share of cases in which it crashes instead."""

    member: Member
    crash: _Share = 0.0


class CrashStep(ScriptedStep, frozen=True, kw_only=True, tag="crash"):
    """A member ends without leaving the group."""

    member: Member


class HangStep(ScriptedStep, frozen=True, kw_only=True, tag="hang"):
    """A member does not poll until ``resume``; it leaves after max.poll.interval.ms."""

    member: Member


class ResumeStep(ScriptedStep, frozen=True, kw_only=True, tag="resume"):
    """A member that hangs polls again."""

    member: Member


class SlowPollStep(ScriptedStep, frozen=True, kw_only=True, tag="slow-poll"):
    """A member needs this time for the records of one poll."""

    member: Member
    takes: _Times


class RestartStep(ScriptedStep, frozen=True, kw_only=True, tag="restart"):
    """A member stops, or crashes, and starts again after ``down`` (5 to 15 seconds)."""

    member: Member
    down: _Times = TimeDraw(from_="5s", to="15s")
    crash: _Share = 0.0


class RollingStep(ScriptedStep, frozen=True, kw_only=True, tag="rolling"):
    """All members that run are restarted one after another, ``pace`` (``30s``) apart.

    ``killed`` (0): so many of them, drawn at random, are killed instead of stopped.
    """

    pace: Time = "30s"
    down: _Times = TimeDraw(from_="5s", to="15s")
    crash: _Share = 0.0
    killed: Annotated[int, Meta(ge=0, le=1_000)] = 0


class DeployStep(ScriptedStep, frozen=True, kw_only=True, tag="deploy"):
    """All members that run are replaced by as many new clients.

    ``order``: ``stop-first`` (the default), ``start-first``, or ``either``, drawn each time; ``gap`` (10 to 60 seconds)
    is between the two. ``killed`` (0): so many members, drawn at random, are killed instead of stopped.
    """

    order: Literal["stop-first", "start-first", "either"] = "stop-first"
    gap: _Times = TimeDraw(from_="10s", to="1m")
    killed: Annotated[int, Meta(ge=0, le=1_000)] = 0


class ScaleStep(ScriptedStep, frozen=True, kw_only=True, tag="scale"):
    """One member more or less, at random, from ``least`` (1) to ``most``; each one that starts is a new client."""

    least: _Members = 1
    most: _Members

    def __post_init__(self) -> None:
        if self.least > self.most:
            raise ValueError(f"least = {self.least} is more than most = {self.most}")


AnyStep: TypeAlias = (
    StartStep
    | StopStep
    | CrashStep
    | HangStep
    | ResumeStep
    | SlowPollStep
    | RestartStep
    | RollingStep
    | DeployStep
    | ScaleStep
)
STEPS: Final[tuple[type[ScriptedStep], ...]] = get_args(AnyStep)


class ScriptedEvent(_Table, frozen=True, kw_only=True):
    """Steps that happen once, or again and again with ``every``.

    ``after``: the time from the last start of the group's first members to the first occurrence. ``cycle``: lists of
    steps that take turns, instead of ``steps``.
    """

    after: _Times = "1m"
    every: _Times | None = None
    steps: tuple[AnyStep, ...] = ()
    cycle: tuple[tuple[AnyStep, ...], ...] = ()

    def __post_init__(self) -> None:
        if bool(self.steps) == bool(self.cycle):
            raise ValueError("either steps or cycle, and not empty")
        if self.every is not None and _least_ms(self.every) < _LEAST_EVERY_MS:
            raise ValueError("every must be 1s or more, and about 2s or more")


def _least_ms(every: _Times) -> int:
    if isinstance(every, str):
        return milliseconds(every)
    return milliseconds(every.from_) if every.from_ else milliseconds(every.about or "0s") // 2


class GroupTable(_Table, frozen=True, kw_only=True):
    """A group. All members start within four seconds, in the first tenth of the time and the first ten minutes.

    ``partitions`` of the topic; they are at least as many as members run at once, unless ``idle-members``. ``simple``:
    clients commit without being members. ``irregular``: the time between two commits varies from one to 240 times
    auto.commit.interval.ms. ``repeats``: the share of commits that repeat the last offsets. ``committer``: who commits;
    producers commit in transactions. ``poisoned-after``: from then on the offset of partition 0 does not change.
    ``metadata-bytes``: the size of the metadata of each commit. ``same-instance-id``: pairs of members, of which the
    second has the instance id of the first by mistake. ``migrates-at-start``: from this start on a client uses
    group.protocol=consumer, ``returns-at-start`` (0: never): from this one on classic again. ``mirrored-every``: while
    the group has no members, a mirroring tool sets all of its offsets so often. ``changing-topics``: so many further
    topics of one partition; a classic member subscribes to one of them, and at each start to the next one.
    """

    members: _Numbers = 3
    partitions: _Numbers = 6
    idle_members: bool = False
    simple: bool = False
    irregular: bool = False
    repeats: _Share | ShareChoice = 0.0
    committer: _CommitterName | CommitterChoice = "consumers"
    poisoned_after: Time | None = None
    metadata_bytes: Annotated[int, Meta(ge=0, le=100_000)] = 0
    same_instance_id: tuple[tuple[_Client, _Client], ...] = ()
    migrates_at_start: Annotated[int, Meta(ge=1)] | None = None
    returns_at_start: _Numbers = 0
    mirrored_every: Time | None = None
    changing_topics: Annotated[int, Meta(ge=0, le=100)] = 0

    def __post_init__(self) -> None:
        if self.mirrored_every is not None and milliseconds(self.mirrored_every) < _LEAST_EVERY_MS:
            raise ValueError("mirrored-every must be 1s or more")
        for name, value, least, most in (
            ("members", self.members, 1, 1_000),
            ("partitions", self.partitions, 1, 10_000),
            ("returns-at-start", self.returns_at_start, 0, 1_000_000),
        ):
            low, high = (value, value) if isinstance(value, int) else value.bounds()
            if not least <= low <= high <= most:
                raise ValueError(f"{name} must be from {least} to {most}")
        self._check_migration()

    def _check_migration(self) -> None:
        back, there = self.returns_at_start, self.migrates_at_start
        if not back:
            return
        if there is None:
            raise ValueError("returns-at-start needs migrates-at-start")
        starts = (back,) if isinstance(back, int) else back.one_of or back.bounds()
        if any(0 < start <= there for start in starts):
            raise ValueError(f"returns-at-start must be more than migrates-at-start = {there}, or 0")


class MixturePart(_Table, frozen=True, kw_only=True):
    """A scenario of a mixture: a built-in one by name, or a file, relative to this one.

    ``client`` and ``group`` replace single settings of that scenario.
    """

    scenario: Annotated[str, Meta(min_length=1)]
    weight: Annotated[float, Meta(gt=0)] = 1
    client: dict[str, Any] = {}
    group: GroupTable = GroupTable()


class BrokerRestarts(_Table, frozen=True, kw_only=True):
    """The three brokers are restarted one after another: groups move to another coordinator, and back.

    Each time they have no coordinator for the time of ``election`` (0s), and then one that loads them for the time of
    ``loading`` (0s).
    """

    first: Time = "15m"
    every: Time = "2h"
    pace: Time = "3m"
    down: Time = "40s"
    election: Time = "0s"
    loading: Time = "0s"

    def __post_init__(self) -> None:
        if milliseconds(self.election) + milliseconds(self.loading) > milliseconds(self.down):
            raise ValueError("election and loading together must be at most down")
        # The groups move back when the broker has been up for as long as it was down.
        if 2 * milliseconds(self.down) > milliseconds(self.pace):
            raise ValueError("pace must be at least twice down")
        if milliseconds(self.every) < 3 * milliseconds(self.pace) or not milliseconds(self.pace):
            raise ValueError("every must be at least three times pace, and pace more than 0s")


class FailedAppends(_Table, frozen=True, kw_only=True):
    """Again and again the brokers cannot write to the offsets topic, for the time of ``last``; all appends fail."""

    first: Time = "15m"
    every: Time = "2h"
    last: Time = "1m"
    error: Literal["NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR"] = (
        "NOT_ENOUGH_REPLICAS"
    )

    def __post_init__(self) -> None:
        if not 0 < milliseconds(self.last) < milliseconds(self.every):
            raise ValueError("last must be more than 0s and less than every")


class ScenarioFile(_Table, frozen=True, kw_only=True):
    """A scenario: one kind of group, with ``[group]`` and ``[[event]]``, or several kinds, with ``[[mixture]]``.

    In a mixture ``[client]`` and ``[group]`` replace single settings of all its scenarios.
    """

    title: Annotated[str, Meta(min_length=1, max_length=200)]
    broker: dict[str, Any] = {}
    client: dict[str, Any] = {}
    group: GroupTable = GroupTable()
    event: tuple[ScriptedEvent, ...] = ()
    mixture: tuple[MixturePart, ...] = ()
    broker_restarts: BrokerRestarts | None = None
    failed_appends: FailedAppends | None = None

    def __post_init__(self) -> None:
        if self.mixture and not sum(part.weight for part in self.mixture) < math.inf:
            raise ValueError("the weights of [[mixture]] must be finite")
        if self.mixture and self.event:
            raise ValueError("a file has either [[event]] or [[mixture]]")


def _check_weights(values: tuple[Any, ...], weights: _Weights) -> None:
    # Not only NaN and infinity: the sum of large weights may be infinite.
    if weights and (len(weights) != len(values) or not 0 < sum(weights) < math.inf):
        raise ValueError(f"weights must be {len(values)} numbers, one for each value, finite and not all 0")
