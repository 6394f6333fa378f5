"""``advise``: the advice on groups and the cost of their deployments, from the rows of a capture or of a live topic."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from groupreplay.app.report.timelines import ReadGroups
from groupreplay.app.text.tables import Cell, Table
from groupreplay.app.text.terminal import named_lines
from groupreplay.app.text.times import date_time
from groupreplay.state.phrases import counted, safe_text
from groupreplay.streaming.base.clock import TimeZone
from groupreplay.streaming.contract.log import ProgressCallback, no_progress
from groupreplay.timeline.advice.deployments import deployment_sums, deployments
from groupreplay.timeline.advice.finding import Deployment, DeploymentSum, Finding, GroupAdvice
from groupreplay.timeline.advice.group_advice import group_advice
from groupreplay.timeline.advice.words import (
    assumed_text,
    before_text,
    deployment_text,
    effect_text,
    is_loss,
    stop_text,
)
from groupreplay.timeline.findings import assumed_numbers
from groupreplay.timeline.states import TimelineInput

#: Ids of events that a person reads; JSON has more.
_SHOWN_EVENTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The advice on each group, the largest effect first, and the sums of deployments.

    ``is_compared``: these with as long a time before, if the log reaches back so far. ``assumed``: type of group, and
    what its events assume.
    """

    groups: Sequence[GroupAdvice]
    sums: Sequence[DeploymentSum]
    since_ms: int
    until_ms: int
    is_compared: bool
    assumed: Sequence[tuple[str, Mapping[str, int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisedGroups:
    """What was found of the groups of one replay. ``first_ms``: their first record; None: there is none."""

    groups: Sequence[GroupAdvice]
    deployed: Sequence[Deployment]
    assumed: Sequence[tuple[str, Mapping[str, int]]]
    first_ms: int | None
    before_ms: int | None
    end_ms: int
    quarantined: int


def advised_groups(read: ReadGroups, progress: ProgressCallback = no_progress) -> AdvisedGroups:
    """The advice on groups that were read, by name."""
    advised, deployed = list[GroupAdvice](), list[Deployment]()
    assumed = list[tuple[str, Mapping[str, int]]]()
    for number, given in enumerate(read.inputs, 1):
        history = read.history(given)
        advised.append(group_advice(history))
        deployed += deployments(history)
        assumed.append((history.group_type, assumed_numbers(history.events)))
        progress(number, len(read.inputs))
    return AdvisedGroups(
        groups=advised,
        deployed=deployed,
        assumed=assumed,
        first_ms=_first_ms(read.inputs),
        before_ms=read.before_ms,
        end_ms=read.replay.end_ms,
        quarantined=read.replay.quarantined,
    )


def advice_of(parts: Sequence[AdvisedGroups], since_ms: int | None, label: str) -> Advice:
    """The advice on all groups of some parts of one log, which have no group in common.

    ``label``: by which the deployments are added up. With a ``since_ms`` also the time of the same length before it is
    looked at, for their trend.
    """
    advised = [each for part in parts for each in part.groups]
    advised.sort(key=lambda each: (-sum(found.order_ms for found in each.findings), each.group_id))
    end_ms, before_ms = max(part.end_ms for part in parts), parts[0].before_ms
    if since_ms is None:
        since_ms = min((each.since_ms for each in advised), default=end_ms)
    first_ms = min((part.first_ms for part in parts if part.first_ms is not None), default=end_ms)
    trend_ms = before_ms if before_ms is not None and first_ms <= before_ms else None
    return Advice(
        groups=advised,
        sums=deployment_sums([each for part in parts for each in part.deployed], label, since_ms, trend_ms),
        since_ms=since_ms,
        until_ms=end_ms,
        is_compared=before_ms is not None,
        assumed=[each for part in parts for each in part.assumed],
    )


def _first_ms(inputs: Sequence[TimelineInput]) -> int | None:
    """The first record of all groups."""
    times = [record.timestamp_ms for given in inputs for record in given.records[:1]]
    times += [int(given.commits.at_ms.min()) for given in inputs if len(given.commits.at_ms)]
    return min(times, default=None)


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
            stop_text(each.stopped_ms, each.likely_stopped_ms),
            each.records,
            each.before,
            None
            if each.stopped_before_ms is None
            else stop_text(each.stopped_before_ms, each.likely_stopped_before_ms),
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
            subsequent_indent="     ",
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
        label = "Costs" if is_loss(effect) else "Saves"
        yield from _wrapped(label, f"{effect_text(effect).removeprefix('but ')}{how}", width)
    for name, value in found.assumed.items():
        yield from _wrapped("Assumed", assumed_text(name, value), width)
    if verbose and found.evidence:
        more = found.events - len(found.evidence[:_SHOWN_EVENTS])
        names = ", ".join(map(safe_text, found.evidence[:_SHOWN_EVENTS]))
        yield from _wrapped("Events", names + (f" and {more} more" if more else ""), width)
    yield from _wrapped("Unless", found.unless, width)


_wrapped: Final = partial(named_lines, 9)
