"""``groupreplay watch``: the events of a cluster from an engine in this process, and its pages and metrics."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from groupreplay.app.cli.command import is_typed, with_settings
from groupreplay.app.cli.flags import (
    ClusterFlags,
    allowed_hosts_flag,
    cluster_flags,
    labels_flag,
    member_events_flag,
    redaction_flags,
    retention_flags,
    rules_flags,
    token_file_flag,
)
from groupreplay.app.cli.options import (
    file_flag,
    flag,
    groups_flag,
    listen_address,
    output_flag,
    repeated_flag,
    severity_flag,
    switch,
    time_flag,
    time_zone_flag,
)
from groupreplay.app.cli.outlets import OutputFlags, output_flags
from groupreplay.app.cli.printing_flags import EventLines, TimeRange, event_filter, live_end, time_range
from groupreplay.app.text.times import GivenTime
from groupreplay.streaming.base.clock import TimeZone

if TYPE_CHECKING:
    from groupreplay.app.exporter.feed import Feed
    from groupreplay.app.serve.answers import GroupLag
    from groupreplay.app.serve.group_answers import KeptAnswers
    from groupreplay.app.serve.local_feed import LocalFeed
    from groupreplay.app.serve.watched_cluster import TopicRecorder, WatchedCluster
    from groupreplay.state.policy.context import Redaction
    from groupreplay.streaming.base.process import StopRequest
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.config.settings import RetentionFlags
    from groupreplay.streaming.sinks.event_topic import EventChoice
    from groupreplay.streaming.watch.beginning import LogGoneError, WatchSettings
    from groupreplay.streaming.watch.follower import Follower
    from groupreplay.streaming.watch.polls import Outcome

#: The flags that have no meaning without pages, by their names in click.
_OF_PAGES: Mapping[str, str] = {"auth_token_file": "--auth-token-file", "allowed_host": "--allowed-host"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchFlags:
    """The flags of ``watch``."""

    source: ClusterFlags = cluster_flags()
    state: Path | None = file_flag(
        "SQLite file that remembers the state and what was read: a restart goes on where it ended."
    )
    since: GivenTime | None = time_flag(
        "Also events of the past at or after this time, as far as the topic has them; by default only new ones."
    )
    zone: TimeZone = time_zone_flag()
    groups: Sequence[str] = groups_flag("Print only this group")
    types: Sequence[str] = repeated_flag(
        "Print only these events, for example rebalance.stuck; may be repeated.", "--type", "EVENT"
    )
    min_severity: str = severity_flag()
    output: Literal["table", "jsonl"] = output_flag("table", "jsonl")
    outputs: OutputFlags = output_flags()
    listen: tuple[str, int] | None = flag(
        "Also serve pages, an API and metrics at this address. One that other machines reach needs --auth-token-file.",
        type=listen_address,
        metavar="HOST:PORT",
    )
    auth_token_file: Path | None = token_file_flag()
    allowed_hosts: Sequence[str] = allowed_hosts_flag()
    probe: bool = flag(
        "Ask the brokers which classic groups are rebalancing.", "--probe/--no-probe", default=True
    )
    probe_interval: float = flag(
        "Time between two probes.", type=click.FloatRange(min=1), default=10.0, metavar="SECONDS"
    )
    ends: bool = flag(
        "Let the prober record the ends of partitions, for the lag of groups on the pages.",
        "--ends/--no-ends",
        default=True,
    )
    ends_interval: float = flag(
        "Time between two records of the ends.", type=click.FloatRange(min=1), default=30.0, metavar="SECONDS"
    )
    admin_only: bool = switch(
        "Read no topic: report which classic groups are stuck, by the Admin API alone. For clusters that hide "
        "__consumer_offsets."
    )
    retention: RetentionFlags = retention_flags()
    member_events: bool = member_events_flag()
    labels: Mapping[str, str] = labels_flag()
    redaction: Redaction | None = redaction_flags()
    rules: RulesSource = rules_flags()

    def watch_settings(self, times: TimeRange) -> WatchSettings:
        """What the engine is started with.

        Raises:
            UsageError: no cluster is named.
            GroupReplayError: a file cannot be used.
        """
        from groupreplay.streaming.watch.beginning import WatchSettings

        return WatchSettings(
            source=self.source.need(),
            state=self.state,
            since_ms=times.since_ms,
            probe_interval_seconds=self.probe_interval if self.probe else None,
            retention=self.retention,
            policy=self.rules.load(),
            labels=self.labels,
            redaction=self.redaction,
            member_events=self.member_events,
            admin_only=self.admin_only,
            # Only pages show them.
            ends_interval_seconds=self.ends_interval if self.ends and self.listen is not None else None,
        )


@with_settings("watch", WatchFlags)
def command(settings: WatchFlags) -> int:
    """Follow a cluster in this one process, without Spark, and print events as they happen.

    Reads __consumer_offsets from its begin, without joining a consumer group, and asks the brokers which groups are
    rebalancing. Writes nothing to the cluster: it needs Read on that topic, and Describe on groups and topics. The
    events have the ids that run gives them. docs/watch.md has its limits, and when run is the better choice.
    """
    from groupreplay.streaming.base.process import stop_requests
    from groupreplay.streaming.sinks.event_topic import EventChoice, Wanted
    from groupreplay.streaming.watch.beginning import LogGoneError

    if settings.admin_only and not settings.probe:
        raise click.UsageError("--admin-only is the prober alone: leave out --no-probe.")
    if settings.listen is None and (useless := [name for key, name in _OF_PAGES.items() if is_typed(key)]):
        raise click.UsageError(f"{useless[0]} has no meaning without --listen.")
    token = None
    if settings.listen is not None:
        # Here: without --listen nothing of the extra serve is needed.
        from groupreplay.app.serve.guard import need_token

        token = need_token(settings.listen[0], settings.auth_token_file)
    times = time_range(settings.since, None, settings.zone, live_end)
    wanted = Wanted(groups=settings.groups, filter=event_filter(settings.types, settings.min_severity, times))
    chosen, watched = EventChoice(wanted), settings.watch_settings(times)
    gone: LogGoneError | None = None
    with stop_requests() as stop, closing(EventLines(times, settings.output, follows=True)) as lines:
        while not stop.made:
            try:
                _follow(settings, watched, chosen, lines, token, stop, gone)
            except LogGoneError as error:
                gone = error
    return stop.exit_code


def _follow(
    settings: WatchFlags,
    watched: WatchSettings,
    chosen: EventChoice,
    lines: EventLines,
    token: str | None,
    stop: StopRequest,
    after: LogGoneError | None,
) -> None:
    """Follows the log until ``stop``. Raises LogGoneError if it is another one then."""
    from groupreplay.streaming.watch.follower import opened

    outlets = settings.outputs.outlets(chosen.shows, watched.source)

    def deliver(outcome: Outcome) -> None:
        for take in takers:
            take(outcome)
        for event in outcome.events.values():
            if chosen.shows(event):
                lines.print(event)

    with ExitStack() as parts:
        takers = list[Callable[["Outcome"], None]]()
        follower = parts.enter_context(opened(watched, deliver, outlets, after))
        for outlet in outlets:
            outlet.start()
            parts.callback(outlet.close)
        takers += _pages(settings, follower, parts, token)
        follower.follow(stop)


def _pages(
    settings: WatchFlags, follower: Follower, parts: ExitStack, token: str | None
) -> list[Callable[[Outcome], None]]:
    """Starts the pages, if they are wanted; returns what must get each poll."""
    from groupreplay.app.serve.history.file import remove_history

    if settings.listen is not None:
        return [_served(settings, settings.listen, follower, parts, token)]
    if settings.state is not None:
        # Without pages nobody writes on it, and it would have a gap.
        remove_history(_history_of(settings.state))
    return []


def _served(
    settings: WatchFlags, address: tuple[str, int], follower: Follower, parts: ExitStack, token: str | None
) -> Callable[[Outcome], None]:
    """Starts the server; returns what must get each poll.

    Raises:
        GroupReplayError: the address cannot be used.
    """
    from groupreplay.app.cli.commands.serve import say_address
    from groupreplay.app.exporter.http_server import open_server
    from groupreplay.app.serve.application import serve_application
    from groupreplay.app.serve.group_answers import KeptAnswers

    answers = KeptAnswers()
    cluster, feed = _cluster(settings, follower, answers, parts)
    application = serve_application(
        [cluster], follower.clock.now_ms, token=token, hosts=[*settings.allowed_hosts, address[0]]
    )
    server = open_server(application, *address)
    feed.take(follower.documents())
    for start, end in ((cluster.start, cluster.streams.close), (server.start, server.close)):
        start()
        parts.callback(end)
    say_address(server.address, token)
    return _taking(follower, answers, feed)


def _taking(follower: Follower, answers: KeptAnswers, feed: LocalFeed) -> Callable[[Outcome], None]:
    """Hands each poll on to the pages; they are shown when the log was read to its end."""
    from groupreplay.streaming.engine.probe_rows import ProbeFilter
    from groupreplay.streaming.watch.own_messages import OWN_TOPIC

    probe_filter = ProbeFilter(topic=OWN_TOPIC, cluster_id=follower.identity.cluster_id)

    def take(outcome: Outcome) -> None:
        with answers.lock:
            for batch in outcome.messages:
                answers.take(batch, probe_filter)
            answers.known_ms = follower.clock.now_ms()
        feed.take(outcome.rows)
        if follower.report.caught_up_ms is not None:
            feed.complete()

    return take


def _lag(follower: Follower, group_id: str) -> GroupLag | None:
    """The lag of a group now, by the ends that the prober has found; None: it has found none."""
    from groupreplay.app.inspection.group_lag import group_lag, lag_fields
    from groupreplay.app.serve.answers import GroupLag

    group = follower.polls.engine.group(group_id)
    if group is None or not follower.ends:
        return None
    at_ms = follower.clock.now_ms()
    records, time, unknown = group_lag(follower.ends, at_ms, group.describe())
    return GroupLag(at_ms=at_ms, unknown=unknown, **lag_fields(records, time))


def _history_of(state: Path) -> Path:
    """The history of the pages, beside the state."""
    return state.with_name(f"{state.name}-history")


def _history(settings: WatchFlags, parts: ExitStack) -> Path:
    """The history of the pages; without a state it ends with the process."""
    if settings.state is not None:
        return _history_of(settings.state)
    folder = parts.enter_context(tempfile.TemporaryDirectory(prefix="groupreplay-watch-"))
    return Path(folder) / "history.db"


def _cluster(
    settings: WatchFlags, follower: Follower, answers: KeptAnswers, parts: ExitStack
) -> tuple[WatchedCluster, LocalFeed]:
    """The cluster as pages show it, and where its messages go."""
    from groupreplay.app.exporter.feed import Limits
    from groupreplay.app.exporter.lag_watch import LagWatch
    from groupreplay.app.serve.history.writer import Bounds
    from groupreplay.app.serve.local_feed import LocalFeed
    from groupreplay.app.serve.watched_cluster import ClusterToServe, WatchedCluster
    from groupreplay.state import OFFSETS_TOPIC
    from groupreplay.streaming.config.settings import TopicNames

    source, identity, topics = follower.settings.source, follower.identity, TopicNames()
    clock = follower.clock.now_ms
    feeds = list[LocalFeed]()

    def feed_of(recorder: TopicRecorder) -> Feed:
        places = [(OFFSETS_TOPIC, number) for number in range(identity.partitions)]
        feeds.append(LocalFeed(recorder, topics, identity.era, places, clock))
        return feeds[0]

    cluster = WatchedCluster(
        ClusterToServe(name="kafka", source=source, sink=source, topics=topics),
        _history(settings, parts),
        Bounds(age_ms=7 * 86_400_000, size_bytes=1 << 30),
        Limits(),
        clock,
        redaction=settings.redaction,
        feed_of=feed_of,
        answers=answers,
        ends_of=follower.ends.spans,
        lag_watch=LagWatch(source, lambda: follower.ends, clock, Limits().max_groups)
        if settings.ends
        else None,
        lag_of=partial(_lag, follower),
    )
    parts.callback(cluster.close)
    return cluster, feeds[0]
