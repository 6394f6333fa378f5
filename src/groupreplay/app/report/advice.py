"""``advise``: the advice on groups and the cost of their deployments, from the rows of a capture or of a live topic."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from groupreplay.app.inspection.group_use import CommitLoads, LoadRow, unused, unused_row
from groupreplay.app.report.timelines import TimelineQuery, timeline_inputs
from groupreplay.app.text.tables import Cell, Table
from groupreplay.app.text.times import date_time
from groupreplay.state import Context
from groupreplay.state.phrases import counted, from_to, milliseconds, safe_text
from groupreplay.streaming.base.clock import TimeZone
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.sources.source import Rows
from groupreplay.timeline.advice.deployments import DeploymentSum, deployment_sums, deployments
from groupreplay.timeline.advice.finding import Deployment, Effect, Finding, GroupAdvice
from groupreplay.timeline.advice.group_advice import group_advice
from groupreplay.timeline.advice.inputs import AdviceInput, GroupUse, Load, advice_input
from groupreplay.timeline.findings import assumed_numbers
from groupreplay.timeline.states import TimelineInput

_INDENT: Final = 6
_NAME_WIDTH: Final = 9
#: Ids of events that a person reads; JSON has more.
_SHOWN_EVENTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The advice on each group, the largest effect first, and the sums of deployments.

    ``trend_ms``: the begin of the time that the deployments are compared with, if ``is_compared``; None: the log does
    not reach back so far. ``assumed``: type of group, and what its events assume.
    """

    groups: Sequence[GroupAdvice]
    sums: Sequence[DeploymentSum]
    since_ms: int
    until_ms: int
    trend_ms: int | None
    is_compared: bool
    assumed: Sequence[tuple[str, Mapping[str, int]]]


def all_advice(rows: Rows, context: Context, query: TimelineQuery, label: str) -> tuple[Advice, Replay]:
    """The advice on the chosen groups that the rows contain; and the replay for its counts.

    The context must enable member events. ``label``: by which the deployments are added up. With a ``since_ms`` also
    the time of the same length before it is looked at, for their trend.
    """
    loads = CommitLoads(query.until_ms)
    rows = replace(rows, batches=loads.reading(rows.batches))
    inputs, replay = timeline_inputs(rows, context, query)
    end_ms = replay.latest_ms + 1 if query.until_ms is None else query.until_ms
    before_ms = None if query.since_ms is None else query.since_ms - (end_ms - query.since_ms)
    uses = _Uses.of(replay, loads, end_ms)
    advised, deployed = list[GroupAdvice](), list[Deployment]()
    assumed = list[tuple[str, Mapping[str, int]]]()
    for given in inputs:
        history = uses.history(given, context, query.since_ms, before_ms)
        advised.append(group_advice(history))
        deployed += deployments(history)
        assumed.append((history.group_type, assumed_numbers(history.events)))
    advised.sort(key=lambda each: (-sum(found.order_ms for found in each.findings), each.group_id))
    since_ms = min((each.since_ms for each in advised), default=end_ms)
    since_ms = since_ms if query.since_ms is None else query.since_ms
    reaches_back = before_ms is not None and _first_ms(inputs, end_ms) <= before_ms
    trend_ms = before_ms if reaches_back else None
    return Advice(
        groups=advised,
        sums=deployment_sums(deployed, label, since_ms, trend_ms),
        since_ms=since_ms,
        until_ms=end_ms,
        trend_ms=trend_ms,
        is_compared=before_ms is not None,
        assumed=assumed,
    ), replay


def _first_ms(inputs: Sequence[TimelineInput], end_ms: int) -> int:
    """The first record of all groups."""
    times = [record.timestamp_ms for given in inputs for record in given.records[:1]]
    times += [int(given.commits.at_ms.min()) for given in inputs if len(given.commits.at_ms)]
    return min(times, default=end_ms)


@dataclass(frozen=True, slots=True)
class _Uses:
    """The groups at the end, what each has written, and for how long nobody has used it."""

    described: Mapping[str, Mapping[str, Any]]
    written: Mapping[str, LoadRow] = field(default_factory=dict)
    unused_ms: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, replay: Replay, loads: CommitLoads, end_ms: int) -> _Uses:
        """By what ``list --sort commits`` and ``list --unused`` compute."""
        groups = [group.describe() for group in replay.groups() if group.group_id is not None]
        return cls(
            {group["group_id"]: group for group in groups},
            {row.group_id: row for row in loads.rows(groups, end_ms)},
            {group["group_id"]: unused_row(group, end_ms).unused_ms for group in unused(groups, end_ms)},
        )

    def history(
        self, given: TimelineInput, context: Context, since_ms: int | None, before_ms: int | None
    ) -> AdviceInput:
        """The history of a group, from ``before_ms`` on."""
        row, load = self.written.get(given.group_id), None
        if row is not None and row.commits_per_second is not None and row.share is not None:
            load = Load(commits_per_second=row.commits_per_second, bytes=row.bytes, share=row.share)
        use = GroupUse(
            described=self.described.get(given.group_id, {}),
            load=load,
            unused_ms=self.unused_ms.get(given.group_id),
            retention_ms=context.assumed_retention_ms,
            is_retention_assumed=context.retention_ms is None,
        )
        return advice_input(replace(given, since_ms=before_ms), use, since_ms)


# -- text


def deployment_lines(advice: Advice, zone: TimeZone, width: int) -> Iterator[str]:
    """What all deployments cost, with the time before beside it; nothing where there are none."""
    if not advice.sums:
        return
    every = advice.sums[0]
    span = f"From {date_time(advice.since_ms, zone)} to {date_time(advice.until_ms, zone)} ({zone.name})"
    text = (
        f"{span} {counted(every.deployments, 'deployment')} of {counted(every.groups, 'group')} made "
        f"{counted(every.rebalances, 'rebalance')} and stood still for {range_text(every.stopped_ms)}"
    )
    if every.records is not None:
        text += f"; {counted(every.records, 'record')} waited"
    if every.before is not None and every.stopped_before_ms is not None:
        text += f". In the time before: {every.before}, {range_text(every.stopped_before_ms)}"
    elif advice.is_compared:
        text += ". The log does not reach back to the begin of as long a time before"
    yield from textwrap.wrap(f"{text}.", width, break_on_hyphens=False)


def deployment_table(advice: Advice) -> Table:
    """One row for each value of the label; no row where no group has it."""
    rows: list[tuple[Cell, ...]] = [
        (
            each.value,
            each.deployments,
            each.groups,
            each.rebalances,
            range_text(each.stopped_ms),
            each.records,
            each.before,
            None if each.stopped_before_ms is None else range_text(each.stopped_before_ms),
        )
        for each in advice.sums[1:]
    ]
    label = (advice.sums[-1].label or "").upper() if rows else "LABEL"
    columns = (
        "DEPLOYMENTS",
        "#GROUPS",
        "REBALANCES",
        "STOOD-STILL",
        "RECORDS",
        "BEFORE",
        "STOOD-STILL-BEFORE",
    )
    return Table((label, *columns), rows)


def quiet_line(advice: Advice) -> str | None:
    """How many groups have no finding, and for how many of them the history is too short for some kinds."""
    quiet = [each for each in advice.groups if not each.findings]
    short = [each for each in quiet if each.unsaid]
    text = f"Nothing to advise on {counted(len(quiet), 'group')}"
    kinds = {unsaid.kind.value: None for each in short for unsaid in each.unsaid}
    if short:
        text += f"; the history of {len(short)} of them is too short for {', '.join(kinds)}"
    return f"{text}." if quiet else None


def advice_lines(advised: GroupAdvice, zone: TimeZone, *, verbose: bool, width: int) -> Iterator[str]:
    """The findings on one group; ``verbose``: also how effects are computed, events, and what needs more history."""
    bounds = f"{date_time(advised.since_ms, zone)} to {date_time(advised.until_ms - 1, zone)} ({zone.name})"
    yield f"{safe_text(advised.group_id)}: {advised.type} group, {bounds}"
    for number, found in enumerate(advised.findings, 1):
        yield from textwrap.wrap(
            f"{number:>3}. {found.kind.value}: {found.text}.",
            width,
            subsequent_indent=" " * (_INDENT - 1),
            break_on_hyphens=False,
        )
        yield from _finding_lines(found, verbose, width)
    if not advised.findings:
        yield "     Nothing to advise."
    if advised.left_out:
        yield f"     {counted(advised.left_out, 'finding')} of less effect: not shown."
    if advised.unsaid and verbose:
        for each in advised.unsaid:
            yield from _wrapped("Unsaid", f"{each.kind.value}: {each.text}", width)
    elif advised.unsaid:
        names = ", ".join(each.kind.value for each in advised.unsaid)
        yield from _wrapped("Unsaid", f"the history is too short for {names}", width)


def _finding_lines(found: Finding, verbose: bool, width: int) -> Iterator[str]:
    yield from _wrapped("Set", f"{found.setting}: {found.value}", width)
    for effect in found.effects:
        how = f" ({effect.how})" if verbose else ""
        yield from _wrapped("Saves", f"{effect_text(effect)}{how}", width)
    for name, value in found.assumed.items():
        yield from _wrapped(
            "Assumed", f"{name.removesuffix('_ms').replace('_', ' ')} {milliseconds(value)}", width
        )
    if verbose and found.evidence:
        more = found.events - len(found.evidence[:_SHOWN_EVENTS])
        names = ", ".join(map(safe_text, found.evidence[:_SHOWN_EVENTS]))
        yield from _wrapped("Events", names + (f" and {more} more" if more else ""), width)
    yield from _wrapped("Unless", found.unless, width)


def _wrapped(name: str, text: str, width: int) -> Iterator[str]:
    yield from textwrap.wrap(
        text,
        width,
        initial_indent=" " * _INDENT + f"{name:<{_NAME_WIDTH}}",
        subsequent_indent=" " * (_INDENT + _NAME_WIDTH),
        break_on_hyphens=False,
        break_long_words=False,
    )


#: What follows the number of an effect.
_UNITS: Final[Mapping[str, str]] = {
    "rebalances": " rebalances",
    "stopped_ms": " of standstill",
    "partition_stopped_ms": " of standstill, added up over partitions",
    "partition_stops": " stops of partitions",
    "members": " members",
    "partitions": " partitions",
    "bytes": " bytes",
    "offsets_lost": " committed offsets",
}


def effect_text(effect: Effect) -> str:
    """``30 rebalances``, ``11.3 s to 3 min 9 s of standstill``."""
    bounds = effect.least, effect.most
    is_time = effect.measure.endswith("_ms")
    return f"{range_text(bounds) if is_time else _number_text(bounds)}{_UNITS[effect.measure]}"


def range_text(bounds: tuple[int, int | None]) -> str:
    """``11.3 s to 3 min 9 s``; one value where both are equal."""
    least, most = bounds
    if most is None:
        return f"{milliseconds(least)} or more"
    return from_to(milliseconds(least), milliseconds(most))


def _number_text(bounds: tuple[int, int | None]) -> str:
    least, most = bounds
    return f"{least} or more" if most is None else from_to(str(least), str(most))
