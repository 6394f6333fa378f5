"""Lines that brokers of both coordinators wrote, why epochs rose, and what is said of files that cannot be used."""

from __future__ import annotations

import gzip
import logging
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from groupreplay.state.events.event import Requester
from groupreplay.state.policy.broker_log import GroupLog, LoggedDeparture, LoggedEpoch, LoggedPhase
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.broker_log.layouts import layout
from groupreplay.streaming.broker_log.lines import broker_line
from groupreplay.streaming.broker_log.reader import Epochs, read_broker_logs

A, B = (f"{name}-846e9d9d-eade-42be-a508-f60c98792d7{name}" for name in "ab")
#: Second of a minute -> message; as Kafka 3.9.1 writes them, and below as 4.3.1 does.
SCALA = {
    10: f"[GroupCoordinator 1]: Preparing to rebalance group my group in state PreparingRebalance with old generation "
    f"0 (__consumer_offsets-0) (reason: Adding new member {A} with group instance id None; client reason: not "
    "provided)",
    13: "[GroupCoordinator 1]: Stabilized group my group generation 1 (__consumer_offsets-0) with 2 members",
    14: f"[GroupCoordinator 1]: Assignment received from leader {A} for group my group for generation 1. The group "
    "has 2 members, 0 of which are static.",
    20: f"[GroupCoordinator 1]: Member {A} in group my group has failed, removing it from the group",
    21: f"[GroupCoordinator 1]: Preparing to rebalance group my group in state PreparingRebalance with old generation "
    f"1 (__consumer_offsets-0) (reason: removing member {A} on heartbeat expiration)",
    22: "[GroupCoordinator 1]: Stabilized group my group generation 2 (__consumer_offsets-0) with 1 members",
    23: f"[GroupCoordinator 1]: Assignment received from leader {B} for group my group for generation 2. The group "
    "has 1 members, 0 of which are static.",
    30: f"[GroupCoordinator 1]: Preparing to rebalance group my group in state PreparingRebalance with old generation "
    f"2 (__consumer_offsets-0) (reason: Removing member {B} on LeaveGroup; client reason: the consumer is being "
    "closed)",
    31: "[GroupCoordinator 1]: Group my group with generation 3 is now empty (__consumer_offsets-0)",
    32: f"[GroupCoordinator 1]: Member MemberMetadata(memberId={B}, groupInstanceId=None, clientId=b, "
    "clientHost=/127.0.0.1, sessionTimeoutMs=6000, rebalanceTimeoutMs=12000, supportedProtocols=List(range)) has left "
    "group my group through explicit `LeaveGroup`; client reason: the consumer is being closed",
}
_JAVA = "[GroupCoordinator id=1 topic=__consumer_offsets partition=0] "
JAVA = {
    at: _JAVA + text.removeprefix("[GroupCoordinator 1]: ").replace(" (__consumer_offsets-0)", "")
    for at, text in SCALA.items()
} | {
    30: f"{_JAVA}Preparing to rebalance group my group in state PreparingRebalance with old generation 2 (reason: "
    f"explicit `LeaveGroup` request for ({B}) members.).",
    32: f"{_JAVA}[Group my group] Member {B} has left group through explicit `LeaveGroup` request; client reason: the "
    "consumer is being closed",
}
MINUTE_MS = 1_789_999_980_000


def lines(messages: dict[int, str], layout: str = "[{}] INFO {} (kafka.Coordinator)") -> list[str]:
    """The lines of a log file."""
    return [layout.format(f"2026-09-21 14:13:{at:02},000", text) for at, text in messages.items()]


def write(path: Path, texts: list[str]) -> Path:
    """A log file, compressed if its name says so."""
    content = "".join(f"{text}\n" for text in texts).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def expected(left: str) -> GroupLog:
    """What both say; ``left`` is the reason of the last preparation."""

    def phase(
        generation: int, began: int, ended: int, reason: str, trigger: object, leader: str
    ) -> LoggedPhase:
        times = {"began_ms": MINUTE_MS + began * 1_000, "ended_ms": MINUTE_MS + ended * 1_000}
        return LoggedPhase(
            generation=generation, reason=reason, trigger=trigger, broker="1", leader=leader, **times
        )  # type: ignore[arg-type]

    joined = f"Adding new member {A} with group instance id None; client reason: not provided"
    return GroupLog(
        phases=(
            phase(1, 10, 13, joined, "member_joined", A),
            phase(2, 21, 22, f"removing member {A} on heartbeat expiration", "member_left", B),
            phase(3, 30, 31, left, "member_left", ""),
        ),
        departures={
            A: LoggedDeparture(
                reasons=frozenset({"session_timeout"}), words="the coordinator logged that its session ended"
            ),
            B: LoggedDeparture(
                reasons=frozenset({"left"}),
                words="the coordinator logged its LeaveGroup with the client's reason “the consumer is being closed”",
            ),
        },
    )


EXPECTED = {
    "scala": (
        SCALA,
        expected(f"Removing member {B} on LeaveGroup; client reason: the consumer is being closed"),
    ),
    "java": (JAVA, expected(f"explicit `LeaveGroup` request for ({B}) members.")),
}


@pytest.mark.parametrize("coordinator", EXPECTED)
def test_the_lines_of_both_coordinators(tmp_path: Path, coordinator: str) -> None:
    """Join phases with reason, length and leader, and who left why; a group's id may have blanks."""
    messages, group_log = EXPECTED[coordinator]
    path = write(tmp_path / "server.log", lines(messages))
    assert read_broker_logs([path]).groups == {"my group": group_log}


def test_rotated_files_in_any_order(tmp_path: Path) -> None:
    """By the times of their lines, not by their names; compressed ones are read as they are."""
    texts = lines(JAVA)
    parts = [texts[:3], texts[3:6], texts[6:]]
    names = ["server.log.2026-09-21-12", "server.log.2026-09-21-13.gz", "server.log"]
    paths = [write(tmp_path / name, part) for name, part in zip(names, parts, strict=True)]
    random.Random(1).shuffle(paths)
    assert read_broker_logs(paths).groups == {"my group": EXPECTED["java"][1]}


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        (
            "[GroupId g] Member m/+ fenced from the group because the member session expired.",
            {"session_timeout"},
        ),
        (
            "[GroupId g] Member m/+ fenced from the group because it failed to transition from epoch 3 within 12ms.",
            {"rebalance_timeout"},
        ),
        ("[GroupId g] Member m/+ left the consumer group.", {"left", "poll_timeout"}),
        ("Group g removed dynamic members who haven't joined: [x, m/+]", {"rebalance_timeout"}),
        (
            "[Group g] Member m/+ has left group through explicit `LeaveGroup` request; client reason: not provided",
            {"left", "poll_timeout"},
        ),
        (
            "[Group g] Member m/+ has left group through explicit `LeaveGroup` request; client reason: consumer poll "
            "timeout has expired.",
            {"poll_timeout"},
        ),
    ],
)
def test_why_a_member_is_gone(tmp_path: Path, text: str, reasons: set[str]) -> None:
    """As Kafka 4.3.1 words it. A client that gives no reason may also have given up."""
    path = write(tmp_path / "server.log", lines({1: _JAVA + text}))
    assert read_broker_logs([path]).of("g").departures["m/+"].reasons == reasons


def test_who_asked(tmp_path: Path) -> None:
    """Commits count while the group has no members; denied requests do not, and a request counts once."""

    def asked(principal: str, request: str, allowed: str = "Allowed") -> str:
        return (
            f"Principal = User:{principal} is {allowed} operation = READ from host = 10.0.0.5 on resource = Group:"
            f"LITERAL:my group for request = {request} with resourceRefCount = 1 based on rule SuperUser"
        )

    requests = {
        9: asked("before", "OffsetCommit"),
        15: asked("member", "OffsetCommit"),
        33: asked("tool", "OffsetCommit"),
        34: asked("alice", "DeleteGroups"),
        35: asked("alice", "DeleteGroups"),
        36: asked("mallory", "DeleteGroups", "Denied"),
    }
    paths = [write(tmp_path / "server.log", lines(JAVA)), write(tmp_path / "authorizer.log", lines(requests))]
    hosts = {
        request: sorted(sender.principal for sender in senders)
        for request, senders in read_broker_logs(paths).of("my group").requesters.items()
    }
    assert hosts == {"OffsetCommit": ["User:before", "User:tool"], "DeleteGroups": ["User:alice"]}
    (alice,) = read_broker_logs(paths).of("my group").requesters["DeleteGroups"]
    assert alice == Requester(principal="User:alice", client_host="10.0.0.5")


def test_a_truncated_archive(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The lines before the damage count, and a sentence names the file."""
    path = write(tmp_path / "server.log.gz", lines(JAVA) + lines({59: "x" * 50_000}))
    path.write_bytes(path.read_bytes()[:-30])
    with caplog.at_level(logging.WARNING):
        assert read_broker_logs([path]).groups == {"my group": EXPECTED["java"][1]}
    assert caplog.messages == [
        f"{path}: the archive is damaged (Compressed file ended before the end-of-stream marker was reached); "
        "the lines before the damage are used"
    ]


def test_files_of_other_layouts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Beside a log file a sentence; alone an error that names the flag, with which it can be read."""
    odd = write(tmp_path / "odd.log", lines(JAVA, "{}|{}"))
    with caplog.at_level(logging.WARNING):
        read_broker_logs([odd, write(tmp_path / "server.log", lines(JAVA))])
    assert caplog.messages == [f"{odd}: no line has a known layout, so the file is not used"]
    with pytest.raises(GroupReplayError, match="--broker-log-pattern"):
        read_broker_logs([odd])
    assert read_broker_logs([odd], layout("%d|%m%n")).groups == {"my group": EXPECTED["java"][1]}


def test_a_log_without_coordinator(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A sentence says at which level its lines are written."""
    path = write(tmp_path / "server.log", lines({1: "[KafkaServer id=1] started"}))
    with caplog.at_level(logging.WARNING):
        assert read_broker_logs([path]).groups == {}
    assert caplog.messages[0].startswith(f"{path}: no line is of a group coordinator; it writes them at INFO")


def test_a_log_of_another_cluster(tmp_path: Path) -> None:
    """The line of the start names the cluster: the other one is an error, its own is not."""
    start = "[BrokerLifecycleManager id=1] Incarnation W of broker 1 in cluster c1 is now STARTING."
    path = write(tmp_path / "server.log", lines({1: start, **JAVA}))
    with pytest.raises(GroupReplayError, match="the log is of the cluster c1, the records are of c2"):
        read_broker_logs([path], cluster_id="c2")
    assert [*read_broker_logs([path], cluster_id="c1").groups] == [*read_broker_logs([path]).groups]


def test_mutated_files(tmp_path: Path) -> None:
    """500 files with changed, removed and repeated bytes, plain and compressed: lines are lost, nothing else."""
    chance, path = random.Random(7), tmp_path / "server.log"
    for number in range(500):
        content = bytearray("".join(f"{text}\n" for text in lines(JAVA)).encode())
        if number % 2:
            content = bytearray(gzip.compress(bytes(content)))
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(len(content))
            content[place : place + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
        path.write_bytes(content)
        with suppress(GroupReplayError):  # no line has a known layout any more
            read_broker_logs([path])


JOINS = "[GroupId g] Member {} joins the consumer group using the consumer protocol."
TOPICS = "[GroupId g] Member {} updated its subscribed topics to: [t]."
BUMPED = "[GroupId g] Bumped group epoch to {} with metadata hash 5."
TARGET = "[GroupId g] Computed a new target assignment for epoch {} with 'uniform' assignor in 1ms."
LEFT = "[GroupId g] Member {} left the consumer group."
SCANNED = "[GroupId g] Scanned 5 topics to refresh regular expressions [(^t)] in 3ms."
HASH = "[GroupId g] Computed new metadata hash: 7."
JOINED_BY_CLASSIC = "[GroupId g] Member {} joins the consumer group using the classic protocol."
FENCED = (
    "[GroupId g][MemberId m] Streams member {} fenced from the group because the member session expired.."
)
CLASSIC_LEFT = (
    "[Group g] Dynamic Member {} has left group through explicit `LeaveGroup` request; client reason: bye"
)


def read(lines: Sequence[str]) -> list[tuple[int, str | None, tuple[str, ...]]]:
    """Epoch, trigger and the first words of each reason."""
    epochs = Epochs()
    for text in lines:
        line = broker_line(f"[GroupCoordinator id=1 topic=__consumer_offsets partition=0] {text}")
        assert line is not None, text
        epochs.add(line)
    return [(step.epoch, step.trigger, tuple(map(brief, step.reasons))) for step in epochs.logged]


def brief(reason: str) -> str:
    """Its first four words."""
    return " ".join(reason.split()[:4])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        # A member joins, another one, and one leaves: 4.x has a line of each epoch.
        (
            [
                *[JOINS.format("a"), TOPICS.format("a"), BUMPED.format(2), TARGET.format(2)],
                *[JOINS.format("b"), BUMPED.format(3), TARGET.format(3)],
                *[LEFT.format("b"), BUMPED.format(4), TARGET.format(4)],
            ],
            [
                (2, "member_joined", ("Member a joins the", "Member a updated its")),
                (3, "member_joined", ("Member b joins the",)),
                (4, "member_left", ("Member b left the",)),
            ],
        ),
        # No line of the epoch that a departure raised (3.9; share and streams groups), then another one.
        (
            [
                TARGET.format(7),
                LEFT.format("a"),
                HASH,
                LEFT.format("b"),
                JOINS.format("c"),
                BUMPED.format(10),
            ],
            [
                (8, "member_left", ("Member a left the",)),
                (9, "member_left", ("Member b left the",)),
                (10, "member_joined", ("Member c joins the",)),
            ],
        ),
        # One request removed two members.
        (
            [TARGET.format(7), LEFT.format("a"), LEFT.format("b"), BUMPED.format(8)],
            [(8, "member_left", ("Member a left the", "Member b left the"))],
        ),
        # The log begins in the middle; a member with the classic protocol in a consumer group of 3.9.
        ([CLASSIC_LEFT.format("a"), TARGET.format(5)], [(5, "member_left", ("Dynamic Member a has",))]),
        (
            [BUMPED.format(4), FENCED.format("a")],
            [
                (4, None, ("Bumped group epoch to",)),
                (5, "member_left", ("[MemberId m] Streams member",)),
            ],
        ),
        # Nobody did anything: topics or their partitions changed. Then what a regular expression stands for did.
        (
            [BUMPED.format(3), SCANNED, BUMPED.format(4), SCANNED, JOINS.format("a"), BUMPED.format(5)],
            [
                (3, None, ("Bumped group epoch to",)),
                (4, "subscription_changed", ("Scanned 5 topics to",)),
                (5, "member_joined", ("Member a joins the",)),
            ],
        ),
        # The first member's regular expression is resolved after it joined (4.3): the group began with epoch 1. The
        # group was deleted, and a member joins again in the same way.
        (
            [JOINS.format("a"), SCANNED, BUMPED.format(2), JOINS.format("b"), SCANNED, BUMPED.format(2)],
            [
                (1, "member_joined", ("Member a joins the",)),
                (2, "subscription_changed", ("Scanned 5 topics to",)),
                (1, "member_joined", ("Member b joins the",)),
                (2, "subscription_changed", ("Scanned 5 topics to",)),
            ],
        ),
        # Another member has raised that epoch (4.0).
        (
            [JOINS.format("a"), BUMPED.format(1), JOINS.format("b"), SCANNED, BUMPED.format(2)],
            [
                (1, "member_joined", ("Member a joins the",)),
                (2, "subscription_changed", ("Scanned 5 topics to",)),
            ],
        ),
        # A member that joins again raises nothing.
        (
            [TARGET.format(2), JOINED_BY_CLASSIC.format("a"), LEFT.format("a"), BUMPED.format(3)],
            [(3, "member_left", ("Member a left the",))],
        ),
    ],
)
def test_what_raised_an_epoch(
    lines: list[str], expected: list[tuple[int, str | None, tuple[str, ...]]]
) -> None:
    """Each epoch once, with what stands before it in the same step."""
    assert read(lines) == expected


def test_a_static_member_that_leaves_for_a_while() -> None:
    """It is not gone."""
    for release in ("Static member a with instance id i", "Static Member a with instance id i"):
        assert broker_line(f"[GroupId g] {release} temporarily left the consumer group.") is None
        line = broker_line(f"[GroupId g] {release} left the consumer group.")
        assert line is not None
        assert (line.members, line.values["instance"]) == (["a"], "i")


def test_a_number_that_was_used_twice() -> None:
    """The group was deleted and began again: that of the members in question counts, and none if that is in doubt."""
    first, again = (
        LoggedEpoch(2, (f"Member {name} joins",), "member_joined", "1") for name in ("id-1", "id-2")
    )
    log = GroupLog(epochs=(first, again, LoggedEpoch(3, ("Member c left",), "member_left", "1")))
    assert log.raised(2, 3, ["id-2", "id-3"]) == (again, log.epochs[2])
    assert (
        log.raised(2, 2, ["id-3"]) == log.raised(2, 2, ["id-1", "id-2"]) == log.raised(1, 3, ["id-1"]) == ()
    )


def test_an_epoch_that_no_line_names() -> None:
    """It counts if the member whose join it would be had it: the log may begin behind the epoch."""
    step = LoggedEpoch(1, ("Member a joins",), "member_joined", "1", member_id="a")
    log = GroupLog(epochs=(step,))
    assert (log.raised(1, 1, ["a", "b"]), log.raised(1, 1, ["b"])) == ((step,), ())
