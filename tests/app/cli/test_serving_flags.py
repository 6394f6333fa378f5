"""The flags that ``serve`` and ``export`` share."""

from __future__ import annotations

from groupreplay.app.cli.serving_flags import MetricFlags
from groupreplay.app.exporter.freshness import Limits


def test_limits_of_the_exporter() -> None:
    """Milliseconds of the flag are seconds there; without the flag the job's own trigger decides."""
    given = MetricFlags(max_groups=7, heartbeat_timeout=30_500)
    assert given.limits() == Limits(max_groups=7, timeout_seconds=30.5)
    default = MetricFlags(max_groups=7, heartbeat_timeout=None)
    assert default.limits() == Limits(max_groups=7, timeout_seconds=None)
