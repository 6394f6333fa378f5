"""The answers of the API: what each field is, for those who write them, and for the OpenAPI document.

Every answer has all fields of its struct. Times are integer milliseconds since 1970 (UTC).
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from groupreplay.app.serve.broker_watch import Answers
from groupreplay.state.events.event import Severity
from groupreplay.timeline.incident_forms import SevereIncident
from groupreplay.timeline.overview import GroupCount

TimeMs: TypeAlias = Annotated[int, Meta(description="Milliseconds since 1970 (UTC).")]
SeverityName: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": [*Severity.__members__]})]
#: JSON that is sent as it was written.
JsonObject: TypeAlias = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]


def about(text: str) -> Meta:
    """The description of a field."""
    return Meta(description=text)


class Error(msgspec.Struct):
    """Why there is no answer."""

    error: str


class Condition(msgspec.Struct):
    """Something that holds now."""

    condition_id: str
    name: Annotated[str, about("For example rebalance.stuck; docs/events.md lists them.")]
    severity: SeverityName
    group_id: str | None
    since_ms: TimeMs | None
    subject: Annotated[str, about("The member, instance or partition; empty: the group.")]
    summary: Annotated[str, about("One sentence.")]
    blockers: list[dict[str, Any]]
    suspects: list[dict[str, Any]]
    runbook: str


class Trouble(msgspec.Struct):
    """A grave event that was no condition."""

    name: str
    at_ms: TimeMs
    severity: SeverityName
    text: Annotated[str, about("One sentence; empty when the event is gone from the history.")]


class Group(msgspec.Struct):
    """A group as the job sees it."""

    label: Annotated[
        str, about("The id, or for an id that is empty, long or unsafe a text with a hash. For addresses.")
    ]
    group_id: str
    type: Annotated[str, about("classic, consumer, share, streams or simple.")]
    state: str
    generation: Annotated[int | None, about("Generation, or group epoch.")]
    members: int
    severity: Annotated[SeverityName | None, about("The highest severity of its conditions.")]
    risk: Annotated[str | None, about("The name of its worst condition.")]
    since_ms: Annotated[TimeMs | None, about("Since when it is in this state.")]
    expires_ms: Annotated[TimeMs | None, about("Its first offset is not removed before; rounded down.")]
    offsets: Annotated[int, about("Committed partitions.")]
    conditions: list[Condition]
    trouble: Annotated[
        Trouble | None,
        about(
            "The gravest event of the last 24 hours of the history that was no condition, such as a loss "
            "of offsets."
        ),
    ]
    text: Annotated[str, about("The gravest of these in one sentence, with who is to blame; empty: nothing.")]
    rebalanced_ms: Annotated[TimeMs | None, about("The last completed rebalance in the history.")]
    commits: Annotated[
        int | None,
        about(
            "In the last sample of /api/committers, which is of commits_since_ms to commits_until_ms in "
            "/api/groups; null: none was taken, or the group's partition was not read."
        ),
    ]
    topics: list[str]


class Facets(msgspec.Struct):
    """How many groups match by state, type and worst condition (empty: none)."""

    state: dict[str, int]
    type: dict[str, int]
    risk: dict[str, int]


class Groups(msgspec.Struct):
    """A page of groups; next is the cursor of the following page."""

    groups: list[Group]
    total: int
    matching: int
    facets: Facets
    next: str | None
    commits_since_ms: TimeMs | None
    commits_until_ms: TimeMs | None


class GroupLag(msgspec.Struct):
    """How far a group is behind: the truth is between least and most, as far as they are known."""

    at_ms: TimeMs
    lag: Annotated[int | None, about("Records, of all its partitions whose ends are known.")]
    lag_least: int | None
    lag_most: int | None
    time_lag_ms: Annotated[int | None, about("Of the partition that is the furthest behind.")]
    time_lag_least_ms: int | None
    time_lag_most_ms: int | None
    unknown: Annotated[int, about("Partitions whose lag is not known.")]


class GroupWithDocument(msgspec.Struct):
    """A group, its message in group-states, and how far it is behind."""

    group: Group
    lag: Annotated[
        GroupLag | None, about("null: not measured lately: no ends of partitions are recorded, or --no-lag.")
    ]
    document: Annotated[JsonObject, about("As the job wrote it (docs/states.md).")]


class Conditions(msgspec.Struct):
    """Conditions that hold; counts are of all by severity, groups are counted by what is worst in each."""

    conditions: list[Condition]
    counts: dict[str, int]
    groups: list[GroupCount]


class Episode(msgspec.Struct):
    """What was wrong with a group for a while, or at a moment (since_ms is until_ms); until_ms null: it holds."""

    label: str
    group_id: str
    name: Annotated[str, about("Of the condition or event.")]
    severity: SeverityName
    since_ms: TimeMs
    until_ms: TimeMs | None
    text: Annotated[str, about("The sentence of its diagnosis.")]
    parts: Annotated[list[str | int], about("The same text; a number stands for a point in time.")]
    cause: Annotated[str | None, about("The name of the cause; null: what is known does not show it.")]
    do_first: str | None
    command: Annotated[
        str | None, about("For what to do first; HOST:PORT stands for the address of a broker.")
    ]
    runbook: str


class Incidents(msgspec.Struct):
    """What began in many groups at once, the worst first, and a page of the episodes of single groups, newest first.

    next is the cursor of the following page.
    """

    incidents: list[SevereIncident]
    episodes: list[Episode]
    matching: int
    next: str | None
    since_ms: TimeMs
    until_ms: TimeMs


class Event(msgspec.Struct):
    """An event and its sentence."""

    event: Annotated[JsonObject, about("The CloudEvent as the job wrote it (docs/events.md).")]
    text: str


class Events(msgspec.Struct):
    """A page of events; next is the cursor of the following page."""

    events: list[Event]
    next: str | None


class StripSpan(msgspec.Struct, array_like=True):
    """A condition of a group, or the moment of a trouble: since_ms, until_ms, severity, condition, whether it holds."""

    since_ms: TimeMs
    until_ms: TimeMs
    severity: SeverityName | None
    condition: str
    holds: bool


class Rebalances(msgspec.Struct, array_like=True):
    """Begin of a part of the time, completed rebalances in it."""

    since_ms: TimeMs
    count: int


class Strip(msgspec.Struct):
    """What happened to a group in a time."""

    group_id: str
    spans: list[StripSpan]
    rebalances: list[Rebalances]
    width_ms: Annotated[int, about("The length of a part of the time.")]


class Strips(msgspec.Struct):
    """Strips of one time."""

    since_ms: TimeMs
    until_ms: TimeMs
    strips: list[Strip]


class ExpiringGroup(msgspec.Struct):
    """A group whose first offset may be removed at a time."""

    group_id: str
    expires_ms: TimeMs
    offsets: int


class Day(msgspec.Struct):
    """The groups whose first offset may be removed on a day (UTC)."""

    day: Annotated[str, Meta(extra_json_schema={"format": "date"})]
    group_count: int
    offsets: int
    groups: list[ExpiringGroup]


class Expiring(msgspec.Struct):
    """Groups whose first offset may be removed, by day."""

    days: list[Day]
    until_ms: TimeMs


class Reader(msgspec.Struct):
    """A group that reads a topic."""

    group_id: str
    state: str
    members: int
    severity: SeverityName | None


class Topic(msgspec.Struct):
    """A topic and the groups that read it."""

    topic: str
    reader_count: int
    readers: list[Reader]


class Topics(msgspec.Struct):
    """Topics by name; matching counts all that match."""

    topics: list[Topic]
    matching: int


class Committer(msgspec.Struct):
    """The commits of a group in the time of a sample."""

    group_id: str
    commits: int
    per_s: float


class Committers(msgspec.Struct):
    """The groups with the most commits in a sample."""

    committers: list[Committer]
    since_ms: TimeMs
    until_ms: TimeMs
    complete: Annotated[bool, about("Whether all partitions were read to their ends.")]
    error: Annotated[str | None, about("Why nothing could be counted.")]


class JobCondition(msgspec.Struct):
    """A condition of the job itself."""

    name: str
    severity: str
    what: str | None


class Batch(msgspec.Struct):
    """The job's last batch."""

    seconds: float
    rows: int


class Prober(msgspec.Struct):
    """The prober's last round."""

    round_ms: TimeMs
    groups: int
    brokers: int
    silent_brokers: list[str]


class Job(msgspec.Struct, kw_only=True):
    """The job's own health; null where it is not known."""

    up: Annotated[
        bool | None,
        about(
            "Heartbeats are fresh and a query reads the log; null: the job's topics cannot be read, or "
            "can be read again for less time than a job may be silent."
        ),
    ] = None
    silent: Annotated[bool | None, about("Its heartbeat is late, or no single run has caught up.")] = None
    query_running: bool | None = None
    phase: str | None = None
    once: bool | None = None
    version: str | None = None
    host: str | None = None
    trigger_seconds: float | None = None
    started_ms: TimeMs | None = None
    heartbeat_ms: TimeMs | None = None
    caught_up_ms: TimeMs | None = None
    behind_ms: int | None = None
    error: str | None = None
    conditions: list[JobCondition] = []
    groups: int = 0
    state_rows: int | None = None
    lag_offsets: int | None = None
    batch: Batch | None = None
    restarts: int | None = None
    rules_error: str | None = None
    prober: Prober | None = None
    bad_records: dict[str, int] = {}


class Cluster(msgspec.Struct, kw_only=True):
    """A cluster that is served."""

    name: str
    cluster_id: str | None
    now_ms: Annotated[int, about("The present by the brokers' clock, as far as it is known.")]
    clock_off_ms: Annotated[
        int | None,
        about(
            "How far this server's clock is ahead of the brokers'; more than 5 s is corrected in all "
            "times. null: no message has shown it yet."
        ),
    ]
    error: Annotated[str | None, about("Why the job's topics cannot be read at this moment.")]
    kafka: Annotated[Answers, about("Of the cluster with the job's topics.")]
    log_kafka: Annotated[
        Answers | None, about("Of the cluster with the offsets topic; null: it is the same one.")
    ]
    known_until_ms: Annotated[
        TimeMs | None,
        about(
            "Groups, conditions and events are known up to this time, by the job's clock; ages count to "
            "here. null: not known."
        ),
    ]
    caught_up_ms: TimeMs | None
    job: Job
    conditions: Annotated[dict[str, int], about("Conditions of groups by severity.")]
    history_ms: Annotated[int, about("How long events stay in the history.")]
    history_since_ms: Annotated[TimeMs | None, about("When its oldest event happened.")]
    history_until_ms: Annotated[TimeMs | None, about("When its newest event was written.")]
    history_error: str | None


class Clusters(msgspec.Struct):
    """The clusters that are served."""

    clusters: list[Cluster]
    now_ms: TimeMs
