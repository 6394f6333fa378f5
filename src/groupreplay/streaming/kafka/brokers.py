"""What a caller of the Python functions states about the brokers, where neither a capture nor a broker says it."""

from __future__ import annotations

from dataclasses import dataclass

from groupreplay.state.policy.context import BrokerRelease
from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.config.retention import parsed_release
from groupreplay.streaming.config.settings import RetentionFlags


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """Settings of the brokers; None: what a broker or the capture says, else Kafka's default.

    ``retention_minutes`` is ``offsets.retention.minutes``, ``check_interval_ms`` is
    ``offsets.retention.check.interval.ms``, ``release`` the release of Kafka, such as ``3.9``.
    """

    retention_minutes: int | None = None
    check_interval_ms: int | None = None
    release: str | None = None

    def flags(self) -> RetentionFlags:
        """The same as the flags of the commands.

        Raises:
            GroupReplayError: the release is none of Kafka.
        """
        return RetentionFlags(
            retention_minutes=self.retention_minutes,
            check_interval_ms=self.check_interval_ms,
            broker_release=self._release(),
        )

    def _release(self) -> BrokerRelease | None:
        release = None if self.release is None else parsed_release(self.release)
        if self.release is not None and release is None:
            raise unusable(f"{self.release!r} is no release of Kafka", None, "give two numbers, such as 3.9")
        return release
