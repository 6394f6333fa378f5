"""A scenario: what the clients of a group do, and with which settings; each group draws its own script from it.

Errors of a scenario are ValueErrors when it is made, and no errors of the simulation.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any, Final, Literal, TypeAlias

from groupreplay.coordinator.simulation.script import (
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    Committer,
    Number,
    OneOf,
    Script,
    drawn,
    max_running,
    numbers_of,
    whole_number,
)
from groupreplay.coordinator.simulation.script_steps import ScriptedEvent, StepPlan
from groupreplay.coordinator.simulation.settings_table import (
    BROKER_SETTINGS,
    CLIENT_SETTINGS,
    Setting,
    SettingValue,
    contradictions,
    fields_of,
)

#: The most combinations of drawn settings that are looked at for contradictions.
_COMBINATIONS: Final = 10_000
#: What a name may consist of, since it is part of the group ids.
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")

AppendError: TypeAlias = Literal["NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR"]
ClientValue: TypeAlias = SettingValue | OneOf[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """A group. All members start within four seconds, in the first tenth of the time and the first ten minutes.

    ``partitions`` of the topic; they are at least as many as members run at once, unless ``idle_members``. ``simple``:
    clients commit without being members. ``irregular``: the time between two commits varies from one to 240 times
    auto.commit.interval.ms. ``repeats``: the share of commits that repeat the last offsets. ``committer``: who commits;
    producers commit in transactions. ``poisoned_after_ms``: so long after the last start of the first members the
    offset of partition 0 stops changing. ``metadata_bytes``: the size of the metadata of each commit.
    ``same_instance_id``: pairs of members, of which the second has the instance id of the first by mistake.
    ``migrates_at_start``: from this start on, counted from 1, a client uses group.protocol=consumer,
    ``returns_at_start`` (0: never): from this one on classic again. ``mirrored_every_ms``: while the group has no
    members, a mirroring tool sets all of its offsets so often. ``changing_topics``: so many further topics of one
    partition; a classic member subscribes to one of them, and at each start to the next one. ``exact`` as in
    ``Script``.
    """

    members: Number = 3
    partitions: Number = 6
    idle_members: bool = False
    simple: bool = False
    irregular: bool = False
    repeats: float | OneOf[float] = 0.0
    committer: Committer | OneOf[Committer] = Committer.CONSUMERS
    poisoned_after_ms: int | None = None
    metadata_bytes: int = 0
    same_instance_id: tuple[tuple[int, int], ...] = ()
    migrates_at_start: int | None = None
    returns_at_start: Number = 0
    mirrored_every_ms: int | None = None
    changing_topics: int = 0
    exact: bool = False

    def __post_init__(self) -> None:
        if self.mirrored_every_ms is not None and self.mirrored_every_ms < SECOND_MS:
            raise ValueError("mirrored_every_ms must be 1000 or more")
        if min(numbers_of(self.members)) < 1 or min(numbers_of(self.partitions)) < 1:
            raise ValueError("members and partitions must be 1 or more")
        returns = [start for start in numbers_of(self.returns_at_start) if start]
        if returns and (self.migrates_at_start is None or min(returns) <= self.migrates_at_start):
            raise ValueError("returns_at_start must be more than migrates_at_start, or 0")


_DEFAULT_GROUP: Final = GroupSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRestarts:
    """The three brokers are restarted one after another: groups move to another coordinator, and back.

    Each time they have no coordinator for ``election_ms``, and then one that loads them for ``loading_ms``.
    """

    first_ms: int = 15 * MINUTE_MS
    every_ms: int = 2 * HOUR_MS
    pace_ms: int = 3 * MINUTE_MS
    down_ms: int = 40 * SECOND_MS
    election_ms: int = 0
    loading_ms: int = 0

    def __post_init__(self) -> None:
        if self.election_ms + self.loading_ms > self.down_ms:
            raise ValueError("election_ms and loading_ms together must be at most down_ms")
        # The groups move back when the broker has been up for as long as it was down.
        if 2 * self.down_ms > self.pace_ms:
            raise ValueError("pace_ms must be at least twice down_ms")
        if self.every_ms < 3 * self.pace_ms or not self.pace_ms:
            raise ValueError("every_ms must be at least three times pace_ms, and pace_ms more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAppends:
    """Again and again the brokers cannot write to the offsets topic, for ``last_ms``; all appends fail."""

    first_ms: int = 15 * MINUTE_MS
    every_ms: int = 2 * HOUR_MS
    last_ms: int = MINUTE_MS
    error: AppendError = "NOT_ENOUGH_REPLICAS"

    def __post_init__(self) -> None:
        if not 0 < self.last_ms < self.every_ms:
            raise ValueError("last_ms must be more than 0 and less than every_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One kind of group, with ``events``, or a ``mixture`` of scenarios with their weights.

    ``broker`` and ``client`` are settings by Kafka's names; those of clients may be ``OneOf`` several values. They,
    ``restarts`` and ``failed_appends`` of brokers concern all groups, so no part of a mixture has any.

    Raises:
        ValueError: a name, a setting or a mixture that cannot be; the text says what is allowed.
    """

    name: str
    title: str = ""
    broker: Mapping[str, SettingValue] = field(default_factory=dict)
    client: Mapping[str, ClientValue] = field(default_factory=dict)
    group: GroupSettings = _DEFAULT_GROUP
    events: tuple[ScriptedEvent, ...] = ()
    mixture: tuple[tuple[float, Scenario], ...] = ()
    restarts: BrokerRestarts | None = None
    failed_appends: FailedAppends | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError("a name is part of group ids: up to 100 letters, digits, '.', '_' and '-'")
        object.__setattr__(self, "broker", _checked(BROKER_SETTINGS, self.broker))
        object.__setattr__(self, "client", _checked(CLIENT_SETTINGS, self.client))
        if not self.mixture:
            return
        if self.events or self.client or self.group != _DEFAULT_GROUP:
            raise ValueError(
                "a mixture has no events and no settings of clients or groups; its parts have them"
            )
        if not 0 < sum(weight for weight, _ in self.mixture) < math.inf:
            raise ValueError("the weights of a mixture must be finite, and not all 0")
        for _, part in self.mixture:
            if part.broker or part.restarts or part.failed_appends:
                raise ValueError(f"{part.name} has settings of the brokers, which are those of all groups")

    @property
    def uses_consumer_groups(self) -> bool:
        """Whether groups are consumer groups (KIP-848) at least for a while."""
        if self.mixture:
            return any(part.uses_consumer_groups for _, part in self.mixture)
        protocols = list(self.combinations("group.protocol"))
        return self.group.migrates_at_start is not None or {"group.protocol": "consumer"} in protocols

    def with_client(self, values: Mapping[str, ClientValue]) -> Scenario:
        """The scenario with these settings of clients in place of its own; of a mixture in all parts."""
        if self.mixture:
            return replace(
                self, mixture=tuple((weight, part.with_client(values)) for weight, part in self.mixture)
            )
        return replace(self, client={**self.client, **values})

    def with_group(self, **settings: Any) -> Scenario:
        """The scenario with these ``GroupSettings`` in place of its own; of a mixture in all parts."""
        if self.mixture:
            parts = tuple((weight, part.with_group(**settings)) for weight, part in self.mixture)
            return replace(self, mixture=parts)
        return replace(self, group=replace(self.group, **settings))

    def combinations(self, *names: str) -> Iterator[dict[str, SettingValue]]:
        """The values that clients may have together, of these settings or of all."""
        client = {name: value for name, value in self.client.items() if not names or name in names}
        ways = [value.values if isinstance(value, OneOf) else (value,) for value in client.values()]
        for values in islice(product(*ways), _COMBINATIONS):
            yield dict(zip(client, values, strict=True))

    def contradiction(self) -> str | None:
        """Settings of clients that Kafka's client would refuse together; None without any."""
        if self.mixture:
            return next(filter(None, (part.contradiction() for _, part in self.mixture)), None)
        sentences = (
            sentence for values in self.combinations() for sentence in contradictions(CLIENT_SETTINGS, values)
        )
        return next(sentences, None)

    def draw(self, numbers: random.Random, duration_ms: int) -> Script:
        """The script of a group for a time in milliseconds."""
        if self.mixture:
            parts = OneOf(
                tuple(part for _, part in self.mixture), tuple(weight for weight, _ in self.mixture)
            )
            return parts.draw(numbers).draw(numbers, duration_ms)
        return self._script(numbers, duration_ms)

    def _script(self, numbers: random.Random, duration_ms: int) -> Script:
        group = self.group
        # The order of the draws is part of what a seed means.
        members = whole_number(numbers, group.members)
        plan = StepPlan(numbers=numbers, duration_ms=duration_ms, members=members)
        last_start_ms = plan.draw(self.events)
        partitions = whole_number(numbers, group.partitions)
        committer = drawn(numbers, group.committer)
        poisoned_ms = group.poisoned_after_ms
        return Script(
            **{
                "steps": tuple(plan.steps),
                "simple": group.simple,
                "partitions": partitions if group.idle_members else max(partitions, max_running(plan.steps)),
                "irregular": group.irregular,
                "repeats": drawn(numbers, group.repeats),
                "committer": committer,
                "poisoned_ms": None if poisoned_ms is None else last_start_ms + poisoned_ms,
                "metadata_bytes": group.metadata_bytes,
                "changing_topics": group.changing_topics,
                "exact": group.exact,
                "mirror_interval_ms": group.mirrored_every_ms,
                "shared_instance_ids": {second: first for first, second in group.same_instance_id},
                **self._client_fields(numbers),
            }
        )

    def _client_fields(self, numbers: random.Random) -> dict[str, Any]:
        values: dict[str, Any] = {name: drawn(numbers, value) for name, value in self.client.items()}
        fields = fields_of(CLIENT_SETTINGS, values)
        if self.group.migrates_at_start is not None:
            returns = whole_number(numbers, self.group.returns_at_start)
            fields["consumer_starts"] = range(self.group.migrates_at_start, returns or 1 << 30)
        return fields


def _checked(table: Mapping[str, Setting], values: Mapping[str, ClientValue]) -> dict[str, ClientValue]:
    """The values in Kafka's spelling."""
    checked: dict[str, ClientValue] = {}
    for name, value in values.items():
        if name not in table:
            raise ValueError(f"unknown setting {name!r}; known here: {', '.join(table)}")
        if isinstance(value, OneOf) and table is CLIENT_SETTINGS:
            options = tuple(table[name].checked(option) for option in value.values)
            checked[name] = OneOf(options, value.weights)
        else:
            checked[name] = table[name].checked(value)
    return checked
