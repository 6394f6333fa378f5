"""What the deployments of the last week cost all groups: rolling restarts, by the events of the history alone.

It is made anew at most every ten minutes, because all rebalances of a week are looked at.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, NamedTuple

import msgspec

from groupreplay.app.serve.answers import TimeMs, about
from groupreplay.app.serve.history.event_queries import NO_SOURCE, event_bounds_ms
from groupreplay.app.serve.history.group_queries import COMPLETED
from groupreplay.app.serve.history.rows import unpacked
from groupreplay.app.serve.watched_cluster import WatchedCluster
from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.streaming.contract.messages import OBJECTS
from groupreplay.timeline.advice.deployments import TEAM, deployment_sums, deployments
from groupreplay.timeline.advice.finding import Deployment, DeploymentSum
from groupreplay.timeline.advice.inputs import advice_input
from groupreplay.timeline.advice.summary import advice_page
from groupreplay.timeline.advice.words import before_text, deployment_lines_by_label
from groupreplay.timeline.event_reading import read_events
from groupreplay.timeline.findings import runbook_page
from groupreplay.timeline.states import TimelineInput

WEEK_MS: Final = 7 * 86_400_000
_FRESH_MS: Final = 600_000
#: A rolling restart is at least so many rebalances.
_LEAST_REBALANCES: Final = 2
#: Events of one group, and of all groups together: the newest ones, of the groups with the most rebalances first.
_MOST_OF_GROUP: Final = 1_000
_MOST_EVENTS: Final = 10_000
#: What tells of members and of their rebalances.
_NAMES: Final = (COMPLETED, "group.emptied", "group.deleted", "member.left")


class Deployments(msgspec.Struct):
    """What rolling restarts cost from since_ms to until_ms: the sum of all, then by the label team."""

    sums: list[DeploymentSum]
    texts: Annotated[list[str], about("The sums in words, at least; none: there were no deployments.")]
    since_ms: TimeMs
    until_ms: TimeMs
    groups: Annotated[int, about("Groups whose rebalances were looked at.")]
    left_out: Annotated[int, about("Groups with rebalances that were too many to be looked at.")]
    page: Annotated[str, about("How they are counted: an address or a path.")]


class _Read(NamedTuple):
    """The events of groups, by label, compressed; groups left out; the first moment that the history has.

    ``condition``: the newest event about a condition, which has the page of the runbook.
    """

    bodies: Mapping[str, Sequence[bytes]]
    left_out: int
    first_ms: int | None
    condition: bytes | None


@dataclass(slots=True)
class WeekOfDeployments:
    """The deployments of one cluster's last week, as they were looked at last."""

    cluster: WatchedCluster
    _last: Deployments | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def now(self) -> Deployments:
        """Those of the week until now; the answer before, while another thread makes a new one.

        Raises:
            sqlite3.Error: the history gives no answer.
        """
        until_ms, last = self.cluster.clock(), self._last
        if last is not None and 0 <= until_ms - last.until_ms < _FRESH_MS:
            return last
        if not self._lock.acquire(blocking=last is None):
            assert last is not None
            return last
        try:
            if self._last is last:
                read = self.cluster.ask(lambda db: _read(db, until_ms - 2 * WEEK_MS))
                self._last = _deployments(read, until_ms)
            assert self._last is not None
            return self._last
        finally:
            self._lock.release()


def _read(db: sqlite3.Connection, since_ms: int) -> _Read:
    counted = db.execute(
        "SELECT label, count(*) AS many FROM events WHERE name = ? AND time_ms >= ? AND label <> '' "
        "GROUP BY label HAVING many >= ? ORDER BY many DESC, label",
        (COMPLETED, since_ms, _LEAST_REBALANCES),
    ).fetchall()
    bodies: dict[str, list[bytes]] = {}
    room = _MOST_EVENTS
    for label, _ in counted:
        if room <= 0:
            break
        rows = db.execute(
            f"SELECT body FROM events WHERE label = ? AND time_ms >= ? AND name IN ({','.join('?' * len(_NAMES))}) "
            "ORDER BY time_ms DESC, position DESC LIMIT ?",
            (label, since_ms, *_NAMES, min(room, _MOST_OF_GROUP)),
        )
        bodies[label] = [body for (body,) in rows]
        room -= len(bodies[label])
    conditions = [kind.NAME for kind in CONDITIONS]
    newest = db.execute(
        f"SELECT body FROM events WHERE name IN ({','.join('?' * len(conditions))}) ORDER BY time_ms DESC LIMIT 1",
        conditions,
    ).fetchone()
    return _Read(bodies, len(counted) - len(bodies), event_bounds_ms(db)[0], newest and newest[0])


def _deployments(read: _Read, until_ms: int) -> Deployments:
    since_ms, before_ms = until_ms - WEEK_MS, until_ms - 2 * WEEK_MS
    found = list[Deployment]()
    for label, bodies in read.bodies.items():
        events = [event for body in bodies if (event := OBJECTS.decode(unpacked(body))) is not None]
        given = TimelineInput(
            group_id=label, source=NO_SOURCE, events=events, end_ms=until_ms, until_ms=until_ms + 1
        )
        found += deployments(advice_input(given))
    reaches_back = read.first_ms is not None and read.first_ms <= before_ms
    sums = deployment_sums(found, TEAM, since_ms, before_ms if reaches_back else None)
    condition = None if read.condition is None else OBJECTS.decode(unpacked(read.condition))
    page = advice_page(runbook_page(read_events([] if condition is None else [condition])))
    # No event tells of commits: the most is the time since the last generation, which says nothing.
    texts = list(deployment_lines_by_label(sums, at_least=True))
    if texts:
        texts[0] += before_text(sums[0], at_least=True)
    return Deployments(
        sums=sums,
        texts=texts,
        since_ms=since_ms,
        until_ms=until_ms,
        groups=len(read.bodies),
        left_out=read.left_out,
        page=f"{page}#deployments",
    )
