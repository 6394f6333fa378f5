"""The overview of all groups: a strip for each, the worst first, with the number of findings that advise on it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from groupreplay.app.inspection.incidents import IncidentLog
from groupreplay.app.report.advice import Advice
from groupreplay.app.report.page import island_bytes
from groupreplay.app.text.event_text import text_of
from groupreplay.codecs.kafka_terms import shown_type
from groupreplay.state import Context
from groupreplay.state.phrases import counted
from groupreplay.streaming.contract.messages import Output
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.sources.source import Rows
from groupreplay.timeline.advice.words import deployment_lines_by_label
from groupreplay.timeline.diagnosis import Statement
from groupreplay.timeline.document import Remark, TimelineDocument, TimelineSource
from groupreplay.timeline.incident_forms import SevereIncident
from groupreplay.timeline.overview import (
    OVERVIEW_FORM,
    GroupNow,
    GroupsOverview,
    GroupStrip,
    OverviewTally,
    group_counts,
    strip_bucket_ms,
)

#: With more groups than this an overview has no advice: it is made from the whole logs of all of them.
MOST_ADVISED: Final = 1_000
#: Rows of the table; more would make the page slow.
_MOST_STRIPS: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AllStrips:
    """The strips of all groups between two points in time, and the incidents, the worst first.

    ``deployments``: what they cost, in words; None: the advice on these groups is not known.
    """

    since_ms: int
    until_ms: int
    strips: Sequence[GroupStrip]
    incidents: Sequence[SevereIncident]
    deployments: Sequence[str] | None = None


def all_strips(
    rows: Rows,
    context: Context,
    since_ms: int | None,
    until_ms: int | None,
    end_ms: int | None,
    processes: int | None = 1,
) -> AllStrips:
    """The strips of all groups in the rows; ``end_ms`` is the time up to which a live log is complete.

    There are none of a time behind the log: nothing is known of it.

    ``processes``: see ``Replay``.
    """
    rows = replace(rows, probes=list(rows.probes))
    replay = Replay(context, until_ms=until_ms, now_ms=end_ms, processes=processes)
    tally = OverviewTally(text_of)
    log, documents = IncidentLog(context), dict[bytes, Any]()
    for row in replay.feed(rows):
        body = None if row.value is None else json.loads(row.value)
        if body is not None and row.output in (Output.EVENTS, Output.STATES):
            log.add(row.output, body)
        if body is not None and row.output is Output.EVENTS:
            tally.add(body)
        elif row.output is Output.STATES:
            documents[row.key] = body
    ends_ms = replay.end_ms
    begins_ms = min(tally.first_ms or ends_ms - 1, ends_ms - 1) if since_ms is None else since_ms
    for document in filter(None, documents.values()):
        _see(tally, document)
    return AllStrips(
        since_ms=begins_ms,
        until_ms=ends_ms,
        strips=tally.strips(begins_ms, max(ends_ms, begins_ms + 1)) if replay.reaches(since_ms) else (),
        incidents=log.incidents(rows, begins_ms, ends_ms),
    )


def _see(tally: OverviewTally, document: Mapping[str, Any]) -> None:
    """A group at the end, from its document."""
    members = document.get("members") or ()
    topics = {*(document.get("subscribed_topics") or ()), *document["offsets"].get("topics", ())}
    names = {member.get(name) for member in members for name in _NAMES}
    found_by = [*sorted(topics), *sorted(filter(None, names))]
    tally.see(
        document["group_id"],
        GroupNow(
            document["state"],
            document["member_count"],
            tuple(found_by[:_MOST_NAMES]),
            shown_type(document["type"], simple=document["simple"]),
        ),
    )


#: What the members of a group are found by, and how many names of a group a page has.
_NAMES: Final = ("instance_id", "client_id", "client_host")
_MOST_NAMES: Final = 40


def with_advice(overview: AllStrips, advice: Advice) -> AllStrips:
    """The strips with the number of findings on each group, and the cost of all deployments."""
    findings = {advised.group_id: len(advised.findings) + advised.left_out for advised in advice.groups}
    strips = [replace(strip, advice=findings.get(strip.group_id)) for strip in overview.strips]
    return replace(overview, strips=strips, deployments=tuple(deployment_lines_by_label(advice.sums)))


def that_fit(timelines: Sequence[TimelineDocument], most_bytes: int) -> list[TimelineDocument]:
    """The first documents, without those that do not fit into what the ones before them leave of so many bytes."""
    kept = []
    for timeline in timelines:
        size = island_bytes(timeline)
        if size <= most_bytes:
            most_bytes -= size
            kept.append(timeline)
    return kept


def _remarks(overview: AllStrips, rows: int, full: int, too_large: int) -> list[Remark]:
    """What the overview leaves out, by numbers of groups."""
    left_out = len(overview.strips) - rows
    summed = [
        (
            rows - full,
            f"{counted(rows - full, 'group')} have a row only: the worst {full} are shown in full.",
        ),
        (
            too_large,
            f"{counted(too_large, 'group')} did not fit in full; groupreplay report --group draws each alone.",
        ),
        (left_out, f"{counted(left_out, 'group')} without a problem are left out."),
        (
            0 if overview.deployments is not None else rows - full,
            "Advice is on the groups in full only; groupreplay advise --all-groups gives that on all.",
        ),
    ]
    return [
        Remark(
            kind="strips",
            text="Strips are made from events; a group in full also has its states, owners and commits.",
        ),
        *(Remark(kind="summed_groups", text=text) for number, text in summed if number > 0),
    ]


def _shown(strip: GroupStrip, verdict: Statement | None, *, in_full: bool) -> GroupStrip:
    """A strip with the sentence of its diagnosis and the cause, if it has one."""
    if verdict is not None and strip.leading:
        causes = [link for link in verdict.links if link.kind == "cause"]
        parts = (*verdict.parts, *(part for link in causes for part in (" ", *link.parts)))
        strip = replace(strip, text=" ".join([verdict.text, *(link.text for link in causes)]), parts=parts)
    # Strips of healthy groups would take most of a page.
    return replace(strip, in_full=in_full) if in_full or strip.leading else replace(strip, rebalances=())


def groups_overview(
    overview: AllStrips,
    timelines: Sequence[TimelineDocument],
    source: TimelineSource,
    in_full: Collection[str] = (),
    *,
    too_large: int = 0,
) -> GroupsOverview:
    """The document of the overview; groups shown in full keep their strip, the others their numbers.

    ``in_full`` are groups that keep their strip without a timeline. ``too_large``: so many groups were meant to be
    shown in full, and do not fit.
    """
    full = {timeline.group_id for timeline in timelines} | set(in_full)
    verdicts = {timeline.group_id: timeline.verdict[0] for timeline in timelines}
    strips = [
        _shown(strip, verdicts.get(strip.group_id), in_full=strip.group_id in full)
        for strip in overview.strips[:_MOST_STRIPS]
    ]
    counts = Counter((strip.tone, strip.leading) for strip in overview.strips)
    return GroupsOverview(
        form=OVERVIEW_FORM,
        since_ms=overview.since_ms,
        until_ms=overview.until_ms,
        bucket_ms=strip_bucket_ms(overview.since_ms, overview.until_ms),
        source=source,
        remarks=tuple(_remarks(overview, len(strips), len(full), too_large)),
        counts=group_counts(counts),
        incidents=tuple(overview.incidents),
        strips=tuple(strips),
        timelines=tuple(timelines),
        deployments=tuple(overview.deployments or ()),
    )
