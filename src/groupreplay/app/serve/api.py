"""The answers of the API, without HTTP: parameters in, what is sent as JSON out.

The first line of a method that answers is published in the OpenAPI document.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from groupreplay.app.exporter.collector import bad_records
from groupreplay.app.exporter.feed import Limits, is_fresh, is_up, silence_seconds
from groupreplay.app.serve import answers
from groupreplay.app.serve.history import episode_queries, event_queries, group_queries
from groupreplay.app.serve.history.deployment_queries import Deployments, WeekOfDeployments
from groupreplay.app.serve.history.rebalance_queries import RebalancesByTime, RebalancesQuery, rebalances
from groupreplay.app.serve.offsets_log.commit_sample import CommitSample
from groupreplay.app.serve.offsets_log.timelines import LiveTimelines
from groupreplay.app.serve.requests import Parameters, RequestError
from groupreplay.app.serve.watched_cluster import WatchedCluster
from groupreplay.streaming.contract.messages import JobDocument
from groupreplay.streaming.sinks.known_groups import DAY_MS
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from groupreplay.timeline.document import TimelineDocument

_Answer = TypeVar("_Answer")

_MOST_CONDITIONS: Final = 2_000
_MOST_EVENTS: Final = 500
#: Each is diagnosed when it is asked for.
_MOST_EPISODES: Final = 50
_MOST_GROUPS: Final = 500


@dataclass(frozen=True, slots=True)
class Api:
    """The API of some clusters; the first one is that of requests that name none."""

    clusters: Sequence[WatchedCluster]
    now_ms: Callable[[], int]
    _by_name: Mapping[str, WatchedCluster] = field(init=False)
    _timelines: Mapping[str, LiveTimelines] = field(init=False)
    _samples: Mapping[str, CommitSample] = field(init=False)
    _deployments: Mapping[str, WeekOfDeployments] = field(init=False)

    def __post_init__(self) -> None:
        by_name = {cluster.name: cluster for cluster in self.clusters}
        samples = {
            name: CommitSample(cluster.served.source, cluster.clock, cluster.history.offer_counts)
            for name, cluster in by_name.items()
        }
        timelines = {name: LiveTimelines(cluster) for name, cluster in by_name.items()}
        object.__setattr__(self, "_by_name", by_name)
        object.__setattr__(self, "_timelines", timelines)
        object.__setattr__(self, "_samples", samples)
        deployments = {name: WeekOfDeployments(cluster) for name, cluster in by_name.items()}
        object.__setattr__(self, "_deployments", deployments)

    def cluster(self, parameters: Parameters) -> WatchedCluster:
        """The cluster that a request names, by its name here or by its id.

        Raises:
            RequestError: there is none of that name.
        """
        name = parameters.text("cluster")
        named = self._by_name.get(name) if name else self.clusters[0]
        if named is None:
            # Links of Grafana and of alerts have the id of the cluster, which is a label of the metrics.
            named = next((cluster for cluster in self.clusters if _cluster_id(cluster) == name), None)
        if named is None:
            raise RequestError(404, "there is no cluster of this name; /api/clusters lists them")
        return named

    def list_clusters(self, parameters: Parameters) -> answers.Clusters:
        """The clusters that are served, and the health of their jobs."""
        del parameters
        return answers.Clusters([_cluster(cluster) for cluster in self.clusters], self.now_ms())

    def list_groups(self, parameters: Parameters) -> answers.Groups:
        """A page of groups; facets count those that match by state, type and worst condition (empty: none)."""
        query = group_queries.GroupsQuery(
            search=parameters.text("search"),
            type=parameters.text("type"),
            state=parameters.text("state"),
            risk=parameters.text("risk"),
            sort=parameters.choice("sort", group_queries.SORTS, "risk"),
            limit=parameters.number("limit", 100, 1, _MOST_GROUPS),
            after=parameters.number("cursor", 0, 0, 10_000_000),
        )
        return ask(self.cluster(parameters), lambda db: group_queries.groups(db, query))

    def one_group(self, parameters: Parameters, group_id: str) -> answers.GroupWithDocument:
        """A group, and its document in group-states as the job wrote it when something else than commits changed.

        The document's commit times and log_position are of then. The id may also be the group's label.
        """

        def find(db: sqlite3.Connection) -> answers.GroupWithDocument | None:
            label, sample = group_queries.label_of(db, group_id), group_queries.commit_sample(db)
            group, document = group_queries.group(db, label, sample), group_queries.document(db, label)
            if group is None or document is None:
                return None
            return answers.GroupWithDocument(group, lag_of(group.group_id), msgspec.Raw(document))

        lag_of = self.cluster(parameters).lag_of
        answer = ask(self.cluster(parameters), find)
        if answer is None:
            raise RequestError(404, "there is no group of this name now")
        return answer

    def timeline(self, parameters: Parameters, group_id: str) -> TimelineDocument:
        """What happened to a group, by default in the last day: the document of docs/report.md."""
        since_ms, until_ms = parameters.time_ms("since"), parameters.time_ms("until")
        if since_ms is None:
            since_ms = max((until_ms or self.now_ms()) - DAY_MS, 0)
        if until_ms is not None and until_ms <= since_ms:
            raise RequestError(400, "until is not after since")
        timelines = self._timelines[self.cluster(parameters).name]
        try:
            document = timelines.document(group_id, since_ms, until_ms)
        except sqlite3.Error as error:
            raise RequestError(503, f"the history gives no answer now: {error}") from None
        if document is None:
            raise RequestError(404, "neither the history nor the log has a group of this name")
        return document

    def list_conditions(self, parameters: Parameters) -> answers.Conditions:
        """What holds now, the worst first, at most 2000; counts are of all by severity."""
        return ask(
            self.cluster(parameters),
            lambda db: answers.Conditions(
                group_queries.conditions(db, _MOST_CONDITIONS),
                group_queries.condition_counts(db),
                list(episode_queries.counts_of_groups(db)),
            ),
        )

    def list_incidents(self, parameters: Parameters) -> answers.Incidents:
        """What went wrong in the last days, in many groups at once and in each, also what is over."""
        cluster = self.cluster(parameters)
        until_ms = parameters.time_ms("until") or self.now_ms()
        query = episode_queries.EpisodesQuery(
            since_ms=parameters.time_ms("since") or max(until_ms - cluster.history.bounds.age_ms, 0),
            until_ms=until_ms,
            search=parameters.text("search"),
            least_severity=parameters.severity("min_severity"),
            limit=parameters.number("limit", 25, 1, _MOST_EPISODES),
            after=parameters.number("cursor", 0, 0, 10_000_000),
        )
        return ask(cluster, lambda db: episode_queries.episodes(db, query))

    def list_events(self, parameters: Parameters) -> answers.Events:
        """Events of the history, newest first; next is the cursor of the following page."""
        query = event_queries.EventsQuery(
            since_ms=parameters.time_ms("since"),
            until_ms=parameters.time_ms("until"),
            group=parameters.text_or_none("group"),
            type=parameters.text_or_none("type"),
            least_severity=parameters.severity("min_severity"),
            limit=parameters.number("limit", 100, 1, _MOST_EVENTS),
            before=parameters.place("cursor"),
        )
        return ask(self.cluster(parameters), lambda db: event_queries.events(db, query))

    def list_rebalances(self, parameters: Parameters) -> RebalancesByTime:
        """Rebalances that ended in a time, with begin and end, newest first; groups may be a|b, and `.*` for all.

        So a dashboard of Grafana names them.
        """
        named = [label for text in parameters.texts("groups") for label in text.split("|")]
        query = RebalancesQuery(
            since_ms=parameters.time_ms("since"),
            until_ms=parameters.time_ms("until"),
            groups=named[:_MOST_GROUPS],
            limit=parameters.number("limit", _MOST_EVENTS, 1, _MOST_EVENTS),
            before=parameters.place("cursor"),
        )
        return ask(self.cluster(parameters), lambda db: rebalances(db, query))

    def list_strips(self, parameters: Parameters) -> answers.Strips:
        """What happened to groups, by default in the last day; without groups those with the worst conditions first."""
        until_ms = parameters.time_ms("until") or self.now_ms()
        since_ms = parameters.time_ms("since")
        since_ms = max(until_ms - DAY_MS, 0) if since_ms is None else since_ms
        if until_ms <= since_ms:
            raise RequestError(400, "until is not after since")
        labels, limit = parameters.texts("groups"), parameters.number("limit", 50, 1, 200)
        strips = ask(
            self.cluster(parameters), lambda db: event_queries.strips(db, since_ms, until_ms, labels, limit)
        )
        return answers.Strips(since_ms, until_ms, strips)

    def list_deployments(self, parameters: Parameters) -> Deployments:
        """What rolling restarts cost in the last 7 days, by the events of the history; made anew every 10 minutes."""
        try:
            return self._deployments[self.cluster(parameters).name].now()
        except sqlite3.Error as error:
            raise RequestError(503, f"the history gives no answer now: {error}") from None

    def list_expiring(self, parameters: Parameters) -> answers.Expiring:
        """Groups whose first offset may be removed next, by day (UTC), by default of 14 days."""
        until_ms = parameters.time_ms("until") or self.now_ms() + 14 * DAY_MS
        days = ask(self.cluster(parameters), lambda db: group_queries.expiring(db, until_ms))
        return answers.Expiring(days, until_ms)

    def list_topics(self, parameters: Parameters) -> answers.Topics:
        """Topics by name, and the groups that read them."""
        search, limit = parameters.text("search"), parameters.number("limit", 100, 1, 500)
        return ask(self.cluster(parameters), lambda db: group_queries.topics(db, search, limit))

    def list_committers(self, parameters: Parameters) -> answers.Committers:
        """The groups with the most commits in the last 5 minutes, counted in the offsets topic; error: why not."""
        limit = parameters.number("limit", 20, 1, 500)
        sample = self._samples[self.cluster(parameters).name].counts()
        seconds = max((sample.until_ms - sample.since_ms) / 1000, 1)
        most = sorted(sample.commits.items(), key=lambda group: (-group[1], group[0]))[:limit]
        return answers.Committers(
            committers=[
                answers.Committer(label, commits, round(commits / seconds, 3)) for label, commits in most
            ],
            since_ms=sample.since_ms,
            until_ms=sample.until_ms,
            complete=sample.complete,
            error=sample.error,
        )


def _cluster(cluster: WatchedCluster) -> answers.Cluster:
    now_ms = cluster.clock()
    kafka, log_kafka = cluster.watch.answers, cluster.log_watch.answers
    trouble = kafka.error or cluster.feed.trouble
    job = cluster.feed.evaluate(
        lambda snapshot: _job(snapshot, now_ms, cluster.limits, trouble, kafka.since_ms)
    )
    first_ms, last_ms, counts = _history(cluster)
    return answers.Cluster(
        name=cluster.name,
        cluster_id=_cluster_id(cluster),
        now_ms=now_ms,
        clock_off_ms=cluster.server_clock.off_ms,
        error=trouble or None,
        kafka=kafka,
        log_kafka=None if cluster.log_watch is cluster.watch else log_kafka,
        known_until_ms=cluster.known_until_ms(),
        caught_up_ms=job.caught_up_ms,
        job=job,
        conditions=counts,
        history_ms=cluster.history.bounds.age_ms,
        history_since_ms=first_ms,
        history_until_ms=last_ms,
        history_error=cluster.history.trouble or None,
    )


def _history(cluster: WatchedCluster) -> tuple[int | None, int | None, dict[str, int]]:
    try:
        return cluster.ask(
            lambda db: (*event_queries.event_bounds_ms(db), group_queries.condition_counts(db))
        )
    except sqlite3.Error:
        # The health of the job is known without the history.
        return None, None, {}


def _job(
    snapshot: TopicsSnapshot | None, now_ms: int, limits: Limits, trouble: str, answering_ms: int | None
) -> answers.Job:
    """The job's own health; ``trouble`` is why the topics cannot be read at this moment, empty when they can.

    They could be read since ``answering_ms`` without a gap (None: not known).
    """
    if snapshot is None:
        return answers.Job(error=trouble or "the job's topics have not been read to their ends yet")
    job = snapshot.job
    if job is None:
        return answers.Job(up=None if trouble else False, error=trouble or "there is no job yet")
    return answers.Job(
        up=None if trouble else _is_up(snapshot, job, now_ms, limits, answering_ms),
        silent=None if trouble else not is_fresh(snapshot, now_ms, limits),
        query_running=job.query.running,
        phase=job.phase,
        once=job.once,
        version=job.version,
        host=job.host,
        trigger_seconds=job.trigger_seconds,
        started_ms=job.started_ms,
        heartbeat_ms=snapshot.heartbeat_ms,
        caught_up_ms=job.caught_up_ms,
        behind_ms=None if job.caught_up_ms is None else max(0, snapshot.heartbeat_ms - job.caught_up_ms),
        error=trouble or job.query.error or None,
        conditions=[
            answers.JobCondition(holding.condition, holding.severity, holding.what)
            for holding in dict.fromkeys(snapshot.job_conditions)
        ],
        groups=len(snapshot.groups),
        state_rows=job.state_rows,
        lag_offsets=job.lag.offsets,
        batch=None if job.batch is None else answers.Batch(job.batch.seconds, job.batch.rows),
        restarts=job.restarts,
        rules_error=job.rules.error,
        prober=_prober(job),
        bad_records=bad_records(snapshot),
    )


def _is_up(
    snapshot: TopicsSnapshot, job: JobDocument, now_ms: int, limits: Limits, answering_ms: int | None
) -> bool | None:
    """None: nobody could have written a heartbeat, or read it, for as long as a job may be silent."""
    if is_up(snapshot, now_ms, limits):
        return True
    is_new = answering_ms is not None and now_ms - answering_ms <= 1_000 * silence_seconds(job, limits)
    return None if is_new and not is_fresh(snapshot, now_ms, limits) else False


def _prober(job: JobDocument) -> answers.Prober | None:
    if job.prober is None:
        return None
    errors = job.prober.brokers
    silent = sorted(name for name, error in errors.items() if error is not None)
    return answers.Prober(job.prober.round_ms, job.prober.groups, len(errors), silent)


def _cluster_id(cluster: WatchedCluster) -> str | None:
    """The id of the watched cluster, by the job's document; None before that was read."""
    return cluster.feed.evaluate(
        lambda snapshot: snapshot.job.cluster_id if snapshot and snapshot.job else None
    )


def ask(cluster: WatchedCluster, question: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
    """The answer of a cluster's history.

    Raises:
        RequestError: the file is made anew at this moment, or the question took too long.
    """
    try:
        return cluster.ask(question)
    except sqlite3.Error as error:
        raise RequestError(503, f"the history gives no answer now: {error}") from None
