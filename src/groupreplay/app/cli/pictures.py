"""What ``timeline`` and ``report`` share: their flags, and the timelines that they ask for.

Imports nothing heavy at the top: ``--help`` loads this module.
"""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from groupreplay import __version__
from groupreplay.app.cli.cluster_flags import retention_flags
from groupreplay.app.cli.inputs import (
    LogInput,
    complete_until,
    context_of,
    log_and_probes_flags,
    log_read,
    nothing_found,
    reading,
    warn_of_assumptions,
    warn_of_losses,
)
from groupreplay.app.cli.options import file_flag, time_flag, time_zone_flag
from groupreplay.app.cli.policy_flags import redaction_flags, rules_flags
from groupreplay.app.cli.time_range import TimeRange, given_flags, point_ms, time_range
from groupreplay.app.text.times import GivenTime
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.time_zones import TimeZone

if TYPE_CHECKING:
    from groupreplay.state import Context
    from groupreplay.state.policy.redaction import Redaction
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags
    from groupreplay.streaming.engine.group_choice import GroupChoice
    from groupreplay.streaming.kafka.topic_reader import Rows
    from groupreplay.timeline.document import TimelineDocument, TimelineSource
    from groupreplay.timeline.limits import TimelineLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureQuery:
    """The flags that ``timeline`` and ``report`` share."""

    log: LogInput = log_and_probes_flags()
    retention: RetentionFlags = retention_flags()
    since: GivenTime | None = time_flag("Show this time and later; what was before counts, but is not shown.")
    until: GivenTime | None = time_flag("Later records are ignored.")
    zone: TimeZone = time_zone_flag()
    complete_since: GivenTime | None = time_flag(
        "No record since this time is missing: a first commit after it proves that the group is new."
    )
    trace: Sequence[Path] = file_flag(
        "Trace of a simulation (simulate --trace), whose requests are marked; may be repeated.", multiple=True
    )
    redaction: Redaction | None = redaction_flags()
    rules: RulesSource = rules_flags()

    def times(self) -> TimeRange:
        """What ``--since`` and ``--until`` mean now."""
        return time_range(self.since, self.until, self.zone, self.log.end)


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """Rows to read once, their context, and the time up to which the log is complete (None: not known)."""

    rows: Rows
    context: Context
    end_ms: int | None


@contextmanager
def opened(query: PictureQuery, times: TimeRange) -> Iterator[OpenedLog]:
    """The log of a query; shows progress.

    Raises:
        UsageError: neither a capture nor a cluster is named.
        GroupReplayError: the capture or the cluster cannot be read; also while reading.
    """
    policy = query.rules.load()
    with reading(query.log) as (rows, is_probed):
        context = context_of(
            rows,
            retention=query.retention,
            policy=policy,
            probing=is_probed,
            complete_since_ms=point_ms(query.complete_since, query.zone, query.log.end),
            member_events=True,
            redaction=query.redaction,
        )
        yield OpenedLog(rows, context, complete_until(rows, times.until_ms))


def picture_source(
    query: PictureQuery, times: TimeRange, command: str, words: Sequence[str]
) -> TimelineSource:
    """Where a document comes from: a command that makes it again from the same capture or cluster.

    The addresses of brokers are left out: a document is sent on.
    """
    from groupreplay.app.report.timelines import digest_of
    from groupreplay.timeline.document import TimelineSource

    files = [path.name for path in query.log.from_file]
    flags = [part for name in files for part in ("--from-file", name)] or ["--bootstrap-server", "HOST:PORT"]
    for name, value in (("--since", times.since_ms), ("--until", times.until_ms)):
        flags += [] if value is None else [name, str(value)]
    hidden = tuple(sorted(query.redaction.hidden)) if query.redaction else ()
    flags += ["--redact", ",".join(hidden), "--redact-key-file", "FILE"] if hidden else []
    return TimelineSource(
        command=shlex.join(["groupreplay", command, *flags, *words]),
        version=__version__,
        origin=", ".join(files) or "live cluster",
        cluster_id="",
        topic_id="",
        digest=digest_of(query.log.from_file) if files else None,
        redacted=hidden,
    )


def need_timeline(
    query: PictureQuery,
    times: TimeRange,
    group: str,
    source: TimelineSource,
    most_bytes: int | None = None,
) -> TimelineDocument | ExitCode:
    """The timeline of the one group with this id or of this glob; reports undecodable records on stderr.

    If there is none, or if several groups match, it prints a line that says so, and returns the exit code.

    Raises:
        GroupReplayError: the log cannot be read.
    """
    from groupreplay.app.cli.nothing_found import no_group, no_such, several_groups
    from groupreplay.streaming.engine.group_choice import GroupChoice

    choice = GroupChoice([group])
    read: list[Rows] = []
    found = timelines_of(query, times, _FirstGroup(choice), source, most_bytes=most_bytes, read=read)
    log = log_read(query.log, read[0], query.zone)
    if len(choice.matched) > 1:
        what = f"{several_groups(group, choice.matched)}; give one of them, or report --all-groups"
        raise GroupReplayError(what, exit_code=ExitCode.USAGE)
    if choice.unmatched:
        return nothing_found(no_group(choice.unmatched, choice, log))
    if not found:
        asked = given_flags({"--group": [group]}, times)
        return nothing_found(no_such("record that can be read", asked, [{}], log))
    return found[0]


class _FirstGroup:
    """The first group of a choice that is asked about: logs of all groups that match a glob would fill the memory."""

    def __init__(self, choice: GroupChoice) -> None:
        self._choice = choice
        self._first: str | None = None

    def __contains__(self, group_id: object) -> bool:
        assert isinstance(group_id, str)
        if group_id not in self._choice:
            return False
        self._first = self._first or group_id
        return group_id == self._first


def timelines_of(
    query: PictureQuery,
    times: TimeRange,
    groups: Container[str],
    source: TimelineSource,
    limits: TimelineLimits | None = None,
    *,
    most_bytes: int | None = None,
    read: list[Rows] | None = None,
) -> list[TimelineDocument]:
    """The timelines of those of these groups that the log contains; reports undecodable records on stderr.

    On a page they take ``most_bytes`` together. The rows that were read are added to ``read``.

    Raises:
        GroupReplayError: the log cannot be read.
    """
    from dataclasses import replace

    from groupreplay.app.report.timelines import TimelineQuery, group_timelines, read_trace

    trace = read_trace(query.trace, groups)
    with opened(query, times) as log:
        if read is not None:
            read.append(log.rows)
        asked = TimelineQuery(
            groups=groups,
            source=replace(source, cluster_id=log.rows.cluster_id, topic_id=log.rows.era),
            since_ms=times.since_ms,
            until_ms=times.until_ms,
            end_ms=log.end_ms,
            trace=trace,
        )
        found, replay = group_timelines(log.rows, log.context, asked, limits, most_bytes)
    warn_of_losses(replay)
    if found:
        warn_of_assumptions(log.context, log.rows)
    return found
