"""Which groups are described."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.inspection.groups import choose, require
from groupreplay.streaming.kafka.clients import TopicIdentity
from support.histories.builders import emptied, generation, gone, member
from support.job.captures import CLUSTER_ID, ERA
from support.job.described_groups import found, stable

AT = 1_767_225_600_000
TIME = "2026-01-01T00:00:00.000Z"
WEEK_LATER = "2026-01-08T00:00:00.000Z"
BROKER = TopicIdentity(CLUSTER_ID, "__consumer_offsets", ERA, 50, {47: "h:9092 (1)"})


def test_deleted_groups_are_not_listed(tmp_path: Path) -> None:
    """A group that is gone is not shown as Dead."""
    after = found(tmp_path, generation(1, member("a"), at=AT), emptied(2, at=AT + 1), gone(at=AT + 2))
    assert [group["group_id"] for group in after] == ["simple"]


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ((), (), ["g", "simple"]),
        (("STABLE",), (), ["g"]),
        (("empty", "stable"), ("Classic",), ["g", "simple"]),
        (("preparingrebalance",), (), []),
        ((), ("share",), []),
        (("not_ready", "STA_BLE"), (), ["g"]),
    ],
)
def test_choice(tmp_path: Path, states: tuple[str, ...], types: tuple[str, ...], expected: list[str]) -> None:
    """States and types are compared as Kafka's tools do, whatever their case."""
    chosen = choose(stable(tmp_path), types=types, states=states)
    assert [group["group_id"] for group in chosen] == expected


def test_a_group_that_is_not_there(tmp_path: Path) -> None:
    """Asking for an unknown group is an error with an exit code, not an empty table."""
    groups = stable(tmp_path)
    names = [group["group_id"] for group in groups]
    require(names, ["g"], "here")
    with pytest.raises(GroupReplayError, match=r"there is no group 'x' \(here\)") as caught:
        require(names, ["g", "x"], "here")
    assert caught.value.exit_code is ExitCode.DATA
