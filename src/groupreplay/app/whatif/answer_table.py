"""An answer as a table and lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from groupreplay.app.text.tables import Cell, Table
from groupreplay.app.text.times import date_time
from groupreplay.coordinator.simulation.settings_table import SettingValue, shown
from groupreplay.state.phrases import from_to, milliseconds
from groupreplay.streaming.base.clock import TimeZone
from groupreplay.timeline.whatif.answer import Answer, CostAnswer, Range
from groupreplay.timeline.whatif.costs import Cost

_HEADINGS: Final = ("COST", "RECORDED", "PLAYED AS RECORDED", "WITH THE OTHER SETTINGS", "DIFFERENCE")
#: Why nothing is.
NOT_ANSWERED: Final = (
    "not answered: the recorded settings, played, do not come to the recorded number of rebalances"
)


def answer_table(answer: Answer) -> Table:
    """A row for each cost; the ranges are the 5th to the 95th percentile."""
    return Table(_HEADINGS, [_row(cost) for cost in answer.costs])


def _row(cost: CostAnswer) -> tuple[Cell, ...]:
    unanswered = "not answered" if cost.reproduced else "not reproduced"
    return (
        cost.cost.words,
        _amount(cost.cost, cost.recorded),
        _range(cost.cost, cost.played),
        unanswered if cost.other is None else _range(cost.cost, cost.other),
        None if cost.difference is None else _range(cost.cost, cost.difference, signed=True),
    )


def _range(cost: Cost, values: Range, *, signed: bool = False) -> str:
    least, most = (_amount(cost, round(value), signed=signed) for value in (values.least, values.most))
    return from_to(least, most)


def _amount(cost: Cost, value: int, *, signed: bool = False) -> str:
    text = milliseconds(abs(value)) if cost is Cost.STOPPED_MS else str(abs(value))
    if value < 0:
        return f"-{text}"
    return f"+{text}" if signed and value else text


def summary_lines(answer: Answer, zone: TimeZone) -> Iterator[str]:
    """What was played, what was assumed, and whether there is an answer."""
    since, until = (date_time(at_ms, zone) for at_ms in (answer.since_ms, answer.until_ms))
    yield f"{answer.group_id} from {since} to {until} ({zone.name}), {answer.draws} draws: {_words(answer.changed)}"
    recorded = {name: value for name, value in answer.settings.items() if name not in answer.assumed}
    yield f"recorded: {_words(recorded)}"
    yield from _caveats(answer, " (--recorded)")
    if not answer.answered:
        yield NOT_ANSWERED


def _caveats(answer: Answer, flag: str = "") -> Iterator[str]:
    """What the answer rests on; ``flag``: with which it is corrected."""
    if answer.assumed:
        yield f"assumed, because no record has it{flag}: {_words(answer.assumed)}"
    yield from answer.notes


def comparison_text(answer: Answer) -> str:
    """The question, what is drawn, and what the answer rests on, in one line."""
    drawn = f"the middle one of {answer.draws} plays" if answer.answered else NOT_ANSWERED
    return "; ".join([f"{_words(answer.changed)}: {drawn}", *_caveats(answer)])


def cost_sentences(answer: Answer) -> Iterator[str]:
    """The answer to each cost."""
    for cost in answer.costs:
        recorded = f"{cost.cost.words}: recorded {_amount(cost.cost, cost.recorded)}"
        if cost.other is not None:
            yield f"{recorded}, with the other settings {_range(cost.cost, cost.other)}"
        else:
            yield f"{recorded}, {'not answered' if cost.reproduced else 'not reproduced'}"


def _words(values: Mapping[str, SettingValue]) -> str:
    return ", ".join(f"{name}={shown(value)}" for name, value in values.items())
