"""``groupreplay.list_groups`` and ``groupreplay.describe``: the rows and documents of the commands."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

import groupreplay
from groupreplay.streaming.base.errors import GroupReplayError
from support.job.captures import invoke


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, ()),
        ({"types": ["classic"], "states": ["stable"]}, ("--type", "classic", "--state", "stable")),
        ({"group": ["mixed-000001", "*2"]}, ("--group", "mixed-000001", "--group", "*2")),
        ({"at": 1_767_225_700_000}, ("--at", "1767225700000")),
    ],
)
def test_the_groups_are_those_of_list(
    mixed: Path, arguments: dict[str, object], words: tuple[str, ...]
) -> None:
    """Of the whole capture, of some groups, and at a time."""
    done = invoke("list", "--from-file", mixed, "-o", "json", *words)
    found = groupreplay.list_groups(mixed, **arguments)  # type: ignore[arg-type]
    assert [asdict(group) for group in found] == json.loads(done.stdout)
    assert found


def test_the_document_is_that_of_describe(mixed: Path) -> None:
    """With members, offsets and conditions."""
    done = invoke("describe", "--from-file", mixed, "-o", "json", "--group", "mixed-000001")
    assert [groupreplay.describe(mixed, "mixed-000001")] == json.loads(done.stdout)


def test_one_group_is_described(mixed: Path) -> None:
    """No group and several groups are errors that name what is there."""
    with pytest.raises(GroupReplayError, match=r"there is no group .mixed-1. in .* did you mean mixed-"):
        groupreplay.describe(mixed, "mixed-1")
    with pytest.raises(
        GroupReplayError, match=r"groups match 'mixed-\*': mixed-000000, .*give the id of one"
    ):
        groupreplay.describe(mixed, "mixed-*")
