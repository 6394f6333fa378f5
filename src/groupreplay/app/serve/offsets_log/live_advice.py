"""The advice on groups whose pages are open: made anew at most once a minute for each, because a page is read often."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from groupreplay.app.inspection.group_use import unused, unused_row
from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state import Context
from groupreplay.state.phrases import timestamp_ms
from groupreplay.state.policy.context import ASSUMED_SESSIONS
from groupreplay.timeline.advice.finding import AdviceSummary
from groupreplay.timeline.advice.group_advice import group_advice
from groupreplay.timeline.advice.inputs import GroupUse, advice_input
from groupreplay.timeline.advice.summary import advice_summary
from groupreplay.timeline.findings import runbook_page
from groupreplay.timeline.states import TimelineInput

_MINUTE_MS: Final = 60_000
_MOST_KEPT: Final = 500
#: The newest events of a group: 0.4 s of one core with three members.
_MOST_EVENTS: Final = 1_500
_COMPLETED: Final = ".rebalance.completed."
#: Group, minute of the end, whether its log was read.
_Key: TypeAlias = tuple[str, int, bool]


@dataclass(slots=True)
class LiveAdvice:
    """The advice on each group by the minute in which what is known of it ends."""

    _kept: OrderedDict[_Key, AdviceSummary | None] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, given: TimelineInput, use: GroupUse) -> AdviceSummary | None:
        """The advice by all that is known of a group up to then, whatever time its page shows; None: nothing to say."""
        key = given.group_id, given.end_ms // _MINUTE_MS, given.has_log
        with self._lock:
            if key in self._kept:
                return self._kept[key]
        made = _advice(given, use)
        with self._lock:
            self._kept[key] = made
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return made


def use_now(described: Mapping[str, Any] | None, context: Context, now_ms: int) -> GroupUse:
    """What is known of a group now beside its history; ``described``: as ``Group.describe`` has it."""
    groups = [] if described is None else [dict(described)]
    idle = [unused_row(group, now_ms).unused_ms for group in unused(groups, now_ms)]
    return GroupUse(
        described=described or {},
        unused_ms=idle[0] if idle else None,
        retention_ms=context.assumed_retention_ms,
        is_retention_assumed=context.retention_ms is None,
        session=ASSUMED_SESSIONS
        if described is None
        else context.session_of(GroupType.CONSUMER.value, described["group_id"]),
    )


def _advice(given: TimelineInput, use: GroupUse) -> AdviceSummary | None:
    timed = [
        (at_ms, event) for event in given.events if (at_ms := timestamp_ms(event.get("time"))) is not None
    ]
    timed.sort(key=lambda pair: pair[0])
    told = timed[-_MOST_EVENTS:]
    first_ms = next((at_ms for at_ms, event in told if _COMPLETED in str(event.get("type"))), None)
    # The log has lost to compaction what the events of the job still tell.
    is_older = first_ms is not None and (not given.records or first_ms < given.records[0].timestamp_ms)
    whole = replace(
        given,
        events=[event for _, event in told],
        since_ms=told[0][0] if len(told) < len(timed) else None,
        records=() if is_older else given.records,
    )
    history = advice_input(whole, use)
    return advice_summary(group_advice(history), runbook_page(history.events) or given.runbook)
