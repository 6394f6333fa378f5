"""Histories of real clients on a real broker, played twice at the same time: with settings A, and with B.

``whatif`` is asked about B from what is recorded of A; the truth is what is recorded of B.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from groupreplay.app.whatif.plays import group_histories
from groupreplay.app.whatif.question import Question
from groupreplay.coordinator.simulation.settings_table import SettingValue
from groupreplay.state import Context
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import RetentionFlags
from groupreplay.streaming.sources.capture import CaptureSource
from groupreplay.streaming.sources.source import context_of
from groupreplay.timeline.group_history import GroupHistory
from groupreplay.timeline.whatif.answer import CostAnswer
from groupreplay.timeline.whatif.costs import Cost, costs
from groupreplay.timeline.whatif.settings import AUTO, COMMIT, INSTANCE, NONE
from support.departures.recorded import DEFAULTS
from support.diagnosed.recorded import record_broker
from support.diagnosed.stage import Play, PlayedGroup, Stage

#: When, what is done, and to which member: ``close``, ``kill`` or ``start``.
Step = tuple[float, str, str]
_MEMBERS: Final = "abc"
_PATIENCE_SECONDS: Final = 600.0
#: Before the first step and after the last one.
_CALM_SECONDS: Final = 20.0
_DRAWS: Final = 50


def _restarted(action: str, pause: float, away: float, members: str = _MEMBERS) -> tuple[Step, ...]:
    """Members are closed or killed, so long apart, and each is started again after a while."""
    return tuple(
        step
        for number, member in enumerate(members)
        for step in ((number * pause, action, member), (number * pause + away, "start", member))
    )


@dataclass(frozen=True, kw_only=True)
class LiveQuestion:
    """One history; ``before`` and ``after`` are settings of librdkafka's consumers, and ``asked`` is asked about."""

    name: str
    what: str
    steps: tuple[Step, ...]
    before: Mapping[str, object] = field(default_factory=dict)
    after: Mapping[str, object] = field(default_factory=dict)
    asked: Mapping[str, SettingValue]
    #: Whether the members are static: before, after.
    static: tuple[bool, bool] = (False, False)

    @property
    def groups(self) -> tuple[str, str]:
        """Of A and of B."""
        return f"{self.name}-a", f"{self.name}-b"


_TO_STATIC: Final[Mapping[str, SettingValue]] = {INSTANCE: AUTO}
_TO_COOPERATIVE: Final[Mapping[str, SettingValue]] = {
    "partition.assignment.strategy": ("cooperative-sticky",)
}
#: Each member is away for six seconds, or for eleven.
_QUICK, _SLOW = _restarted("close", 20, 6), _restarted("close", 25, 11)
_SHORT, _LONG = {"session.timeout.ms": 8_000}, {"session.timeout.ms": 20_000}
_COOPERATIVE: Final = {"partition.assignment.strategy": "cooperative-sticky"}
_KIP_848: Final = {"group.protocol": "consumer"}
LIVE_QUESTIONS: Final = (
    LiveQuestion(
        name="roll-static", what="static members", steps=_QUICK, asked=_TO_STATIC, static=(False, True)
    ),
    LiveQuestion(
        name="roll-static-slow", what="static members", steps=_SLOW, asked=_TO_STATIC, static=(False, True)
    ),
    LiveQuestion(
        name="roll-dynamic",
        what="dynamic members",
        steps=_QUICK,
        asked={INSTANCE: NONE},
        static=(True, False),
    ),
    LiveQuestion(
        name="kill-longer",
        what="longer sessions",
        steps=_restarted("kill", 45, 25, "bc"),
        before=_SHORT,
        after=_LONG,
        asked={"session.timeout.ms": 20_000},
    ),
    LiveQuestion(
        name="kill-shorter",
        what="shorter sessions",
        steps=_restarted("kill", 45, 28, "ca"),
        before=_LONG,
        after=_SHORT,
        asked={"session.timeout.ms": 8_000},
    ),
    LiveQuestion(
        name="roll-cooperative",
        what="cooperative",
        steps=_QUICK,
        after=_COOPERATIVE,
        asked=_TO_COOPERATIVE,
    ),
    LiveQuestion(
        name="roll-cooperative-slow",
        what="cooperative",
        steps=_SLOW,
        after=_COOPERATIVE,
        asked=_TO_COOPERATIVE,
    ),
    LiveQuestion(
        name="roll-to-848",
        what="KIP-848",
        steps=_SLOW,
        after=_KIP_848,
        asked={"group.protocol": "consumer"},
    ),
    LiveQuestion(
        name="roll-848-static",
        what="KIP-848: static members",
        steps=_QUICK,
        before=_KIP_848,
        after=_KIP_848,
        asked=_TO_STATIC,
        static=(False, True),
    ),
    LiveQuestion(
        name="roll-848-classic",
        what="KIP-848: classic",
        steps=_SLOW,
        before=_KIP_848,
        asked={"group.protocol": "classic", "partition.assignment.strategy": ("range",)},
    ),
)


@dataclass
class Pair:
    """The two groups of one question: their steps begin at the same time."""

    question: LiveQuestion
    library: str
    ready: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))
    since_ms: int = 0
    until_ms: int = 0

    def plays(self) -> dict[str, Play]:
        """What happens to each group."""
        before, after = self.question.before, self.question.after
        settings = dict(zip(self.question.groups, (before, after), strict=True))
        statics = dict(zip(self.question.groups, self.question.static, strict=True))
        return {group: self._play(settings[group], statics[group]) for group in self.question.groups}

    def _play(self, settings: Mapping[str, object], is_static: bool) -> Play:
        def play(stage: Stage, name: str) -> None:
            # The assignor that the model's `range` is.
            base = {} if "group.protocol" in settings else {"partition.assignment.strategy": "roundrobin"}
            in_one = self.library == "java" and all(action != "kill" for _, action, _ in self.question.steps)
            group = stage.group(name, self.library, in_one=in_one, **{**base, **settings})
            for member in _MEMBERS:
                _start(group, member, is_static=is_static)
            group.is_now(len(_MEMBERS))
            self.ready.wait(_PATIENCE_SECONDS)
            time.sleep(_CALM_SECONDS)
            if name == self.question.groups[0]:
                self.since_ms = time.time_ns() // 1_000_000 - round(_CALM_SECONDS * 500)
            self.ready.wait(_PATIENCE_SECONDS)
            begin = time.monotonic()
            for at, action, member in self.question.steps:
                time.sleep(max(begin + at - time.monotonic(), 0))
                _do(group, action, member, is_static=is_static)
            group.is_now(len(_MEMBERS))
            time.sleep(_CALM_SECONDS)
            self.ready.wait(_PATIENCE_SECONDS)
            self.until_ms = time.time_ns() // 1_000_000

        return play


def _start(group: PlayedGroup, member: str, *, is_static: bool) -> None:
    client = f"{group.name}-{member}"
    group.start(client, **({"group_instance_id": client} if is_static else {}))


def _do(group: PlayedGroup, action: str, member: str, *, is_static: bool) -> None:
    if action == "start":
        _start(group, member, is_static=is_static)
    elif action == "kill":
        group.kill(f"{group.name}-{member}")
    else:
        group.do(action, f"{group.name}-{member}")


@dataclass(frozen=True)
class Answered:
    """The answers about one history, with the truth of each; ``refusal``: why there are none."""

    question: LiveQuestion
    costs: tuple[tuple[CostAnswer, int], ...] = ()
    refusal: str = ""


def answers(
    folder: Path, questions: Sequence[LiveQuestion], library: str, show: Callable[[str], None]
) -> list[Answered]:
    """Plays all of them on one broker with clients of one library (``Stage.group``), and asks.

    Raises:
        AssertionError: a play has failed.
    """
    pairs = [Pair(question, library) for question in questions]
    capture = folder / "whatif.parquet"
    record_broker(
        capture, DEFAULTS, {group: play for pair in pairs for group, play in pair.plays().items()}, show
    )
    return [answered(capture, pair) for pair in pairs]


def answered(capture: Path, pair: Pair) -> Answered:
    """What is said of the group of A about B, beside what B did."""
    rows = CaptureSource((capture,)).open()
    context = context_of(rows, RetentionFlags(), member_events=True)
    histories, _ = group_histories(
        rows, context, pair.question.groups, until_ms=pair.until_ms, end_ms=pair.until_ms
    )
    recorded, other = (histories[group] for group in pair.question.groups)
    try:
        return Answered(pair.question, tuple(_asked(pair, recorded, other, context)))
    except GroupReplayError as error:
        return Answered(pair.question, refusal=str(error))


def _asked(
    pair: Pair, recorded: GroupHistory, other: GroupHistory, context: Context
) -> list[tuple[CostAnswer, int]]:
    question = Question(changed=pair.question.asked, stated={}, draws=_DRAWS, seed=1, since_ms=pair.since_ms)
    answer = question.answer(recorded, context)
    truth = costs(other, answer.since_ms, int(str(answer.settings[COMMIT])))
    return [(cost, truth[cost.cost]) for cost in answer.costs if cost.cost is not Cost.LOST]


def markdown(histories: Sequence[Answered]) -> str:
    """A row for each cost of each history."""
    lines = [
        "| history | asked about | cost | recorded | said | what the clients did | right |",
        "| --- | --- | --- | ---: | ---: | ---: | --- |",
    ]
    for history in histories:
        asked = f"| `{history.question.name}` | {history.question.what}"
        if history.refusal:
            lines.append(f"{asked} | | | {history.refusal} | | |")
        for cost, truth in history.costs:
            said = (
                "not reproduced" if cost.other is None else f"{cost.other.least:.0f} to {cost.other.most:.0f}"
            )
            right = "" if cost.other is None else "yes" if holds(cost, truth) else "**no**"
            unit = " (ms)" if cost.cost is Cost.STOPPED_MS else ""
            lines.append(
                f"{asked} | {cost.cost.words}{unit} | {cost.recorded} | {said} | {truth} | {right} |"
            )
    return "\n".join(lines)


def holds(cost: CostAnswer, truth: int) -> bool:
    """Whether the range holds the truth."""
    return cost.other is not None and cost.other.least <= truth <= cost.other.most
