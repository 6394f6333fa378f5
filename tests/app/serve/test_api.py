"""The answers of the API, over its routes; each is compared with the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest

from groupreplay.app.serve.broker_watch import Answers
from groupreplay.app.serve.watched_cluster import WatchedCluster
from groupreplay.state.phrases import timestamp
from groupreplay.streaming.contract.messages import CONDITIONS_KEY, JOB_KEY
from groupreplay.streaming.sinks.known_groups import DAY_MS
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from support.job.sink_messages import (
    HOSTILE_IDS,
    SINCE_MS,
    document,
    events,
    expired,
    job_document,
    stable,
    stuck,
)
from support.serve.asked_site import AskedSite
from support.serve.written_clusters import messages, served_cluster, states, take

NOW = SINCE_MS + 400_000
NOT_ASKED = {"answered_ms": None, "since_ms": None, "error": None}
STUCK = "cd0aa9856147b6c5-rebalance.stuck-6010000"


@contextmanager
def two_groups(folder: Path) -> Iterator[WatchedCluster]:
    """A group that is stuck, and one that is well."""
    (sick, sick_events), (calm, calm_events) = stuck(), stable()
    with served_cluster(folder, NOW) as made:
        take(made, states([("g", document(sick)), ("calm", document(calm, "calm"))]), NOW)
        take(made, messages([*events(sick_events), *events(calm_events, "calm")], NOW), NOW)
        yield made


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedSite]:
    """A site of both groups, which is only read."""
    with two_groups(tmp_path_factory.mktemp("site")) as cluster:
        yield AskedSite(NOW, cluster)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[WatchedCluster]:
    """Both groups, for a test that writes."""
    with two_groups(tmp_path) as made:
        yield made


@pytest.fixture
def own_site(cluster: WatchedCluster) -> AskedSite:
    """Its site."""
    return AskedSite(NOW, cluster)


def labels(answer: dict[str, list[dict[str, str]]]) -> list[str]:
    """The groups of an answer."""
    return [one["label"] for one in answer["groups"]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["g", "calm"]),
        ("sort=group", ["calm", "g"]),
        ("sort=state", ["g", "calm"]),
        ("sort=members&limit=1", ["calm"]),
        ("sort=members&limit=1&cursor=1", ["g"]),
        ("sort=commits", ["calm", "g"]),
        ("sort=expires", ["calm", "g"]),
        ("search=CAL", ["calm"]),
        ("search=client-a", ["g", "calm"]),
        ("search=%25", []),
        ("state=Stable", ["calm"]),
        ("type=share", []),
        ("risk=rebalance.slow", ["g"]),
        ("risk=ERROR", ["g"]),
        ("risk=WARN", []),
        ("risk=any", ["g"]),
        ("cursor=2", []),
    ],
)
def test_groups(site: AskedSite, query: str, found: list[str]) -> None:
    """The worst first, or in the order that is asked for; a search finds members and topics, too."""
    assert labels(site.json(f"/api/groups?{query}")) == found


def test_a_page_of_groups(site: AskedSite) -> None:
    """It says how many there are, how many match by what they are, and where the next page begins."""
    page = site.json("/api/groups?limit=1")
    assert {name: page[name] for name in ("total", "matching", "facets", "next")} == {
        "total": 2,
        "matching": 2,
        "facets": {
            "state": {"PreparingRebalance": 1, "Stable": 1},
            "type": {"classic": 2},
            "risk": {"": 1, "rebalance.stuck": 1},
        },
        "next": "1",
    }
    assert site.json("/api/groups?limit=1&cursor=1")["next"] is None


def test_a_group(site: AskedSite) -> None:
    """With its conditions, the last rebalance of the history, and the document as the job wrote it."""
    found = site.json("/api/groups/g")
    shown = found["group"]
    assert [one["condition_id"] for one in shown.pop("conditions")] == [STUCK, STUCK.replace("stuck", "slow")]
    assert shown == {
        "label": "g",
        "group_id": "g",
        "type": "classic",
        "state": "PreparingRebalance",
        "generation": 5,
        "members": 2,
        "severity": "ERROR",
        "risk": "rebalance.stuck",
        "since_ms": SINCE_MS,
        "expires_ms": None,
        "offsets": 0,
        "rebalanced_ms": 6_000_000,
        "commits": None,
        "topics": ["t"],
        "trouble": None,
        "text": site.json("/api/conditions")["conditions"][0]["summary"],
    }
    assert found["document"] == msgspec.json.decode(document(stuck()[0]))
    assert site.get("/api/groups/nobody").status_code == 404
    assert site.get("/api/groups/g/nothing").status_code == 404


def test_a_group_that_has_lost_offsets(own_site: AskedSite, cluster: WatchedCluster) -> None:
    """It has no condition now, and is no healthy group for a day: what happened is named, and it comes first."""
    loss = msgspec.json.decode(events([expired(3)], "calm")[0])
    lost_ms = 6_200_000
    assert own_site.json("/api/groups/calm")["group"]["trouble"] is None
    loss["time"] = timestamp(lost_ms)
    take(cluster, messages([msgspec.json.encode(loss)], NOW, 50), NOW)
    shown = own_site.json("/api/groups/calm")["group"]
    assert shown["severity"] is None
    lost = shown["trouble"]
    assert (lost["name"], lost["at_ms"], lost["severity"]) == ("offsets.expired", lost_ms, "ERROR")
    assert shown["text"] == lost["text"] != ""
    assert labels(own_site.json("/api/groups")) == ["g", "calm"]
    later = {**loss, "id": "later", "time": timestamp(lost_ms + DAY_MS + 1), "subject": "g"}
    later["data"] = {**loss["data"], "group_id": "g"}
    take(cluster, messages([msgspec.json.encode(later)], NOW + DAY_MS, 51), NOW + DAY_MS)
    assert own_site.json("/api/groups/calm")["group"]["trouble"] is None


def test_conditions(site: AskedSite) -> None:
    """What holds, the worst first, each with its sentence."""
    found = site.json("/api/conditions")
    assert found["counts"] == {"ERROR": 1, "WARN": 1}
    assert [count["text"] for count in found["groups"]] == ["1 stuck", "1 healthy"]
    assert found["conditions"][0] == {
        "condition_id": STUCK,
        "name": "rebalance.stuck",
        "severity": "ERROR",
        "group_id": "g",
        "since_ms": SINCE_MS,
        "subject": "",
        "summary": "3 min 0 s so far, in PreparingRebalance, not joined, no suspects: no member has committed since "
        "the rebalance began, so commits do not show who blocks, waits for one of client-a on 10.0.0.1; client-b on "
        "10.0.0.1, or for a new member; next: a thread dump of each member shows which one does not return to poll()",
        "blockers": [],
        "suspects": [],
        "runbook": "docs/runbook.md#rebalance-stuck",
    }


def test_incidents(site: AskedSite) -> None:
    """What went wrong, by default in the time of the history; of the severity that is asked for."""
    found = site.json("/api/incidents")
    assert [(episode["group_id"], episode["name"]) for episode in found["episodes"]] == [
        ("g", "rebalance.stuck")
    ]
    assert found["until_ms"] == NOW
    assert site.json("/api/incidents?search=calm&min_severity=WARN")["episodes"] == []


def test_answers_are_compressed_for_those_who_can_read_that(site: AskedSite) -> None:
    """Pages, files and the API are, for a client that accepts it."""
    for path in ("/", "/static/echarts.min.js", "/api/openapi.json"):
        packed = site.client.get(path, headers={"accept-encoding": "gzip"})
        plain = site.client.get(path, headers={"accept-encoding": "identity"})
        assert (packed.headers.get("content-encoding"), packed.content == plain.content) == ("gzip", True)
        assert "content-encoding" not in plain.headers


def test_events_page_by_page(own_site: AskedSite, cluster: WatchedCluster) -> None:
    """All pages together are all events, newest first, each as it was written and once."""
    written = [*events(stuck()[1]), *events(stable()[1], "calm")]
    found, place = [], ""
    while True:
        page = own_site.json(f"/api/events?limit=2&cursor={place}")
        assert len(page["events"]) <= 2
        found += [one["event"] for one in page["events"]]
        place = page["next"]
        if place is None:
            break
    expected = [msgspec.json.decode(one) for one in written]
    assert sorted(found, key=lambda one: one["id"]) == sorted(expected, key=lambda one: one["id"])
    assert [one["time"] for one in found] == sorted((one["time"] for one in expected), reverse=True)
    assert cluster.history.unreadable == 0


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("group=g&min_severity=WARN", ["rebalance.stuck", "rebalance.slow"]),
        ("type=rebalance.s*&min_severity=ERROR", ["rebalance.stuck"]),
        ("group=c*&type=member.joined", ["member.joined"]),
        (f"since={SINCE_MS}&until={SINCE_MS + 1}", ["rebalance.started"]),
        ("group=nobody", []),
    ],
)
def test_some_events(site: AskedSite, query: str, found: list[str]) -> None:
    """By group, name, severity and time."""
    shown = site.json(f"/api/events?{query}")["events"]
    assert [one["event"]["type"].removeprefix("groupreplay.").rpartition(".")[0] for one in shown] == found


def test_strips(site: AskedSite) -> None:
    """What held and when rebalances were completed; the worst first, or the groups that are asked for."""
    found = site.json(f"/api/strips?since=0&until={NOW}")
    assert [one["group_id"] for one in found["strips"]] == ["g", "calm"]
    assert found["strips"][0]["spans"] == [
        [SINCE_MS, NOW, "WARN", "rebalance.slow", True],
        [SINCE_MS, NOW, "ERROR", "rebalance.stuck", True],
    ]
    assert sum(count for _, count in found["strips"][1]["rebalances"]) == 2
    asked = site.json("/api/strips?groups=calm&groups=nobody")
    assert [one["group_id"] for one in asked["strips"]] == ["calm", "nobody"]


def test_topics_and_expiries(own_site: AskedSite, cluster: WatchedCluster) -> None:
    """Who reads a topic, and whose offsets go next."""
    raw = msgspec.json.decode(document(stable()[0], "old"))
    raw["offsets"].update(partitions=3, next_expiry_ms=NOW + 2 * DAY_MS)
    take(cluster, states([("old", msgspec.json.encode(raw))]), NOW)
    topics = own_site.json("/api/topics?search=T")
    assert [(one["topic"], one["reader_count"]) for one in topics["topics"]] == [("t", 3)]
    assert [one["group_id"] for one in topics["topics"][0]["readers"]] == ["g", "calm", "old"]
    assert own_site.json("/api/topics?search=_")["topics"] == []
    assert own_site.json("/api/expiring")["days"] == [
        {
            "day": "1970-01-03",
            "group_count": 1,
            "offsets": 3,
            "groups": [{"group_id": "old", "expires_ms": NOW + 2 * DAY_MS, "offsets": 3}],
        }
    ]
    assert own_site.json(f"/api/expiring?until={NOW}")["days"] == []


def test_a_cluster_and_its_job(
    own_site: AskedSite, cluster: WatchedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the job's topics were read, why nothing is known; then the job's health and its own conditions."""
    (before,) = own_site.json("/api/clusters")["clusters"]
    assert (before["name"], before["cluster_id"], before["job"]["up"]) == ("kafka", None, None)
    # Of an old file with events it is known how new they are.
    assert (before["known_until_ms"], before["history_until_ms"]) == (None, NOW)
    assert before["job"]["error"] == "the job's topics have not been read to their ends yet"
    snapshot = TopicsSnapshot()
    snapshot.take_job(JOB_KEY, job_document(NOW))
    blind = {"conditions": [{"condition": "job.blind", "severity": "ERROR", "what": "query_stopped"}]}
    snapshot.take_job(CONDITIONS_KEY, msgspec.json.encode(blind))
    monkeypatch.setattr(cluster.feed, "_snapshot", snapshot)
    (after,) = own_site.json("/api/clusters")["clusters"]
    job = after["job"]
    assert (after["cluster_id"], after["conditions"]) == ("test-cluster", {"ERROR": 1, "WARN": 1})
    assert (job["up"], job["heartbeat_ms"], job["caught_up_ms"], job["behind_ms"]) == (
        True,
        NOW,
        NOW - 1_000,
        1_000,
    )
    assert (after["known_until_ms"], after["kafka"], after["log_kafka"]) == (NOW - 1_000, NOT_ASKED, None)
    assert job["conditions"] == [{"name": "job.blind", "severity": "ERROR", "what": "query_stopped"}]
    assert job["prober"] == {"round_ms": NOW - 2_000, "groups": 1, "brokers": 2, "silent_brokers": ["2"]}


@pytest.mark.parametrize(
    ("answers", "beat_ms", "up", "silent"),
    [
        (Answers(NOW, NOW - 90_000), NOW - 5_000, True, False),
        (Answers(NOW, NOW - 90_000), NOW - 60_000, False, True),
        # Kafka is back, and a job that runs may not have written yet.
        (Answers(NOW, NOW - 5_000), NOW - 60_000, None, True),
        (Answers(NOW - 50_000, NOW - 90_000, "no broker answers"), NOW - 60_000, None, None),
        (Answers(NOW - 1_000, NOW - 90_000, "no broker answers"), NOW - 5_000, None, None),
    ],
)
def test_whether_the_job_is_up(
    own_site: AskedSite,
    cluster: WatchedCluster,
    monkeypatch: pytest.MonkeyPatch,
    answers: Answers,
    beat_ms: int,
    up: bool | None,
    silent: bool | None,
) -> None:
    """It is down when Kafka answers and it writes nothing; while Kafka gives no answer, nobody knows.

    What is known of groups stays that of the last heartbeat.
    """
    snapshot = TopicsSnapshot()
    snapshot.take_job(JOB_KEY, job_document(beat_ms))
    monkeypatch.setattr(cluster.feed, "_snapshot", snapshot)
    cluster.watch.answers = answers
    (found,) = own_site.json("/api/clusters")["clusters"]
    assert (found["job"]["up"], found["job"]["silent"], found["error"]) == (up, silent, answers.error)
    assert found["kafka"] == asdict(answers)
    assert found["known_until_ms"] == beat_ms - 1_000


def test_a_history_that_cannot_be_written(
    own_site: AskedSite, cluster: WatchedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heartbeats are new and the documents are not: nobody knows up to when they are."""
    snapshot = TopicsSnapshot()
    snapshot.take_job(JOB_KEY, job_document(NOW))
    monkeypatch.setattr(cluster.feed, "_snapshot", snapshot)
    cluster.history.trouble = "database or disk is full"
    (found,) = own_site.json("/api/clusters")["clusters"]
    assert (found["known_until_ms"], found["history_error"]) == (None, "database or disk is full")


@pytest.mark.parametrize(
    "path",
    [
        "/api/groups?limit=0",
        "/api/groups?limit=1_0",
        "/api/groups?limit=" + "9" * 5_000,
        "/api/groups?sort=body",
        "/api/groups?what=1",
        "/api/groups?cursor=-1",
        "/api/events?since=x",
        "/api/events?since=-1",
        "/api/events?since=1&since=2",
        "/api/events?cursor=1",
        "/api/events?cursor=a.b",
        "/api/events?min_severity=FATAL",
        "/api/strips?since=5&until=5",
        "/api/groups/g/timeline?since=5&until=5",
        "/api/groups/%ff",
    ],
)
def test_what_is_not_understood(site: AskedSite, path: str) -> None:
    """400 with a sentence; nothing is guessed."""
    answer = site.get(path)
    assert (answer.status_code, list(answer.json())) == (400, ["error"])


def test_hostile_ids(own_site: AskedSite, cluster: WatchedCluster) -> None:
    """Groups with every kind of id are found by their label, and show their id unchanged."""
    group, told = stuck()
    take(cluster, states([(one, document(group, one)) for one in HOSTILE_IDS]), NOW)
    take(cluster, messages([value for one in HOSTILE_IDS for value in events(told[-1:], one)], NOW), NOW)
    shown = {one["label"]: one["group_id"] for one in own_site.json("/api/groups?limit=500")["groups"]}
    assert {*shown.values()} == {*HOSTILE_IDS, "g", "calm"}
    for label, group_id in shown.items():
        found = own_site.client.get(httpx_path("/api/groups/", label))
        assert (found.status_code, found.json()["group"]["group_id"]) == (200, group_id)
    assert own_site.client.get("/api/events?limit=500").status_code == 200
    assert own_site.client.get("/metrics").status_code == 200


def httpx_path(prefix: str, label: str) -> str:
    """A path with a label as one part of it."""
    from urllib.parse import quote

    return prefix + quote(label, safe="")


def test_several_clusters(tmp_path: Path, cluster: WatchedCluster) -> None:
    """A request names one; without a name it is about the first. Metrics are those of all of them."""
    with served_cluster(tmp_path, NOW, "other") as other:
        take(other, states([("far", document(stable()[0], "far"))]), NOW)
        both = AskedSite(NOW, cluster, other)
        assert [one["name"] for one in both.json("/api/clusters")["clusters"]] == ["kafka", "other"]
        assert labels(both.json("/api/groups?cluster=other")) == ["far"]
        assert labels(both.json("/api/groups")) == ["g", "calm"]
        assert both.get("/api/groups?cluster=third").status_code == 404
        text = both.client.get("/metrics").text
        assert text.count("groupreplay_exporter_ready 0.0") == 1
