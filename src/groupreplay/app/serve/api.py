"""The answers of the API, without HTTP: parameters in, what is sent as JSON out."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from groupreplay.app.serve.history import overview, queries
from groupreplay.app.serve.history.queries import SORTS, EventsPage, GroupsPage
from groupreplay.app.serve.job_summary import job_summary
from groupreplay.app.serve.offsets_log.commit_sample import CommitSample
from groupreplay.app.serve.offsets_log.timelines import LiveTimelines
from groupreplay.app.serve.parameters import Parameters, RequestError
from groupreplay.app.serve.watched_cluster import WatchedCluster
from groupreplay.streaming.sinks.known_groups import DAY_MS
from groupreplay.timeline.document import TimelineDocument

Json = dict[str, Any]
_Answer = TypeVar("_Answer")

MOST_CONDITIONS: Final = 2_000
_MOST_EVENTS: Final = 500
_MOST_GROUPS: Final = 500


@dataclass(frozen=True, slots=True)
class Api:
    """The API of some clusters; the first one is that of requests that name none."""

    clusters: Sequence[WatchedCluster]
    now_ms: Callable[[], int]
    _by_name: Mapping[str, WatchedCluster] = field(init=False)
    _timelines: Mapping[str, LiveTimelines] = field(init=False)
    _samples: Mapping[str, CommitSample] = field(init=False)

    def __post_init__(self) -> None:
        samples = {
            one.name: CommitSample(one.served.source, one.clock, one.history.offer_counts)
            for one in self.clusters
        }
        object.__setattr__(self, "_by_name", {one.name: one for one in self.clusters})
        object.__setattr__(self, "_timelines", {one.name: LiveTimelines(one) for one in self.clusters})
        object.__setattr__(self, "_samples", samples)

    def cluster(self, given: Parameters) -> WatchedCluster:
        """The cluster that a request names, by its name here or by its id.

        Raises:
            RequestError: there is none of that name.
        """
        name = given.text("cluster")
        found = self._by_name.get(name) if name else self.clusters[0]
        if found is None:
            # Links of Grafana and of alerts have the id of the cluster, which is a label of the metrics.
            found = next((one for one in self.clusters if _cluster_id(one) == name), None)
        if found is None:
            raise RequestError(404, "there is no cluster of this name; /api/clusters lists them")
        return found

    def list_clusters(self, given: Parameters) -> Json:
        """``/api/clusters``: each cluster with the health of its job."""
        del given
        return {"clusters": [self._cluster(one) for one in self.clusters], "now_ms": self.now_ms()}

    def list_groups(self, given: Parameters) -> Json:
        """``/api/groups``: a page of groups."""
        query = GroupsPage(
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
            label, sample = queries.label_of(db, group_id), queries.commit_sample(db)
            found, document = queries.group(db, label, sample), queries.document(db, label)
            if found is None or document is None:
                return None
            return {"group": found, "document": msgspec.Raw(document)}

        found = ask(self.cluster(given), find)
        if found is None:
            raise RequestError(404, "there is no group of this name now")
        return found

    def timeline(self, given: Parameters, group_id: str) -> TimelineDocument:
        """``/api/groups/{id}/timeline``: what happened to a group, by default in the last day."""
        since_ms, until_ms = given.time_ms("since"), given.time_ms("until")
        if since_ms is None:
            since_ms = max((until_ms or self.now_ms()) - DAY_MS, 0)
        if until_ms is not None and until_ms <= since_ms:
            raise RequestError(400, "until is not after since")
        cluster = self.cluster(given)
        try:
            found = self._timelines[cluster.name].document(group_id, since_ms, until_ms)
        except sqlite3.Error as error:
            raise RequestError(503, f"the history gives no answer now: {error}") from None
        if found is None:
            raise RequestError(404, "neither the history nor the log has a group of this name")
        return found

    def list_strips(self, given: Parameters) -> Json:
        """``/api/strips``: what happened to groups, by default in the last day, one strip each."""
        until_ms = given.time_ms("until") or self.now_ms()
        since_ms = given.time_ms("since")
        since_ms = max(until_ms - DAY_MS, 0) if since_ms is None else since_ms
        if until_ms <= since_ms:
            raise RequestError(400, "until is not after since")
        labels, limit = given.texts("groups"), given.number("limit", 50, 1, 200)
        found = ask(
            self.cluster(given),
            lambda db: overview.strips(db, since_ms, until_ms, labels, limit),
        )
        return {"since_ms": since_ms, "until_ms": until_ms, "strips": found}

    def list_expiring(self, given: Parameters) -> Json:
        """``/api/expiring``: the groups whose first offset expires next, by day."""
        until_ms = given.time_ms("until") or self.now_ms() + 14 * DAY_MS
        found = ask(self.cluster(given), lambda db: overview.expiring(db, until_ms))
        return {"days": found, "until_ms": until_ms}

    def list_topics(self, given: Parameters) -> Json:
        """``/api/topics``: topics and the groups that read them."""
        search, limit = given.text("search"), given.number("limit", 100, 1, 500)
        found, count = ask(self.cluster(given), lambda db: overview.topics(db, search, limit))
        return {"topics": found, "matching": count}

    def list_committers(self, given: Parameters) -> Json:
        """``/api/committers``: the groups with the most commits in the last minutes, from the offsets topic."""
        limit = given.number("limit", 20, 1, 500)
        found = self._samples[self.cluster(given).name].counts()
        seconds = max((found.until_ms - found.since_ms) / 1000, 1)
        most = sorted(found.commits.items(), key=lambda one: (-one[1], one[0]))[:limit]
        return {
            "committers": [
                {"group_id": label, "commits": commits, "per_s": round(commits / seconds, 3)}
                for label, commits in most
            ],
            "since_ms": found.since_ms,
            "until_ms": found.until_ms,
            "complete": found.complete,
            "error": found.error,
        }

    def list_conditions(self, given: Parameters) -> Json:
        """``/api/conditions``: what holds now, the worst first."""

        def find(db: sqlite3.Connection) -> Json:
            shown = queries.conditions(db, MOST_CONDITIONS)
            return {"conditions": shown, "counts": queries.condition_counts(db)}

        return ask(self.cluster(given), find)

    def list_events(self, given: Parameters) -> Json:
        """``/api/events``: a page of events, newest first."""
        query = EventsPage(
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

    def _cluster(self, one: WatchedCluster) -> Json:
        now_ms = one.clock()
        kafka, log_kafka = one.watch.answers, one.log_watch.answers
        trouble = kafka.error or one.feed.trouble

        def summary(snapshot: Any) -> Json:
            return job_summary(snapshot, now_ms, one.limits, trouble, kafka.since_ms)

        job = one.feed.evaluate(summary)
        cluster_id = _cluster_id(one)
        first_ms, last_ms, counts = self._history(one)
        return {
            "name": one.name,
            "cluster_id": cluster_id,
            "now_ms": now_ms,
            "clock_off_ms": one.server_clock.off_ms,
            "error": trouble or None,
            "kafka": asdict(kafka),
            "log_kafka": None if one.log_watch is one.watch else asdict(log_kafka),
            "known_until_ms": one.known_until_ms(),
            "caught_up_ms": job["caught_up_ms"],
            "job": job,
            "conditions": counts,
            "history_ms": one.history.bounds.age_ms,
            "history_since_ms": first_ms,
            "history_until_ms": last_ms,
            "history_error": one.history.trouble or None,
        }

    def _history(self, one: WatchedCluster) -> tuple[int | None, int | None, dict[str, int]]:
        try:
            return one.ask(lambda db: (*queries.event_bounds_ms(db), queries.condition_counts(db)))
        except sqlite3.Error:
            # The health of the job is known without the history.
            return None, None, {}


def _cluster_id(cluster: WatchedCluster) -> str | None:
    """The id of the watched cluster, by the job's document; None before that was read."""
    return cluster.feed.evaluate(lambda seen: seen.job.cluster_id if seen and seen.job else None)


def ask(cluster: WatchedCluster, question: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
    """The answer of a cluster's history.

    Raises:
        RequestError: the file is made anew at this moment, or the question took too long.
    """
    try:
        return cluster.ask(question)
    except sqlite3.Error as error:
        raise RequestError(503, f"the history gives no answer now: {error}") from None
