"""The flags that ``serve`` and ``export`` share.

Imports nothing heavy: ``--help`` loads this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from groupreplay.app.cli.options import duration, flag, group, listen_address

if TYPE_CHECKING:
    from groupreplay.app.exporter.freshness import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFlags:
    """What the metrics show: ``heartbeat_timeout`` in milliseconds."""

    max_groups: int
    heartbeat_timeout: int | None

    def limits(self) -> Limits:
        """The same for the exporter."""
        from groupreplay.app.exporter.freshness import Limits

        timeout = None if self.heartbeat_timeout is None else self.heartbeat_timeout / 1000
        return Limits(max_groups=self.max_groups, timeout_seconds=timeout)


def metric_flags() -> Any:
    """A field with ``MetricFlags``."""
    return group(
        MetricFlags,
        max_groups=flag(
            "Maximum number of groups with series of their own in the metrics; those with conditions come first.",
            type=click.IntRange(min=0, max=200_000),
            default=5_000,
        ),
        heartbeat_timeout=flag(
            "Report the job as down after this time without a heartbeat, for example 30s; by default three "
            "triggers of the job.",
            type=duration,
            metavar="DURATION",
        ),
    )


def listen_flag(text: str) -> Any:
    """A field with host and port of the HTTP server."""
    return flag(text, type=listen_address, default="127.0.0.1:9408", metavar="HOST:PORT")
