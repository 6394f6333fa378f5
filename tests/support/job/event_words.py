"""What each kind of event reads like on the terminal: name, fields, and the words behind the name."""

from __future__ import annotations

from typing import Any

MEMBER = {"member_id": "m-1", "client_id": "pods-7", "client_host": "/10.0.0.7", "instance_id": None}
STUCK = {
    "status": "firing",
    "state": "Reconciling",
    "reason": "not_revoked",
    "wedged": False,
    "elapsed_ms": 180_000,
}
UNTIMED = "pods-7 on 10.0.0.7 (holds partitions)"
ROUND = {"generation": 3, "member_count": 2, "joined": [], "left": [], "trigger": "unknown", "sync_ms": None}
#: (name, fields, words)
WORDS: list[tuple[str, dict[str, Any], str]] = [
    ("group.created", {"generation": None, "simple": True}, "by an offset commit, without members"),
    ("group.created", {"generation": 0}, "generation 0, before the first member's join is complete"),
    ("group.created", {"generation": 2, "group_type": "consumer"}, "consumer group, epoch 2"),
    (
        "group.converted",
        {"generation": 5, "from_type": "classic", "to_type": "consumer"},
        "classic to consumer, generation 5",
    ),
    (
        "rebalance.started",
        {"generation": 3, "trigger": "member_joined", "rebalance_id": "x"},
        "epoch 3, trigger member_joined",
    ),
    (
        "rebalance.started",
        {"generation": None, "trigger": "unknown", "rebalance_id": "x"},
        "seen by the prober; the log shows it when it is over",
    ),
    ("group.emptied", {"generation": 4}, "the last member has gone, generation 4"),
    ("group.deleted", {"generation": 4}, "the group is gone, after generation 4"),
    ("group.deleted", {"generation": None}, "the group is gone"),
    (
        "group.deleted",
        {"generation": None, "assumed": {"check_interval_ms": 600_000}},
        "the group is gone, assumed: check interval 10 min 0 s",
    ),
    (
        "offsets.expired",
        {
            "partition_count": 1,
            "reason": "retention",
            "rule": "classic, Empty",
            "base": "emptied",
            "assumed": {"retention_ms": 604_800_000},
        },
        "1 partition, retention; rule: classic, Empty, counted from when the group became Empty, "
        "assumed: retention 7 d 0 h",
    ),
    (
        "offsets.expired",
        {"partition_count": 1, "reason": "retention", "unclear": True, "assumed_release": "3.2 or later"},
        "1 partition, retention; only the coordinator knows whether it protects them, "
        "assumed: rules of Kafka 3.2 or later",
    ),
    (
        "offsets.deleted",
        {"partition_count": 1, "reason": "group_deleted", "assumed": {"retention_ms": 604_800_000}},
        "1 partition, group deleted; or they have expired, assumed: retention 7 d 0 h",
    ),
    ("offsets.deleted", {"partition_count": 1, "reason": "admin", "assumed": {}}, "1 partition, admin"),
    (
        "rebalance.completed",
        {**ROUND, "joined": ["m-1"], "trigger": "member_joined", "sync_ms": 12, "partitions_moved": 2},
        "generation 3, 2 members (+1), trigger member_joined, 2 partitions moved",
    ),
    (
        "rebalance.completed",
        {
            "generation": 2,
            "member_count": 1,
            "trigger": "unknown",
            "sync_ms": 24,
            "previous_generation": 1,
            "duration_upper_bound_ms": 354_124,
            "silent_ms": 305_000,
        },
        "generation 2, 1 member, trigger unknown, took at most 5 min 54 s (since generation 1, no "
        "commits for 5 min 5 s of it)",
    ),
    (
        "commits.paused",
        {
            "status": "resolved",
            "since_ms": 91_000,
            "until_ms": 396_000,
            "elapsed_ms": 305_000,
            "usual_gap_ms": 8_192,
            "partition_count": 6,
        },
        "no commit from 00:01:31.000 to 00:06:36.000 UTC (5 min 5 s) on 6 partitions, usually one every 8.2 s",
    ),
    (
        "offsets.deleted",
        {"partition_count": 3, "reason": "unknown", "partitions": []},
        "3 partitions, by a request or with their topic (the log does not show which)",
    ),
    (
        "static.replaced",
        {"instance_id": "i", "old_host": "/h", "new_host": "/h", "rebalanced": True},
        "i came back as a new process, in a rebalance",
    ),
    (
        "rebalance.completed",
        {**ROUND, "join_ms_min": 2_000, "join_ms_max": 12_000, "sync_ms": 12},
        "generation 3, 2 members, trigger unknown, took 2.0 s .. 12.0 s",
    ),
    (
        "rebalance.completed",
        {**ROUND, "join_ms_min": 0, "join_ms_max": 3_000},
        "generation 3, 2 members, trigger unknown, took at most 3.0 s",
    ),
    (
        "rebalance.completed",
        {
            **ROUND,
            "sync_ms": 8_001,
            "duration_upper_bound_ms": 7,
            "leader": "m-1",
            "members": [{"member_id": "m-1", "client_id": "app-a", "client_host": "/h", "instance_id": None}],
        },
        "generation 3, 2 members, trigger unknown, took 8.0 s, waited 8.0 s for the assignment of the leader, "
        "app-a on h",
    ),
    (
        "rebalance.completed",
        {**ROUND, "member_count": 1, "joined": ["a"], "left": ["b", "c"], "partitions_unassigned": 1},
        "generation 3, 1 member (+1 -2), trigger unknown, 1 partition without an owner",
    ),
    (
        "rebalance.completed",
        {**ROUND, "joined": None, "left": None, "skipped_generations": 2},
        "generation 3, 2 members, trigger unknown, 2 generations never completed",
    ),
    (
        "member.left",
        {**MEMBER, "reason": "session_timeout", "elapsed_ms": 6100},
        "pods-7 on 10.0.0.7, reason session_timeout, last seen 6.1 s before",
    ),
    (
        "member.left",
        {
            **MEMBER,
            "reason": "session_timeout",
            "elapsed_ms": 47_000,
            "candidates": [{"reason": "session_timeout", "timeout_ms": 45_000, "words": "silent 47.0 s; …"}],
            "assumed": {"session_timeout_ms": 45_000},
        },
        "pods-7 on 10.0.0.7, reason session_timeout, last seen 47.0 s before (silent 47.0 s; …), "
        "assumed: session timeout 45.0 s",
    ),
    (
        "member.left",
        {
            **MEMBER,
            "reason": "unknown",
            "elapsed_ms": 47_000,
            "candidates": [{"reason": "left", "timeout_ms": None}, {"reason": "session_timeout"}],
        },
        "pods-7 on 10.0.0.7, reason unknown, last seen 47.0 s before, one of left, session_timeout",
    ),
    (
        "rebalance.completed",
        {
            "generation": 3,
            "member_count": 2,
            "members": [{**MEMBER, "member_id": "new"}],
            "joined": ["new"],
            "left": ["1", "2", "3", "4"],
            "gone": [{**MEMBER, "client_id": f"old-{n}", "reason": "session_timeout"} for n in range(4)],
            "trigger": "members_changed",
        },
        "generation 3, 2 members (+1 pods-7 on 10.0.0.7, -4 old-0 on 10.0.0.7 session timeout, old-1 on 10.0.0.7 "
        "session timeout, old-2 on 10.0.0.7 session timeout and 1 more), trigger members_changed",
    ),
    ("member.joined", MEMBER, "pods-7 on 10.0.0.7"),
    ("member.joined", {**MEMBER, "instance_id": "pod-7"}, "static member pod-7"),
    ("member.updated", {**MEMBER, "changed": ["client_host"]}, "pods-7 on 10.0.0.7, new client_host"),
    (
        "member.updated",
        {
            **MEMBER,
            "changed": ["client_host", "session_timeout_ms"],
            "old": {"session_timeout_ms": 45_000},
            "new": {"session_timeout_ms": 10_000},
        },
        "pods-7 on 10.0.0.7, new client_host, session_timeout (45.0 s, now 10.0 s)",
    ),
    (
        "static.replaced",
        {"instance_id": "pod-7", "old_host": "/10.0.0.7", "new_host": "/10.0.0.7"},
        "pod-7 came back as a new process, no rebalance needed",
    ),
    (
        "static.replaced",
        {"instance_id": "pod-7", "old_host": "/10.0.0.7", "new_host": "/10.0.0.8"},
        "pod-7 came back as a new process, no rebalance needed, moved from 10.0.0.7 to 10.0.0.8",
    ),
    (
        "record.malformed",
        {"topic": "__consumer_offsets", "partition": 3, "offset": 17, "reason": "too short", "suppressed": 4},
        "__consumer_offsets-3 offset 17, too short, and 4 more like it",
    ),
    (
        "offsets.expired",
        {
            "partition_count": 5,
            "reason": "retention",
            "partitions": [{"topic": "t", "partition": one, "offset": 7} for one in range(5)],
        },
        "5 partitions, retention: t-0 at 7, t-1 at 7, t-2 at 7",
    ),
    (
        "offsets.reset",
        {
            "partition_count": 1,
            "direction": "forward",
            "partitions": [{"topic": "t", "partition": 0, "lost_offset": 7, "new_offset": 9}],
        },
        "1 partition, forward: t-0 at 7 -> 9",
    ),
    (
        "offset.rewound",
        {
            "partition_count": 1,
            "kind": "topic_recreated",
            "partitions": [{"topic": "t", "partition": 0, "old_offset": 7, "new_offset": 0}],
        },
        "1 partition, topic recreated: t-0 at 7 -> 0",
    ),
    (
        "offsets.set",
        {
            "partition_count": 2,
            "direction": "mixed",
            "offsets_moved": 9,
            "interval_ms": None,
            "partitions": [
                {"topic": "t", "partition": 0, "from_offset": 7, "to_offset": 0, "topic_recreated": False},
                {"topic": "t", "partition": 1, "from_offset": 7, "to_offset": 9, "topic_recreated": False},
            ],
        },
        "2 partitions mixed, at most 9 records skipped or repeated: t-0 at 7 -> 0, t-1 at 7 -> 9",
    ),
    (
        "offsets.set",
        {
            "partition_count": 1,
            "direction": "forward",
            "offsets_moved": 1,
            "interval_ms": 60_000,
            "partitions": [{"topic": "t", "partition": 0, "from_offset": 7, "to_offset": 8}],
        },
        "1 partition forward, at most 1 record skipped, repeated every 1 min 0 s and not reported again: "
        "t-0 at 7 -> 8",
    ),
    (
        "offsets.set",
        {
            "partition_count": 1,
            "direction": None,
            "offsets_moved": None,
            "partitions": [{"topic": "t", "partition": 0, "from_offset": None, "to_offset": 8}],
        },
        "1 partition: t-0 at unknown -> 8",
    ),
    (
        "offsets.summary",
        {"expired": 5_000, "since_ms": 0, "until_ms": 86_400_000},
        "5000 groups that do not matter lost offsets to retention in one day",
    ),
    (
        "job.gap",
        {
            "reason": "topic_recreated",
            "partitions": [{"partition": 0, "read_to": 9, "log_start": 0, "log_end": 3}],
        },
        "the log is not the one that was read (topic recreated, 1 partition): the state is built anew",
    ),
    (
        "rebalance.slow",
        {"status": "firing", "state": "PreparingRebalance", "elapsed_ms": 75_000},
        "1 min 15 s so far, in PreparingRebalance",
    ),
    (
        "rebalance.slow",
        {"status": "resolved", "state": "PreparingRebalance", "elapsed_ms": 4_000_000},
        "resolved after 1 h 6 min",
    ),
    (
        "rebalance.stuck",
        {**STUCK, "blockers": [{**MEMBER, "revoking": {"orders": "0-3"}, "fenced_at_ms": 400_000}]},
        "3 min 0 s so far, in Reconciling, not revoked, blocked by pods-7 on 10.0.0.7 "
        "(holds orders 0-3, will be fenced at 00:06:40.000 UTC); next: take a thread dump of the first",
    ),
    (
        "rebalance.stuck",
        {**STUCK, "blockers": [{**MEMBER, "revoking": {}, "fenced_at_ms": None}] * 5},
        f"3 min 0 s so far, in Reconciling, not revoked, blocked by {'; '.join([UNTIMED] * 3)} and 2 more; "
        "next: take a thread dump of the first",
    ),
    (
        "rebalance.stuck",
        {**STUCK, "reason": "not_assigned", "candidates": [MEMBER] * 10},
        f"3 min 0 s so far, in Reconciling, not assigned, waits for one of {'; '.join(['pods-7 on 10.0.0.7'] * 3)} "
        "and at least 7 more, or for a new member; "
        "next: look at the log of the coordinator, whose broker groupreplay coordinator names",
    ),
    (
        "rebalance.stuck",
        {**STUCK, "wedged": True, "suspects": [{**MEMBER, "reason": "no_commit_since_start"}]},
        "3 min 0 s so far, in Reconciling, not revoked, longer than the protocol allows, "
        "suspects: pods-7 on 10.0.0.7 (no commit since start)",
    ),
    (
        "rebalance.stuck",
        {**STUCK, "suspects": [], "suspects_note": "commits cannot tell"},
        "3 min 0 s so far, in Reconciling, not revoked, no suspects: commits cannot tell",
    ),
    (
        "static.conflict",
        {"status": "firing", "instance_id": "pod-7", "places": ["b@/10.0.0.8", "a@/10.0.0.7"]},
        "instance pod-7 is used by more than one process: a on 10.0.0.7 and b on 10.0.0.8",
    ),
    (
        "static.crash_loop",
        {"status": "firing", "instance_id": "pod-7", "place": "b@/10.0.0.8", "restarted_ms": [1, 2, 3]},
        "instance pod-7 of b on 10.0.0.8, restarted 3 times",
    ),
    ("member.flapping", {**MEMBER, "status": "resolved"}, "resolved, pods-7 on 10.0.0.7"),
    ("partition.poison", {"status": "resolved", "topic": "orders", "partition": 3}, "resolved, orders-3"),
    (
        "job.blind",
        {"status": "firing", "what": "no_rights", "partitions": [], "brokers": [1, 2], "fix": "do this"},
        "no rights, brokers 1, 2; do this",
    ),
    ("weather.changed", {"wind": "west", "force": 5, "gusts": []}, "wind=west force=5"),
    ("weather.changed", {}, "no details"),
]
