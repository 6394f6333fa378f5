"""The log of commands that show what happened to groups: opened with its context, and what they report beside it.

Imports nothing heavy at the top: modules of commands load it for ``--help``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from groupreplay.app.cli.inputs import LogInput, reading, warn_of_assumptions, warn_of_losses
from groupreplay.app.cli.printing_flags import point_ms

if TYPE_CHECKING:
    from groupreplay.app.text.times import GivenTime
    from groupreplay.state import Context
    from groupreplay.state.policy.context import Redaction
    from groupreplay.streaming.base.clock import TimeZone
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags
    from groupreplay.streaming.engine.replay import Replay
    from groupreplay.streaming.sources.source import Rows


class HistoryFlags(Protocol):
    """The flags that each command of a history has; its settings have them."""

    @property
    def log(self) -> LogInput:
        """Where the records are."""

    @property
    def retention(self) -> RetentionFlags:
        """How long offsets are kept."""

    @property
    def rules(self) -> RulesSource:
        """The file with rules for groups."""

    @property
    def zone(self) -> TimeZone:
        """That of times without one."""


@contextmanager
def opened_history(
    flags: HistoryFlags, *, complete_since: GivenTime | None = None, redaction: Redaction | None = None
) -> Iterator[tuple[Rows, Context]]:
    """The rows of the log that the flags name, to read once, and their context, with the events of members.

    Shows progress.

    Raises:
        UsageError: neither a capture nor a cluster is named.
        GroupReplayError: the log cannot be read; also while reading.
    """
    from groupreplay.streaming.sources.source import context_of

    policy = flags.rules.load()
    with reading(flags.log) as rows:
        context = context_of(
            rows,
            flags.retention,
            policy=policy,
            complete_since_ms=point_ms(complete_since, flags.zone, flags.log.end),
            member_events=True,
            redaction=redaction,
        )
        yield rows, context


def warn_of_history(replay: Replay, rows: Rows, sessions: Iterable[tuple[str, Mapping[str, int]]]) -> None:
    """Report on stderr what was lost, and, if anything is shown, what was assumed.

    ``sessions``: the type and ``assumed`` of each group that is shown.
    """
    shown = list(sessions)
    warn_of_losses(replay)
    if shown:
        warn_of_assumptions(replay.context, rows, sessions=shown)
