"""``advise``: the advice on groups and the cost of their deployments, from the rows of a capture or of a live topic."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from groupreplay.app.report.timelines import ReadGroups, TimelineQuery, read_groups
from groupreplay.app.text.tables import Cell, Table
from groupreplay.app.text.times import date_time
from groupreplay.state import Context
from groupreplay.state.phrases import counted, safe_text
from groupreplay.streaming.base.clock import TimeZone
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.sources.source import Rows
from groupreplay.timeline.advice.deployments import deployment_sums, deployments
from groupreplay.timeline.advice.finding import Deployment, DeploymentSum, Finding, GroupAdvice
from groupreplay.timeline.advice.group_advice import group_advice
from groupreplay.timeline.advice.words import (
    assumed_text,
    before_text,
    deployment_text,
    effect_text,
    range_text,
)
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
    read = read_groups(rows, context, query)
    return advice_of(read, label), read.replay


def advice_of(read: ReadGroups, label: str) -> Advice:
    """The same of groups that were read."""
    advised, deployed = list[GroupAdvice](), list[Deployment]()
    assumed = list[tuple[str, Mapping[str, int]]]()
    for given in read.inputs:
        history = read.history(given)
        advised.append(group_advice(history))
        deployed += deployments(history)
        assumed.append((history.group_type, assumed_numbers(history.events)))
    advised.sort(key=lambda each: (-sum(found.order_ms for found in each.findings), each.group_id))
    since_ms, before_ms = read.query.since_ms, read.before_ms
    if since_ms is None:
        since_ms = min((each.since_ms for each in advised), default=read.replay.end_ms)
    reaches_back = before_ms is not None and _first_ms(read.inputs, read.replay.end_ms) <= before_ms
    trend_ms = before_ms if reaches_back else None
    return Advice(
        groups=advised,
        sums=deployment_sums(deployed, label, since_ms, trend_ms),
        since_ms=since_ms,
        until_ms=read.replay.end_ms,
        trend_ms=trend_ms,
        is_compared=before_ms is not None,
        assumed=assumed,
    )


def _first_ms(inputs: Sequence[TimelineInput], end_ms: int) -> int:
    """The first record of all groups."""
    times = [record.timestamp_ms for given in inputs for record in given.records[:1]]
    times += [int(given.commits.at_ms.min()) for given in inputs if len(given.commits.at_ms)]
    return min(times, default=end_ms)


# -- text


def deployment_lines(advice: Advice, zone: TimeZone, width: int) -> Iterator[str]:
    """What all deployments cost, with the time before beside it; nothing where there are none."""
    if not advice.sums:
        return
    every = advice.sums[0]
    span = f"From {date_time(advice.since_ms, zone)} to {date_time(advice.until_ms, zone)} ({zone.name})"
    text = f"{span} {deployment_text(every)}{before_text(every)}"
    if every.before is None and advice.is_compared:
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
        yield from _wrapped("Assumed", assumed_text(name, value), width)
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
