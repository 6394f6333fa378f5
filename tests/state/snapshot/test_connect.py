"""Workers of Kafka Connect: what they run after each of its three protocols."""

from __future__ import annotations

import pytest

from groupreplay.state.snapshot.connect import Worker, read_worker
from support.histories.connect_blobs import OFFSET, URL, assignment, metadata, tasks


def test_eager_assignments_are_whole() -> None:
    """Protocol 0 contains the whole assignment; the connector itself is not one of its tasks."""
    given = assignment(0, tasks(sink=[-1, 0, 1], source=[3]))
    assert read_worker(metadata(0), given) == Worker(URL, OFFSET, ("sink",), {"sink": "0-1", "source": "3"})


@pytest.mark.parametrize("version", [1, 2])
def test_incremental_assignments_add_to_what_was_there(version: int) -> None:
    """The allocation before, less what is revoked, and what is new."""
    before = assignment(version, tasks(sink=[-1, 0, 1], source=[0]))
    given = assignment(version, tasks(other=[-1, 2]), tasks(sink=[-1, 1]))
    expected = Worker(URL, OFFSET, ("other",), {"other": "2", "sink": "0", "source": "0"})
    assert read_worker(metadata(version, before), given) == expected


def test_a_new_worker_ran_nothing() -> None:
    """Null for an allocation, null for lists: nothing is revoked, nothing is assigned."""
    assert read_worker(metadata(1), assignment(1, None)) == Worker(URL, OFFSET, (), {})


def test_what_cannot_be_read_is_unknown() -> None:
    """With a broken assignment the worker's address is still known; with broken metadata there is no worker."""
    given = assignment(1, tasks(sink=[0]))
    unknown = Worker(URL, OFFSET, None, None)
    assert read_worker(metadata(1), b"") == unknown
    assert read_worker(metadata(1), given[:-3]) == unknown
    assert read_worker(metadata(1, b"\x00"), given) == unknown
    assert read_worker(b"\x00\x01\x7f", given) is None
    assert read_worker(b'{"url": "json"}', given) is None


def test_tasks_below_the_connector_are_none() -> None:
    """A negative number that is not the connector is no task."""
    assert read_worker(metadata(0), assignment(0, tasks(sink=[-7, 0]))) == Worker(
        URL, OFFSET, (), {"sink": "0"}
    )
