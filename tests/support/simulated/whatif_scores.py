"""What ``whatif`` answers of histories of the model with settings A asked about B, beside the model's own B."""

from __future__ import annotations

import io
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Final

import pyarrow as pa

from groupreplay.app.simulate.files import simulated_rows
from groupreplay.app.simulate.prober_messages import RowTarget
from groupreplay.app.whatif.plays import group_histories
from groupreplay.app.whatif.question import Question
from groupreplay.coordinator.simulation.scenario import GroupSettings, Scenario
from groupreplay.coordinator.simulation.script import MINUTE_MS, SECOND_MS, STATIC, About, Between
from groupreplay.coordinator.simulation.script_steps import Restart, Roll, ScriptedEvent, SlowPoll, Stop
from groupreplay.coordinator.simulation.settings_table import SettingValue
from groupreplay.coordinator.simulation.simulation import SimulationPlan
from groupreplay.state import Context
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.contract.log import ROW_SCHEMA
from groupreplay.streaming.sources.source import Rows
from groupreplay.timeline.group_history import GroupHistory
from groupreplay.timeline.whatif.costs import Cost, Costs, costs
from groupreplay.timeline.whatif.settings import AUTO, INSTANCE, NONE, PROTOCOL
from support.simulated.processes import mapped

_ROLLING = ScriptedEvent(every_ms=About(10 * MINUTE_MS), steps=(Roll(pace_ms=30 * SECOND_MS),))
_KILLED = ScriptedEvent(
    every_ms=Between(200 * SECOND_MS, 260 * SECOND_MS),
    steps=(Restart("random", Between(50 * SECOND_MS, 90 * SECOND_MS), crash=1.0),),
)
_SLOW = ScriptedEvent(
    every_ms=About(6 * MINUTE_MS), steps=(SlowPoll("random", Between(40 * SECOND_MS, 100 * SECOND_MS)),)
)
_SETTLED_MS = 20 * SECOND_MS
_ENDS = ScriptedEvent(after_ms=10 * MINUTE_MS, steps=(Stop("all"),))
_KILLED_LONG = ScriptedEvent(
    every_ms=Between(400 * SECOND_MS, 500 * SECOND_MS),
    steps=(Restart("random", Between(50 * SECOND_MS, 90 * SECOND_MS), crash=1.0),),
)
_CONSUMER: Final = {"group.protocol": "consumer"}
#: The clients of the model show a sign of life within two thirds of a session; with 5 s that is no other pace.
_COMMIT = "auto.commit.interval.ms"
_STRATEGY = "partition.assignment.strategy"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A question: what the clients do, the settings of both sides by Kafka's names, and how they are asked about."""

    name: str
    events: tuple[ScriptedEvent, ...]
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any]
    asked: Mapping[str, SettingValue] | None = None
    members: int = 3
    hours: float = 1.0
    broker_before: Mapping[str, Any] = field(default_factory=dict)
    broker_after: Mapping[str, Any] = field(default_factory=dict)

    def question(self, draws: int, since_ms: int | None = None) -> Question:
        """What is asked."""
        asked = self.asked or {**self.after, **self.broker_after}
        return Question(changed=asked, stated={}, draws=draws, seed=1, since_ms=since_ms)

    @property
    def is_consumer(self) -> bool:
        """Whether the recorded group is a consumer group."""
        return self.before.get(PROTOCOL) == "consumer"


KINDS = (
    Kind(name="static members", events=(_ROLLING,), after={INSTANCE: STATIC}, asked={INSTANCE: AUTO}),
    Kind(
        name="dynamic members",
        events=(_ROLLING,),
        before={INSTANCE: STATIC},
        after={INSTANCE: ""},
        asked={INSTANCE: NONE},
    ),
    Kind(
        name="shorter sessions",
        events=(_KILLED,),
        before={_COMMIT: 5_000},
        after={"session.timeout.ms": 10_000},
    ),
    Kind(
        name="longer sessions",
        events=(_KILLED,),
        before={"session.timeout.ms": 10_000, _COMMIT: 5_000},
        after={"session.timeout.ms": 30_000},
    ),
    Kind(name="cooperative", events=(_ROLLING,), after={_STRATEGY: ("cooperative-sticky",)}),
    Kind(
        name="cooperative after sticky",
        events=(_ROLLING,),
        before={_STRATEGY: ("sticky",)},
        after={_STRATEGY: ("cooperative-sticky",)},
    ),
    Kind(
        name="longer poll interval",
        events=(_SLOW,),
        before={"max.poll.interval.ms": 30_000},
        after={"max.poll.interval.ms": 300_000},
    ),
    Kind(name="KIP-848", events=(_ROLLING,), after={"group.protocol": "consumer"}),
    Kind(
        name="KIP-848: static members",
        events=(_ROLLING,),
        before=_CONSUMER,
        after={INSTANCE: STATIC},
        asked={INSTANCE: AUTO},
    ),
    Kind(
        name="KIP-848: longer sessions",
        events=(_KILLED_LONG,),
        before=_CONSUMER,
        after={},
        broker_after={"group.consumer.session.timeout.ms": 60_000},
    ),
    Kind(
        name="KIP-848: longer poll interval",
        events=(_SLOW,),
        before={**_CONSUMER, "max.poll.interval.ms": 30_000},
        after={"max.poll.interval.ms": 300_000},
    ),
    Kind(name="KIP-848: classic", events=(_ROLLING,), before=_CONSUMER, after={"group.protocol": "classic"}),
    Kind(
        name="longer retention",
        events=(_ENDS,),
        after={},
        broker_before={"offsets.retention.minutes": 10},
        broker_after={"offsets.retention.minutes": 600},
    ),
)


@dataclass
class Score:
    """One cost of one kind: the widths of the ranges as shares of the value, and how many hold the truth."""

    held: int = 0
    answered: int = 0
    refused: int = 0
    widths: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Score) -> None:
        """Adds that of other histories."""
        self.held += other.held
        self.answered += other.answered
        self.refused += other.refused
        self.widths += other.widths
        self.wrong += other.wrong


def scenario(kind: Kind, *, after: bool) -> Scenario:
    """The group with the settings of one side."""
    client = {_STRATEGY: ("range",), _COMMIT: 10_000, **kind.before}
    return Scenario(
        name="whatif",
        client={**client, **(kind.after if after else {})},
        broker={},
        group=GroupSettings(members=kind.members, partitions=6, exact=True),
        events=kind.events,
    )


def history(kind: Kind, seed: int, *, after: bool) -> tuple[GroupHistory, Context]:
    """What is recorded of it, by the model; the same seed has the same steps on both sides."""
    broker = kind.broker_after if after else kind.broker_before
    plan = SimulationPlan.of(
        scenario(kind, after=after),
        broker,
        groups=1,
        duration_ms=int(kind.hours * 60 * MINUTE_MS),
        seed=seed,
        probe_interval_ms=None,
    )
    rows = simulated_rows(plan, RowTarget(cluster_id="c"), io.StringIO(), lambda done, total: None)
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(column, each.type) for column, each in zip(columns, ROW_SCHEMA, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)
    context = Context(
        cluster_id="c",
        era="e",
        complete_since_ms=0,
        member_events=True,
        topic_names=plan.topic_names(),
        retention_ms=plan.settings.retention_ms,
        retention_check_interval_ms=plan.check_interval_ms,
    )
    histories, _ = group_histories(Rows("c", "e", iter([batch])), context, None, end_ms=plan.end_ms)
    return next(iter(histories.values())), context


def scores(
    kinds: Sequence[Kind],
    seeds: Sequence[int],
    draws: int,
    minutes: int = 60,
    processes: int = 1,
    known: Container[tuple[str, int]] = (),
) -> Iterator[tuple[Kind, int, dict[Cost, Score]]]:
    """The scores of each history: kind and seed; of so many minutes. ``known``: the ones that are left out."""
    timed = [replace(each, hours=minutes / 60) for each in kinds]
    asked = [(kind, seed, draws) for seed in seeds for kind in timed if (kind.name, seed) not in known]
    with mapped(processes) as apply:
        for (kind, seed, _), of_costs in zip(asked, apply(_asked, asked), strict=True):
            yield kind, seed, of_costs


def _asked(asked: tuple[Kind, int, int]) -> dict[Cost, Score]:
    """The scores of one history."""
    found = {cost: Score() for cost in Cost}
    _add(found, *asked)
    return found


def _add(found: Mapping[Cost, Score], kind: Kind, seed: int, draws: int) -> None:
    recorded, context = history(kind, seed, after=False)
    other, _ = history(kind, seed, after=True)
    try:
        # The members of a consumer group join one by one: so asks who leaves its beginning out.
        since_ms = recorded.events[0].time_ms + _SETTLED_MS if kind.is_consumer else None
        answer = kind.question(draws, since_ms).answer(recorded, context)
    except GroupReplayError as error:
        for score in found.values():
            score.refused += 1
            score.wrong.append(f"{kind.name} {seed}: {error}")
        return
    interval_ms = int(str(answer.settings[_COMMIT]))
    # By then all members of the beginning have joined on both sides, and nothing else has happened.
    truth: Costs = costs(other, answer.since_ms + _SETTLED_MS, interval_ms)
    for each in answer.costs:
        score, true = found[each.cost], truth[each.cost]
        if each.other is None:
            score.refused += 1
            score.wrong.append(
                f"{kind.name} {seed} {each.cost.value}: recorded {each.recorded}, {each.played}"
            )
            continue
        score.answered += 1
        held = each.other.least <= true <= each.other.most
        score.held += held
        score.widths.append((each.other.most - each.other.least) / max(each.other.median, 1))
        if not held:
            score.wrong.append(
                f"{kind.name} {seed} {each.cost.value}: truth {true}, said {each.other}; "
                f"recorded {each.recorded}, played {each.played}"
            )


def markdown(found: Iterable[tuple[str, Mapping[Cost, Score]]]) -> str:
    """The table of all kinds and costs; ``found``: the scores of histories by the names of their kinds."""
    lines = [
        "| asked about | cost | histories | answered | range holds the truth | median width |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    totals: dict[tuple[str, Cost], Score] = {}
    for name, of_costs in found:
        for cost, score in of_costs.items():
            totals.setdefault((name, cost), Score()).add(score)
    for (name, cost), score in totals.items():
        count = score.answered + score.refused
        share = f"{100 * score.held / score.answered:.0f} %" if score.answered else "-"
        width = f"{100 * median(score.widths):.0f} %" if score.widths else "-"
        lines.append(f"| {name} | {cost.words} | {count} | {score.answered} | {share} | {width} |")
    return "\n".join(lines)
