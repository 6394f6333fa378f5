"""Which groups are described."""

from __future__ import annotations

from pathlib import Path

from support.histories.builders import emptied, generation, gone, member
from support.job.described_groups import AT, found


def test_deleted_groups_are_not_listed(tmp_path: Path) -> None:
    """A group that is gone is not shown as Dead."""
    after = found(tmp_path, generation(1, member("a"), at=AT), emptied(2, at=AT + 1), gone(at=AT + 2))
    assert [group["group_id"] for group in after] == ["simple"]
