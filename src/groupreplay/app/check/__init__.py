"""The command ``check``: its settings, what its checks share, and their results."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster, RetentionFlags, TopicNames
from groupreplay.streaming.kafka.clients import Connection

if TYPE_CHECKING:
    from groupreplay.streaming.kafka.topic_identity import TopicIdentity


class Status(str, Enum):
    """``warning``: the job works with restrictions. ``skipped``: the check has no answer."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """The settings of the job to check; ``timeout_seconds`` limits each check.

    ``listen`` is the address of ``serve`` (None: not checked).
    """

    source: Cluster
    sink: Cluster | None = None
    topics: TopicNames = field(default_factory=TopicNames)
    checkpoint: str | None = None
    probe: bool = True
    ends: bool = True
    retention: RetentionFlags = field(default_factory=RetentionFlags)
    timeout_seconds: float = 30.0
    listen: tuple[str, int] | None = None
    auth_token_file: Path | None = None


class Subject:
    """The settings, and the connections that the checks share."""

    def __init__(self, settings: CheckSettings) -> None:
        self.settings = settings

    @cached_property
    def source(self) -> Connection:
        """The cluster whose groups are followed."""
        return Connection(self.settings.source)

    @cached_property
    def sink(self) -> Connection:
        """The cluster of the five topics; the same connection if it is the source cluster."""
        return self.source if self.settings.sink is None else Connection(self.settings.sink)

    @cached_property
    def offsets_topic(self) -> TopicIdentity:
        """The offsets topic, after reading one record of it.

        Raises:
            GroupReplayError: see ``preflight.offsets_topic``.
        """
        from groupreplay.streaming.spark import preflight

        return preflight.offsets_topic(self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One result: what was checked, its status, what was found, and how to fix it (one command per line)."""

    check: str
    status: Status
    found: str
    fix: str | None = None
    exit_code: ExitCode = ExitCode.OK

    def document(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"check": self.check, "status": self.status.value, "found": self.found, "fix": self.fix}


def ok(check: str, found: str) -> CheckResult:
    """Nothing to do."""
    return CheckResult(check=check, status=Status.OK, found=found)


def warning(check: str, found: str, fix: str) -> CheckResult:
    """The job works, with restrictions."""
    return CheckResult(check=check, status=Status.WARNING, found=found, fix=fix)


def failed(check: str, error: GroupReplayError) -> CheckResult:
    """The job would not start or not work."""
    text = f"{error.what} ({error.where})" if error.where else error.what
    return CheckResult(
        check=check, status=Status.FAILED, found=text, fix=error.fix, exit_code=error.exit_code
    )


def unknown(check: str, found: str) -> CheckResult:
    """The check has no answer, which is not a failure."""
    return CheckResult(check=check, status=Status.SKIPPED, found=found)
