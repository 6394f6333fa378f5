"""What a query is started with, and whether that has changed since: rules, retention, names of topics, the clock."""

from __future__ import annotations

import logging
from typing import Final

from groupreplay.state.policy.context import Context
from groupreplay.streaming.base.clock import BrokerClock
from groupreplay.streaming.config.rules_file import RulesWatch
from groupreplay.streaming.config.settings import RunSettings
from groupreplay.streaming.kafka.broker_config import RetentionWatch
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.run.identity import Identity
from groupreplay.streaming.run.status import JobReport
from groupreplay.version import __version__

log = logging.getLogger(__name__)

#: An event counts as late when it is emitted this long, or three triggers, after it happened.
_LATE_MS: Final = 60_000


class QuerySettings:
    """The settings of one run that may change while it goes on; a running query keeps those of its start."""

    def __init__(
        self,
        *,
        settings: RunSettings,
        identity: Identity,
        rules: RulesWatch,
        clock: BrokerClock,
        report: JobReport,
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._rules = rules
        self._clock = clock
        self._report = report
        self._retention = RetentionWatch(settings.retention, lambda: Connection(settings.source))
        self._clock_at_start = clock.mark()
        self._present: Context | None = None

    def begin(self) -> Context:
        """The context of a query that starts now."""
        self._clock_at_start = self._clock.mark()
        # Not earlier: until here the former query ran with the former rules.
        self._report.rules_changes = self._rules.changes
        self._present = self.context()
        return self._present

    def present(self) -> Context:
        """The context of the query that was started last; before the first one that of a query that starts now."""
        if self._present is None:
            self._present = self.context()
        return self._present

    def changed(self) -> bool:
        """Whether rules, retention or the clock have changed since the query was started."""
        # All must be asked: each remembers the answer it has given.
        changed = any([self._rules.changed(), self._retention.changed(), self._clock_has_moved()])
        self._report.rules_error = self._rules.error
        return changed

    def context(self) -> Context:
        """The context as the settings are now, with the clock of the start of the query."""
        settings, identity = self._settings, self._identity
        return Context(
            cluster_id=identity.cluster_id,
            era=identity.event_era,
            # What another job has emitted is evaluated, too: later events depend on it.
            emit_since_ms=0
            if settings.backfill_events or identity.taken_over_ms
            else identity.first_start_ms,
            told_until_ms=identity.first_start_ms if identity.taken_over_ms else 0,
            # A checkpoint begins with the whole topic: from its first start on no record of a group is missing.
            complete_since_ms=identity.complete_since_ms,
            catch_up_after_ms=max(_LATE_MS, round(3_000 * settings.trigger_seconds)),
            topic_names=Connection(settings.source).topic_names(),
            member_events=settings.member_events,
            probing=settings.probe,
            labels=dict(settings.labels),
            redaction=settings.redaction,
            policy=self._rules.policy,
            release=__version__,
            job_id=identity.job_id,
            retry_run=self._report.identity.run_id if settings.retry_quarantined else None,
            clock_correction_ms=self._clock_at_start.correction_ms,
            **self._retention.known.for_context(),
        )

    def _clock_has_moved(self) -> bool:
        """Spark waits for its next trigger by the clock of the machine: after a step back it would wait as long."""
        if not self._clock.has_moved(self._clock_at_start):
            return False
        off_ms = self._clock.off_ms
        log.warning(
            "the clock of this machine was set, or differs from the brokers' by another amount than before "
            "(it is ahead by %s); synchronise it (NTP)",
            "an unknown time" if off_ms is None else f"{off_ms} ms",
        )
        return True
