"""What ``check`` is asked about and what it answers, as values.

Knows the four outcomes; must not know the questions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster, RetentionFlags, TopicNames
from groupreplay.streaming.kafka.clients import Connection

if TYPE_CHECKING:
    from groupreplay.streaming.kafka.clients import TopicIdentity


class Status(str, Enum):
    """``warning``: the job works, and less well than it could. ``skipped``: there is no answer."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """What the job would be started with; ``timeout_seconds`` is for each question."""

    source: Cluster
    sink: Cluster | None = None
    topics: TopicNames = field(default_factory=TopicNames)
    checkpoint: str | None = None
    probe: bool = True
    retention: RetentionFlags = field(default_factory=RetentionFlags)
    timeout_seconds: float = 30.0


class Subject:
    """The settings, with connections that the questions share."""

    def __init__(self, settings: CheckSettings) -> None:
        self.settings = settings

    @cached_property
    def source(self) -> Connection:
        """The cluster whose groups are followed."""
        return Connection(self.settings.source)

    @cached_property
    def sink(self) -> Connection:
        """The cluster of the five topics; the same connection when it is the same cluster."""
        return self.source if self.settings.sink is None else Connection(self.settings.sink)

    @cached_property
    def offsets_topic(self) -> TopicIdentity:
        """The offsets topic, after one record of it was read.

        Raises:
            GroupReplayError: see ``preflight.offsets_topic``.
        """
        from groupreplay.streaming.job import preflight

        return preflight.offsets_topic(self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One line: what was looked at, how it is, and what to do (commands one a line)."""

    check: str
    status: Status
    found: str
    fix: str | None = None
    exit_code: ExitCode = ExitCode.OK

    def document(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {"check": self.check, "status": self.status.value, "found": self.found, "fix": self.fix}


def ok(check: str, found: str) -> CheckResult:
    """Nothing to do."""
    return CheckResult(check=check, status=Status.OK, found=found)


def warning(check: str, found: str, fix: str) -> CheckResult:
    """The job works without it."""
    return CheckResult(check=check, status=Status.WARNING, found=found, fix=fix)


def failed(check: str, error: GroupReplayError) -> CheckResult:
    """The job would not start, or would not work."""
    found = f"{error.what} ({error.where})" if error.where else error.what
    return CheckResult(
        check=check, status=Status.FAILED, found=found, fix=error.fix, exit_code=error.exit_code
    )


def unknown(check: str, found: str) -> CheckResult:
    """There is no answer, which is nobody's fault."""
    return CheckResult(check=check, status=Status.SKIPPED, found=found)


def skipped(check: str, needs: str) -> CheckResult:
    """Another check has to be ok first."""
    return unknown(check, f"cannot be asked before this is ok: {needs}")
