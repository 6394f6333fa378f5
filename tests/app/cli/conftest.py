"""Captures that several commands read."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.codecs import GroupMetadataKey, encode_key
from support.histories.builders import asked_for, commit, generation, member
from support.histories.modern_builders import current, handover, operation
from support.histories.raw_records import Raw, commit_key
from support.job.captures import raw, write_capture

AT = 1_767_225_600_000
HOSTILE = "=x\x1b[31m\n\u202e"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A short life of group ``g``: created, two generations, a commit, empty."""
    life = [
        asked_for(at=AT),
        generation(1, member("a", [0, 1]), at=AT + 1_000),
        commit("t", 0, 5, at=AT + 2_000),
        generation(2, member("a", [0]), member("b", [1]), at=AT + 3_000),
    ]
    return write_capture(tmp_path / "a.parquet", raw(life))


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A group whose name would harm a terminal and a spreadsheet, and a record that is no record."""
    evil = member(HOSTILE, [0], topic=HOSTILE, instance_id=HOSTILE, client_id=HOSTILE, host=HOSTILE)
    key = encode_key(GroupMetadataKey(group=HOSTILE))
    life = raw([asked_for(at=AT), generation(1, evil, at=AT + 1, leader=HOSTILE)])
    rows = [*(one._replace(key=key) for one in life), Raw(0, 1, AT, commit_key(), b"\0\x03\x00")]
    return write_capture(tmp_path / "hostile.parquet", rows)


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    """Group ``g``, in which a member has kept a partition from another one for four minutes."""
    life = [*handover(AT), *operation(AT + 242_000, current("b", 3))]
    return write_capture(tmp_path / "stuck.parquet", raw(life))
