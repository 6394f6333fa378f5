"""The answers of the API, without HTTP: parameters in, what is sent as JSON out."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from groupreplay.streaming.serve import queries
from groupreplay.streaming.serve.job_summary import job_summary
from groupreplay.streaming.serve.parameters import Parameters, RequestError
from groupreplay.streaming.serve.queries import SORTS, EventsQuery, GroupsQuery
from groupreplay.streaming.serve.watched_cluster import WatchedCluster

Json = dict[str, Any]
_Answer = TypeVar("_Answer")

DAY_MS: Final = 86_400_000
MOST_CONDITIONS: Final = 2_000
_MOST_EVENTS: Final = 500
_MOST_GROUPS: Final = 500


@dataclass(frozen=True, slots=True)
class Api:
    """The API of some clusters; the first one is that of requests that name none."""

    clusters: Sequence[WatchedCluster]
    now_ms: Callable[[], int]
    _by_name: Mapping[str, WatchedCluster] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {one.name: one for one in self.clusters})

    def cluster(self, given: Parameters) -> WatchedCluster:
        """The cluster that a request names.

        Raises:
            RequestError: there is none of that name.
        """
        name = given.text("cluster")
        found = self._by_name.get(name) if name else self.clusters[0]
        if found is None:
            raise RequestError(404, "there is no cluster of this name; /api/clusters lists them")
        return found

    def list_clusters(self, given: Parameters) -> Json:
        """``/api/clusters``: each cluster with the health of its job."""
        now_ms = self.now_ms()
        del given
        return {"clusters": [self._cluster(one, now_ms) for one in self.clusters], "now_ms": now_ms}

    def list_groups(self, given: Parameters) -> Json:
        """``/api/groups``: a page of groups."""
        query = GroupsQuery(
            search=given.text("search"),
            type=given.text("type"),
            state=given.text("state"),
            risk=given.text("risk"),
            sort=given.choice("sort", SORTS, "risk"),
            limit=given.number("limit", 100, 1, _MOST_GROUPS),
            after=given.number("cursor", 0, 0, 10_000_000),
        )
        return ask(self.cluster(given), lambda db: queries.groups(db, query))

    def one_group(self, given: Parameters, group_id: str) -> Json:
        """``/api/groups/{id}``: a group with its document; the id may also be the group's label."""

        def find(db: sqlite3.Connection) -> Json | None:
            label = queries.label_of(db, group_id)
            found, document = queries.group(db, label), queries.document(db, label)
            if found is None or document is None:
                return None
            return {"group": found, "document": msgspec.Raw(document)}

        found = ask(self.cluster(given), find)
        if found is None:
            raise RequestError(404, "there is no group of this name now")
        return found

    def list_conditions(self, given: Parameters) -> Json:
        """``/api/conditions``: what holds now, the worst first."""

        def find(db: sqlite3.Connection) -> Json:
            shown = queries.conditions(db, MOST_CONDITIONS)
            return {"conditions": shown, "counts": queries.condition_counts(db)}

        return ask(self.cluster(given), find)

    def list_events(self, given: Parameters) -> Json:
        """``/api/events``: a page of events, newest first."""
        query = EventsQuery(
            since_ms=given.time_ms("since"),
            until_ms=given.time_ms("until"),
            group=given.text_or_none("group"),
            type=given.text_or_none("type"),
            least_severity=given.severity("min_severity"),
            limit=given.number("limit", 100, 1, _MOST_EVENTS),
            before=given.place("cursor"),
        )
        shown, following = ask(self.cluster(given), lambda db: queries.events(db, query))
        return {"events": shown, "next": following}

    def _cluster(self, one: WatchedCluster, now_ms: int) -> Json:
        def summary(snapshot: Any) -> Json:
            return job_summary(snapshot, now_ms, one.limits, one.feed.trouble)

        job = one.feed.evaluate(summary)
        cluster_id = one.feed.evaluate(lambda seen: seen.job.cluster_id if seen and seen.job else None)
        first_ms, counts = self._history(one)
        return {
            "name": one.name,
            "cluster_id": cluster_id,
            "caught_up_ms": job["caught_up_ms"],
            "job": job,
            "conditions": counts,
            "history_ms": one.history.bounds.age_ms,
            "history_since_ms": first_ms,
            "history_error": one.history.trouble or None,
        }

    def _history(self, one: WatchedCluster) -> tuple[int | None, dict[str, int]]:
        try:
            return one.ask(lambda db: (queries.first_event_ms(db), queries.condition_counts(db)))
        except sqlite3.Error:
            # The health of the job is known without the history.
            return None, {}


def ask(cluster: WatchedCluster, question: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
    """The answer of a cluster's history.

    Raises:
        RequestError: the file is made anew at this moment, or the question took too long.
    """
    try:
        return cluster.ask(question)
    except sqlite3.Error as error:
        raise RequestError(503, f"the history gives no answer now: {error}") from None
