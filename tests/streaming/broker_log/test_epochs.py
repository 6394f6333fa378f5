"""Why epochs rose: the lines that Kafka 3.9.1 and 4.4.0 write about groups of the newer kinds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from groupreplay.state.policy.broker_log import GroupLog, LoggedEpoch
from groupreplay.streaming.broker_log.epochs import Epochs
from groupreplay.streaming.broker_log.lines import broker_line

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
