"""The jars of the Kafka releases on which only tests run."""

from __future__ import annotations

import re

from groupreplay.streaming.local.jars import SETS
from support.broker_releases.release_jars import RELEASES, locked_releases


def test_every_release_is_locked() -> None:
    """The kept list has exactly the releases of the table, their roots, and a sha256 for every jar."""
    locked = locked_releases()
    assert locked.keys() == RELEASES.keys()
    for name, jars in locked.items():
        assert {*RELEASES[name].closure, *RELEASES[name].alone} <= jars.keys()
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in jars.values())


def test_no_release_is_listed_twice() -> None:
    """A release of the package's list, which is in the wheel, is not in the list of the tests."""
    assert RELEASES.keys() & SETS.keys() == set()
