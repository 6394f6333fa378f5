"""What ``timeline`` and ``report`` share: their flags, and the timelines that they ask for.

Imports nothing heavy at the top: ``--help`` loads this module.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from groupreplay import __version__
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.cli.cluster_flags import retention_flags
from groupreplay.streaming.cli.inputs import (
    LogInput,
    context_of,
    log_and_probes_flags,
    reading,
    warn_of_losses,
)
from groupreplay.streaming.cli.options import file_flag, time_flag
from groupreplay.streaming.cli.policy_flags import redaction_flags, rules_flags

if TYPE_CHECKING:
    from groupreplay.state import Context
    from groupreplay.state.policy.redaction import Redaction
    from groupreplay.state.timeline.document import TimelineDocument, TimelineSource
    from groupreplay.state.timeline.limits import TimelineLimits
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags
    from groupreplay.streaming.kafka.topic_reader import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureQuery:
    """The flags that ``timeline`` and ``report`` share; times in milliseconds since 1970."""

    log: LogInput = log_and_probes_flags()
    retention: RetentionFlags = retention_flags()
    since: int | None = time_flag("Show this time and later; what was before counts, but is not shown.")
    until: int | None = time_flag("Later records are ignored.")
    complete_since: int | None = time_flag(
        "No record since this time is missing: a first commit after it proves that the group is new."
    )
    trace: Sequence[Path] = file_flag(
        "Trace of a simulation (simulate --trace), for marks of requests; may be repeated.", multiple=True
    )
    redaction: Redaction | None = redaction_flags()
    rules: RulesSource = rules_flags()


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """Rows to read once, their context, and the time up to which a live log is complete (None: a capture)."""

    rows: Rows
    context: Context
    end_ms: int | None


@contextmanager
def opened(query: PictureQuery) -> Iterator[OpenedLog]:
    """The log of a query; shows progress.

    Raises:
        UsageError: neither a capture nor a cluster is named, or the time ends before it begins.
        GroupReplayError: the capture or the cluster cannot be read; also while reading.
    """
    if query.since is not None and query.until is not None and query.until <= query.since:
        raise click.UsageError("--until is not after --since.")
    opened_ms, policy = now_ms(), query.rules.load()
    with reading(query.log) as (rows, is_probed):
        context = context_of(
            rows,
            retention=query.retention,
            policy=policy,
            probing=is_probed,
            complete_since_ms=query.complete_since,
            member_events=True,
            redaction=query.redaction,
        )
        end_ms = None if rows.connection is None else min(opened_ms, query.until or opened_ms)
        yield OpenedLog(rows, context, end_ms)


def picture_source(query: PictureQuery, command: str, words: Sequence[str]) -> TimelineSource:
    """Where a document comes from: a command that makes it again from the same capture or cluster.

    The addresses of brokers are left out: a document is sent on.
    """
    from groupreplay.state.timeline.document import TimelineSource
    from groupreplay.streaming.report.timelines import digest_of

    files = [path.name for path in query.log.from_file]
    flags = [part for name in files for part in ("--from-file", name)] or ["--bootstrap-server", "HOST:PORT"]
    for name, value in (("--since", query.since), ("--until", query.until)):
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


def need_timeline(query: PictureQuery, group: str, source: TimelineSource) -> TimelineDocument:
    """The timeline of a group; reports undecodable records on stderr.

    Raises:
        GroupReplayError: the log cannot be read, or does not contain the group.
    """
    from groupreplay.streaming.inspection.groups import require

    found = timelines_of(query, [group], source)
    where = ", ".join(map(str, query.log.from_file)) or "the live topic"
    require({one.group_id for one in found}, [group], where)
    return found[0]


def timelines_of(
    query: PictureQuery,
    groups: Sequence[str],
    source: TimelineSource,
    limits: TimelineLimits | None = None,
) -> list[TimelineDocument]:
    """The timelines of those of these groups that the log contains; reports undecodable records on stderr.

    Raises:
        GroupReplayError: the log cannot be read.
    """
    from dataclasses import replace

    from groupreplay.streaming.report.timelines import TimelineQuery, group_timelines, read_trace

    trace = read_trace(query.trace, set(groups))
    with opened(query) as log:
        asked = TimelineQuery(
            groups=groups,
            source=replace(source, cluster_id=log.rows.cluster_id, topic_id=log.rows.era),
            since_ms=query.since,
            until_ms=query.until,
            end_ms=log.end_ms,
            trace=trace,
        )
        found, replay = group_timelines(log.rows, log.context, asked, limits)
    warn_of_losses(replay)
    return found
