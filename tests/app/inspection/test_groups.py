"""Which groups are described."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.app.inspection.groups import choose
from support.histories.builders import emptied, generation, gone, member
from support.job.described_groups import AT, found, stable


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
