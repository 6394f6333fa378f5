"""What went wrong in the last days: each episode once, with its sentence, also after a restart of the server."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from groupreplay.app.serve.history.episode_queries import EpisodesQuery, counts_of_groups, episodes
from groupreplay.app.serve.history.group_queries import GroupsQuery, groups
from groupreplay.app.serve.watched_cluster import WatchedCluster
from groupreplay.state.events.incident_events import Incident
from groupreplay.timeline.overview import GroupCount
from support.incident_stories import incident_events
from support.job.sink_messages import SINCE_MS, document, events, expired, stable, stuck
from support.populations import AT
from support.serve.asked_site import AskedSite
from support.serve.written_clusters import messages, served_cluster, states, take

NOW = SINCE_MS + 400_000
ALL = EpisodesQuery(since_ms=0, until_ms=NOW)


def write(cluster: WatchedCluster) -> None:
    """A group that is stuck, and one that has lost offsets and is well now."""
    (sick, said), (calm, calm_said) = stuck(), stable()
    take(cluster, states([("g", document(sick)), ("calm", document(calm, "calm"))]), NOW)
    told = [*events(said), *events(calm_said, "calm"), *events([expired(3)], "calm")]
    take(cluster, messages(told, NOW), NOW)


def names(cluster: WatchedCluster, query: EpisodesQuery) -> list[tuple[str, str]]:
    """Group and name of the episodes."""
    page = cluster.ask(lambda db: episodes(db, query))
    return [(episode.label, episode.name) for episode in page.episodes]


def test_an_episode_has_the_sentence_of_its_diagnosis(tmp_path: Path) -> None:
    """What holds has no end; a slow rebalance is no episode beside the stuck one that it became."""
    with served_cluster(tmp_path, NOW) as cluster:
        write(cluster)
        page = cluster.ask(lambda db: episodes(db, ALL))
        shown = {episode.label: (episode.name, episode.severity) for episode in page.episodes}
        assert shown == {"g": ("rebalance.stuck", "ERROR"), "calm": ("offsets.expired", "ERROR")}
        (sick,) = [episode for episode in page.episodes if episode.label == "g"]
        assert (sick.since_ms, sick.until_ms) == (SINCE_MS, None)
        # It is known to hold up to the newest event of the history, and not a minute longer.
        assert sick.text == "Stuck in a rebalance since 01:40:10, still at the end after 6 min 40 s."
        assert sick.parts[:3] == ["Stuck in a rebalance ", "since ", SINCE_MS]
        (lost,) = [episode for episode in page.episodes if episode.label == "calm"]
        assert lost.since_ms == lost.until_ms
        # Its event names no partition that a verdict could count: it has the words of its own.
        assert lost.text.startswith("3 partitions, retention")
        assert (page.matching, page.next) == (2, None)


def test_episodes_outlive_a_restart(tmp_path: Path) -> None:
    """They are those of the history's file."""
    with served_cluster(tmp_path, NOW) as cluster:
        write(cluster)
        before = cluster.ask(lambda db: episodes(db, ALL))
    with served_cluster(tmp_path, NOW) as cluster:
        assert cluster.ask(lambda db: episodes(db, ALL)) == before


def test_some_episodes(tmp_path: Path) -> None:
    """By group, by topic of a group that is there, by condition and time; page by page."""
    with served_cluster(tmp_path, NOW) as cluster:
        write(cluster)
        calm, sick = ("calm", "offsets.expired"), ("g", "rebalance.stuck")
        for search, expected in (("CALM", [calm]), ("stuck", [sick]), ("nobody", [])):
            assert names(cluster, EpisodesQuery(since_ms=0, until_ms=NOW, search=search)) == expected
        assert names(cluster, EpisodesQuery(since_ms=0, until_ms=1)) == []
        first = EpisodesQuery(since_ms=0, until_ms=NOW, limit=1)
        second = EpisodesQuery(since_ms=0, until_ms=NOW, limit=1, after=1)
        assert [*names(cluster, first), *names(cluster, second)] == names(cluster, ALL)


def test_groups_are_counted_by_what_is_worst(tmp_path: Path) -> None:
    """A group that lost its offsets in the last day is not healthy."""
    with served_cluster(tmp_path, NOW) as cluster:
        write(cluster)
        assert cluster.ask(counts_of_groups) == (
            GroupCount(leading="offsets.deleted", text="1 lost offsets", tone="error", groups=1),
            GroupCount(leading="rebalance.stuck", text="1 stuck", tone="error", groups=1),
        )


@pytest.mark.parametrize("event_id", ["a", "b", "c", "d"])
def test_the_count_is_that_of_the_row(tmp_path: Path, event_id: str) -> None:
    """Of several moments of one severity a row shows the last one, and the group is counted by the same."""
    told = [
        msgspec.json.decode(event) for event in (*events([expired(3)], "calm"), *events([expired(3)], "calm"))
    ]
    told[1] |= {"id": event_id, "type": "groupreplay.member.left.v1", "time": "1970-01-01T01:45:00.000Z"}
    with served_cluster(tmp_path, NOW) as cluster:
        take(cluster, states([("calm", document(stable()[0], "calm"))]), NOW)
        take(cluster, messages([msgspec.json.encode(event) for event in told], NOW), NOW)
        (row,) = cluster.ask(lambda db: groups(db, GroupsQuery())).groups
        (count,) = cluster.ask(counts_of_groups)
        assert row.trouble is not None
        assert (row.trouble.name, count.leading) == ("member.left", "member.left")


def test_incidents_of_many_groups(tmp_path: Path) -> None:
    """One, as it was reported last, with its severity; it is no episode of a group."""
    told, late_ms = incident_events(), AT + 3_600_000
    with served_cluster(tmp_path, late_ms) as cluster:
        for number, event in enumerate(told):
            take(cluster, messages([event], late_ms, number), late_ms)
            answer = AskedSite(late_ms, cluster).json("/api/incidents")
            body = msgspec.json.decode(event)
            fields = {field.name: body["data"][field.name] for field in dataclasses.fields(Incident)}
            assert answer["incidents"] == [{"severity": body["severitytext"], "incident": fields}]
            assert answer["episodes"] == []


def test_incidents_of_a_time(tmp_path: Path) -> None:
    """What was reported before the time that is asked for and still lasted in it is there, as an episode would be."""
    opened, resolved = incident_events()
    data = msgspec.json.decode(opened)["data"]
    lasts = msgspec.json.encode({**msgspec.json.decode(opened), "data": {**data, "until_ms": None}})
    late_ms = AT + 3_600_000

    def asked(since_ms: int, *told: bytes) -> list[str]:
        folder = tmp_path / f"{since_ms}-{len(told)}"
        folder.mkdir()
        with served_cluster(folder, late_ms) as cluster:
            take(cluster, messages(told, late_ms), late_ms)
            query = EpisodesQuery(since_ms=since_ms, until_ms=late_ms)
            page = cluster.ask(lambda db: episodes(db, query))
        return [one.incident.incident_id for one in page.incidents]

    assert asked(AT + 1_800_000, lasts) == [data["incident_id"]]
    assert asked(AT + 1_800_000, lasts, resolved) == []
    assert asked(AT, lasts, resolved) == [data["incident_id"]]
