"""The history: equal to reading the topic, each event once, bounded, and begun again for another topic."""

from __future__ import annotations

import base64
import random
import sqlite3
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.app.serve.answers import StripSpan
from groupreplay.app.serve.history import event_queries, group_queries
from groupreplay.app.serve.history.rows import CommitCounts, unpacked
from groupreplay.app.serve.history.writer import used_bytes
from groupreplay.app.serve.watched_cluster import WatchedCluster
from support.job.sink_messages import SINCE_MS, document, events, expired, stable, stuck
from support.serve.written_clusters import DAY_MS, TOPICS, messages, served_cluster, states, take
from support.tools.hostile_json import BYTES

NOW = SINCE_MS + 400_000
TOLD = [*events(stuck()[1]), *events(stable()[1], "calm")]


def bodies(cluster: WatchedCluster) -> list[bytes]:
    """The stored events in their order."""
    return cluster.ask(
        lambda db: [unpacked(body) for (body,) in db.execute("SELECT body FROM events ORDER BY position")]
    )


def labels(cluster: WatchedCluster) -> set[str]:
    """The stored groups."""
    return cluster.ask(lambda db: {label for (label,) in db.execute("SELECT label FROM groups")})


@given(st.lists(st.lists(st.sampled_from(TOLD), max_size=6), max_size=6))
def test_equal_to_the_topic(tmp_path_factory: pytest.TempPathFactory, batches: list[list[bytes]]) -> None:
    """However the messages are divided and repeated: each event once, as it was first written."""
    with served_cluster(tmp_path_factory.mktemp("h"), NOW) as cluster:
        first = 0
        for batch in batches:
            take(cluster, messages(batch, NOW, first), NOW)
            first += len(batch)
        whole = [value for batch in batches for value in batch]
        assert bodies(cluster) == list(dict.fromkeys(whole))
        expected = {("group-events", 0): first} if first else {}
        assert cluster.history.begin(TOPICS) == expected


def test_what_is_no_message(tmp_path: Path) -> None:
    """Bytes of other programs are counted and left out, one by one; the rest is stored."""
    broken = [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b"null",
        TOLD[0].replace(b'"time"', b'"tame"'),
        TOLD[0].replace(b",", b",\n"),
    ]
    huge = TOLD[0].replace(b'"severitynumber":9', b'"severitynumber":' + b"9" * 30)
    hostile = [*broken, huge, *BYTES]
    with served_cluster(tmp_path, NOW) as cluster:
        take(cluster, messages([*hostile, None, TOLD[0]], NOW), NOW)
        take(cluster, states([("g", one) for one in hostile]), NOW)
        take(cluster, states([("other", document(stable()[0], "calm"))]), NOW)
        assert bodies(cluster) == [TOLD[0]]
        assert labels(cluster) == set()
        assert cluster.history.unreadable == 2 * len(hostile) + 2
        assert cluster.history.trouble == ""


def test_documents(tmp_path: Path) -> None:
    """A group has its last document; its tombstone, or a pass that does not find it, removes all of it."""
    sick, calm = document(stuck()[0]), document(stable()[0], "calm")
    with served_cluster(tmp_path, NOW) as cluster:
        take(cluster, states([("g", document(stable()[0])), ("g", sick), ("calm", calm)]), NOW)
        assert cluster.ask(lambda db: group_queries.document(db, "g")) == sick
        assert cluster.ask(group_queries.condition_counts) == {"ERROR": 1, "WARN": 1}
        take(cluster, states([("g", None)]), NOW)
        assert (labels(cluster), cluster.ask(group_queries.condition_counts)) == ({"calm"}, {})
        take(cluster, states([("g", sick)]), NOW)
        cluster.history.begin(TOPICS)
        take(cluster, states([("g", sick)]), NOW)
        assert labels(cluster) == {"g", "calm"}
        cluster.history.complete()
        assert labels(cluster) == {"g"}
        assert [shown.topic for shown in cluster.ask(lambda db: group_queries.topics(db, "", 9)).topics] == [
            "t"
        ]


def test_a_condition_of_others(tmp_path: Path) -> None:
    """What other programs write into the topic is shown only as far as the API promises it: suspects are objects."""
    written = msgspec.json.decode(document(stuck()[0]))
    (stuck_condition,) = (held for held in written["conditions"] if held["condition"] == "rebalance.stuck")
    stuck_condition["suspects"] = [7, None, {"member_id": "a"}]
    with served_cluster(tmp_path, NOW) as cluster:
        take(cluster, states([("g", msgspec.json.encode(written))]), NOW)
        shown = cluster.ask(lambda db: group_queries.conditions(db, 9))
        assert [(condition.name, condition.suspects) for condition in shown] == [
            ("rebalance.stuck", [{"member_id": "a"}]),
            ("rebalance.slow", []),
        ]


def test_conditions_as_spans(tmp_path: Path) -> None:
    """From the begin to the end, whichever event comes first; the highest severity counts."""
    fired, again = TOLD[3], msgspec.json.decode(TOLD[3])
    again["id"], again["time"] = "other", "1970-01-01T01:50:00.000Z"
    again["data"]["status"], again["severitynumber"] = "resolved", 13
    resolved = msgspec.json.encode(again)
    for number, order in enumerate(([fired, resolved], [resolved, fired])):
        with served_cluster(tmp_path, NOW, f"c{number}") as cluster:
            take(cluster, messages(order, NOW), NOW)
            (strip,) = cluster.ask(lambda db: event_queries.strips(db, 0, NOW * 2, ["g"], 9))
            assert strip.spans == [StripSpan(SINCE_MS, 6_600_000, "ERROR", "rebalance.stuck", False)]


def test_a_loss_is_a_moment_of_the_strip(tmp_path: Path) -> None:
    """It is no condition, and has its severity: the worst groups come first, and no loss is a healthy day."""
    lost = msgspec.json.decode(events([expired(3)])[0])
    deleted = {**lost, "id": "d", "type": "groupreplay.offsets.deleted.v1", "severitynumber": 9}
    deleted |= {"severitytext": "INFO", "data": {**lost["data"], "group_id": "deleted"}}
    told = [msgspec.json.encode(one) for one in (lost, deleted)]
    with served_cluster(tmp_path, NOW) as cluster:
        take(cluster, messages([*told, *events(stable()[1], "calm")], NOW), NOW)
        strips = cluster.ask(lambda db: event_queries.strips(db, 0, NOW * 2, [], 9))
    moments = [
        (strip.group_id, [(span.severity, span.condition, span.holds) for span in strip.spans])
        for strip in strips
    ]
    assert moments == [
        ("g", [("ERROR", "offsets.expired", False)]),
        ("deleted", [("INFO", "offsets.deleted", False)]),
        ("calm", []),
    ]
    assert all(span.since_ms == span.until_ms for strip in strips for span in strip.spans)


def test_bounded_by_age(tmp_path: Path) -> None:
    """What is older than the history is not taken, and what becomes older is removed."""
    now = 100 * DAY_MS
    with served_cluster(tmp_path, now, age_ms=DAY_MS) as cluster:
        take(cluster, messages(TOLD[:1], now - DAY_MS - 1), now)
        take(cluster, messages(TOLD[1:2], now - DAY_MS + 1), now)
        # Of a clock that is ahead: it counts as written now.
        take(cluster, messages(TOLD[2:3], now + 50 * DAY_MS), now)
        assert bodies(cluster) == TOLD[1:3]
        take(cluster, messages(TOLD[3:4], now + DAY_MS // 2), now + DAY_MS // 2)
        assert bodies(cluster) == TOLD[2:4]
        take(cluster, messages(TOLD[4:5], now + 2 * DAY_MS), now + 2 * DAY_MS)
        assert bodies(cluster) == TOLD[4:5]


def test_bounded_by_size(tmp_path: Path) -> None:
    """The oldest events go until the file is small enough; the newest stay."""
    template = msgspec.json.decode(TOLD[0])

    def made(number: int) -> bytes:
        # Text that cannot be compressed well.
        noise = base64.b85encode(random.Random(number).randbytes(1_600)).decode()
        return msgspec.json.encode(
            {**template, "id": str(number), "data": {**template["data"], "note": noise}}
        )

    size = 2 << 20
    with served_cluster(tmp_path, NOW, size_bytes=size) as cluster:
        for number in range(0, 3_000, 100):
            batch = [made(place) for place in range(number, number + 100)]
            take(cluster, messages(batch, NOW + number, number), NOW + number * 1_000)
        for _ in range(40):
            take(cluster, messages([made(3_000)], NOW + 3_000, 3_000), NOW + 7_000_000)
        kept = [int(msgspec.json.decode(body)["id"]) for body in bodies(cluster)]
        assert used_bytes(cluster.file.writer) <= size
        assert 100 < len(kept) < 3_000
        assert kept == [*range(kept[0], 3_001)]


def test_another_topic(tmp_path: Path) -> None:
    """A topic with another id has other offsets: nothing of the former one stays, also after a restart."""
    with served_cluster(tmp_path, NOW) as cluster:
        take(cluster, messages(TOLD, NOW), NOW)
        former = cluster.file.incarnation
        assert cluster.history.begin(TOPICS) == {("group-events", 0): len(TOLD)}
        assert cluster.history.begin({**TOPICS, "group-events": "F"}) == {}
        assert (bodies(cluster), cluster.file.incarnation != former) == ([], True)
        take(cluster, messages(TOLD[:2], NOW), NOW)
        assert bodies(cluster) == TOLD[:2]
    with served_cluster(tmp_path, NOW) as cluster:
        # served_cluster begins with the first topic again.
        assert bodies(cluster) == []


def test_a_restart(tmp_path: Path) -> None:
    """What was stored is there, and reading goes on behind it."""
    with served_cluster(tmp_path, NOW) as cluster:
        take(cluster, messages(TOLD, NOW), NOW)
        last = cluster.ask(event_queries.last_position)
    with served_cluster(tmp_path, NOW) as cluster:
        assert bodies(cluster) == TOLD
        assert cluster.history.begin(TOPICS) == {("group-events", 0): len(TOLD)}
        take(cluster, messages(TOLD, NOW), NOW)
        assert (bodies(cluster), cluster.ask(event_queries.last_position)) == (TOLD, last)


def test_a_full_disk(tmp_path: Path) -> None:
    """Nothing is stored by halves; reading has to begin again, and then all of it is there."""
    with served_cluster(tmp_path, NOW) as cluster:
        take(cluster, messages(TOLD[:1], NOW), NOW)
        pages = cluster.file.writer.execute("PRAGMA page_count").fetchone()[0]
        cluster.file.writer.execute(f"PRAGMA max_page_count = {pages}")
        take(cluster, states([(f"g{one}", document(stuck()[0], f"g{one}")) for one in range(200)]), NOW)
        assert "full" in cluster.history.trouble
        assert (bodies(cluster), labels(cluster)) == (TOLD[:1], set())
        cluster.file.writer.execute("PRAGMA max_page_count = 1000000")
        assert cluster.history.begin(TOPICS) == {("group-events", 0): 1}
        take(cluster, messages(TOLD, NOW), NOW)
        assert bodies(cluster) == TOLD


def test_readers_do_not_wait(tmp_path: Path) -> None:
    """A reader in the middle of a question sees one state, and the writer goes on meanwhile."""
    with served_cluster(tmp_path, NOW) as cluster:
        take(cluster, messages(TOLD[:1], NOW), NOW)
        with cluster.file.reader() as reader:
            assert len(event_queries.events(reader, event_queries.EventsQuery()).events) == 1
            take(cluster, messages(TOLD, NOW), NOW)
            assert len(event_queries.events(reader, event_queries.EventsQuery()).events) == 1
        assert len(
            cluster.ask(lambda db: event_queries.events(db, event_queries.EventsQuery())).events
        ) == len(TOLD)


def test_counts_of_commits(tmp_path: Path) -> None:
    """They come from another thread, with their time, and sort the groups with the next messages.

    A group that is not in them has no commit only if all partitions were read.
    """
    with served_cluster(tmp_path, NOW) as cluster:
        take(cluster, states([("a", document(stable()[0], "a")), ("b", document(stable()[0], "b"))]), NOW)
        for complete, none in ((True, 0), (False, None)):
            cluster.history.offer_counts(CommitCounts(NOW - 300, NOW, {"b": 7, "gone": 1}, complete))
            take(cluster, [], NOW)
            query = group_queries.GroupsQuery(sort="commits")
            page = cluster.ask(lambda db, query=query: group_queries.groups(db, query))
            assert (page.commits_since_ms, page.commits_until_ms) == (NOW - 300, NOW)
            counts = [(group.label, group.commits) for group in page.groups]
            assert counts == [("b", 7), ("a", none)]


def test_a_question_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ended with an error; the next one is answered."""
    monkeypatch.setattr("groupreplay.app.serve.history.file.QUERY_SECONDS", 0.2)
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    with served_cluster(tmp_path, NOW) as cluster:
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            cluster.ask(lambda db: db.execute(endless).fetchone())
        assert cluster.ask(event_queries.last_position) == 0
