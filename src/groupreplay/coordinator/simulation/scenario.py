"""A scenario with everything it refers to: it draws the script of each group from random numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any, Final

import msgspec

from groupreplay.coordinator.simulation import draws
from groupreplay.coordinator.simulation.scenario_file import (
    BrokerRestarts,
    Choice,
    FailedAppends,
    ScenarioFile,
    milliseconds,
)
from groupreplay.coordinator.simulation.script import Committer, Script, max_running
from groupreplay.coordinator.simulation.script_steps import StepPlan
from groupreplay.coordinator.simulation.settings_table import (
    CLIENT_SETTINGS,
    SettingValue,
    contradictions,
    fields_of,
)

#: The most combinations of drawn settings that are looked at for contradictions.
_COMBINATIONS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario by name; the values of its settings are checked. ``parts``: of a mixture, with their weights."""

    name: str
    file: ScenarioFile
    parts: tuple[tuple[float, Scenario], ...] = ()

    @property
    def broker(self) -> Mapping[str, SettingValue]:
        """The broker's settings by Kafka's names."""
        return self.file.broker

    @property
    def restarts(self) -> BrokerRestarts | None:
        """The restarts of the brokers."""
        return self.file.broker_restarts

    @property
    def failed_appends(self) -> FailedAppends | None:
        """The times at which the offsets topic cannot be written."""
        return self.file.failed_appends

    @property
    def uses_consumer_groups(self) -> bool:
        """Whether groups are consumer groups (KIP-848) at least for a while."""
        if self.parts:
            return any(part.uses_consumer_groups for _, part in self.parts)
        protocols = list(self.combinations("group.protocol"))
        return self.file.group.migrates_at_start is not None or {"group.protocol": "consumer"} in protocols

    def with_client(self, values: Mapping[str, SettingValue]) -> Scenario:
        """The scenario with these settings of clients in place of its own."""
        file = msgspec.structs.replace(self.file, client={**self.file.client, **values})
        parts = tuple((weight, part.with_client(values)) for weight, part in self.parts)
        return replace(self, file=file, parts=parts)

    def combinations(self, *names: str) -> Iterator[dict[str, SettingValue]]:
        """The values that clients may have together, of these settings or of all."""
        client = {name: value for name, value in self.file.client.items() if not names or name in names}
        ways = [value.one_of if isinstance(value, Choice) else (value,) for value in client.values()]
        for values in islice(product(*ways), _COMBINATIONS):
            yield dict(zip(client, values, strict=True))

    def contradiction(self) -> str | None:
        """Settings of clients that Kafka's client would refuse together; None without any."""
        if self.parts:
            return next(filter(None, (part.contradiction() for _, part in self.parts)), None)
        found = (one for values in self.combinations() for one in contradictions(CLIENT_SETTINGS, values))
        return next(iter(found), None)

    def draw(self, numbers: random.Random, duration_ms: int) -> Script:
        """The script of a group for a time in milliseconds."""
        if self.parts:
            parts = [part for _, part in self.parts]
            weights = [weight for weight, _ in self.parts]
            return draws.one_of(numbers, parts, weights).draw(numbers, duration_ms)
        return _script(self.file, numbers, duration_ms)


def _script(file: ScenarioFile, numbers: random.Random, duration_ms: int) -> Script:
    group = file.group
    plan = StepPlan(numbers=numbers, duration_ms=duration_ms, members=draws.number(numbers, group.members))
    last_start_ms = plan.draw(file.event)
    steps = tuple(plan.steps)
    partitions = draws.number(numbers, group.partitions)
    committer: str = draws.drawn(numbers, group.committer)
    poisoned = group.poisoned_after
    return Script(
        **{
            "steps": steps,
            "simple": group.simple,
            "partitions": partitions if group.idle_members else max(partitions, max_running(steps)),
            "irregular": group.irregular,
            "repeats": draws.drawn(numbers, group.repeats),
            "committer": Committer[committer.upper()],
            "poisoned_ms": None if poisoned is None else last_start_ms + milliseconds(poisoned),
            "metadata_bytes": group.metadata_bytes,
            "changing_topics": group.changing_topics,
            "mirror_interval_ms": group.mirrored_every and milliseconds(group.mirrored_every),
            "shared_instance_ids": {second: first for first, second in group.same_instance_id},
            **_client_fields(file, numbers),
        }
    )


def _client_fields(file: ScenarioFile, numbers: random.Random) -> dict[str, Any]:
    values: dict[str, SettingValue] = {
        name: draws.drawn(numbers, value) for name, value in file.client.items()
    }
    fields = fields_of(CLIENT_SETTINGS, values)
    if file.group.migrates_at_start is not None:
        back = draws.number(numbers, file.group.returns_at_start)
        fields["consumer_starts"] = range(file.group.migrates_at_start, back or 1 << 30)
    return fields
