"""What happened to one group, as a document and as a picture: ``group_timeline``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from groupreplay.api.sources import (
    AnySource,
    Time,
    finish,
    group_choice,
    open_log,
    point_ms,
    public,
    several_groups,
)
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.retention import Brokers

if TYPE_CHECKING:
    from groupreplay.timeline.document import TimelineDocument

#: Of the page in a notebook, in pixels.
_PAGE_HEIGHT: Final = 900


@dataclass(frozen=True, slots=True)
class GroupTimeline:
    """What happened to a group over time. In a notebook it shows the page of ``groupreplay report``."""

    document: TimelineDocument

    @property
    def verdict(self) -> str:
        """What happened in words, the most important sentence first."""
        return "\n".join(statement.text for statement in self.document.verdict)

    def json(self) -> bytes:
        """The document (docs/report.md), as ``groupreplay report -o FILE.json`` writes it."""
        import msgspec

        return msgspec.json.encode(self.document)

    def html(self) -> str:
        """The page that ``groupreplay report`` writes: one file that needs no network."""
        from groupreplay.app.report.page import report_page

        return report_page(self.document)

    def svg(self, *, width: int = 1400, dark: bool = False) -> str:
        """The picture alone, ``width`` pixels wide.

        Raises:
            GroupReplayError: the extra svg is missing.
        """
        from groupreplay.app.report.page import timeline_svg

        return timeline_svg(self.document, width=width, dark=dark)

    def _repr_html_(self) -> str:
        from html import escape

        style = f"width:100%;height:{_PAGE_HEIGHT}px;border:0"
        return f'<iframe style="{style}" srcdoc="{escape(self.html(), quote=True)}"></iframe>'

    def __repr__(self) -> str:
        return f"GroupTimeline({self.document.group_id!r})\n{self.verdict}"


@public
def group_timeline(
    source: AnySource,
    group: str,
    *,
    since: Time | None = None,
    until: Time | None = None,
    complete_since: Time | None = None,
    rules: str | Path | None = None,
    brokers: Brokers | None = None,
) -> GroupTimeline:
    """What happened to one group: states, members, owners of partitions, commits, conditions and events.

    >>> import groupreplay
    >>> groupreplay.group_timeline("tuesday.parquet", "deployment-000001")
    GroupTimeline('deployment-000001')
    No event tells of a problem; at the end the group is Stable with 4 members.
    5 rebalances, 30 partitions moved, one took 2.8 s .. 6.1 s.

    Raises:
        GroupReplayError: the source cannot be read, or not exactly one group has this id or matches it as a glob.
    """
    from groupreplay.app.report.page import GROUP_BYTES
    from groupreplay.app.report.timelines import TimelineQuery, group_timelines, timeline_source

    choice, until_ms = group_choice(group), point_ms(until)
    settings: dict[str, Any] = {"complete_since_ms": point_ms(complete_since), "member_events": True}
    opened = open_log(source, rules, brokers, **settings)
    since_ms = point_ms(since)
    words = ["--group", group, "-o", "timeline.json"]
    made = timeline_source(opened.source, words, since_ms=since_ms, until_ms=until_ms)
    query = TimelineQuery(
        groups=choice,
        source=replace(made, cluster_id=opened.rows.cluster_id, topic_id=opened.rows.era),
        since_ms=since_ms,
        until_ms=until_ms,
        end_ms=opened.rows.complete_until(until_ms),
    )
    found, replay = group_timelines(opened.rows, opened.context, query, most_bytes=GROUP_BYTES)
    finish(replay, choice, opened)
    if len(found) > 1:
        raise several_groups(group, choice.matched)
    if not found:
        raise GroupReplayError(
            "the group has no record that can be read", where=group, exit_code=ExitCode.DATA
        )
    return GroupTimeline(found[0])
