"""How many offsets a batch reads: what takes half a minute, whatever the groups of the log are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.streaming.run.interface import Batch
from groupreplay.streaming.spark.batch_size import BatchSize


def batch(records: int, seconds: float, log_offsets: int | None = None) -> Batch:
    """A finished batch."""
    return Batch(number=0, started_ms=0, seconds=seconds, records=records, log_offsets=log_offsets)


def plans(size: BatchSize, *batches: Batch) -> list[int]:
    """The first plan, and one after each batch that asks for another."""
    planned = [size.plan()]
    for finished in batches:
        size.learn(finished)
        planned += [size.plan()] if size.change() else []
    return planned


@pytest.mark.parametrize(
    ("batches", "planned"),
    [
        pytest.param([(100_000, 1)], [100_000, 2_000_000], id="a log with few groups"),
        pytest.param([(100_000, 2)], [100_000, 1_500_000], id="a faster pace is worth another plan"),
        pytest.param([(100_000, 20)], [100_000], id="not worth another plan"),
        pytest.param(
            [(100_000, 200)], [100_000, 15_000], id="a call for each offset, on the worker of PySpark"
        ),
        pytest.param([(100_000, 200), (15_000, 30)], [100_000, 15_000], id="the pace holds"),
        pytest.param([(100_000, 200), (15_000, 3)], [100_000, 15_000, 150_000], id="then come larger groups"),
        pytest.param([(100_000, 100_000)], [100_000, 10_000], id="never less than is worth a batch"),
        pytest.param([(20_000, 300), (0, 300)], [100_000], id="not the offsets take the time"),
        pytest.param([(7, 120, 100_000)], [100_000, 25_000], id="of the others compaction has left nothing"),
        pytest.param([(80_000, 120, 80_000)], [100_000], id="all that there was"),
        pytest.param([(0, 7, 0)], [100_000], id="groups that are read ahead of the others alone"),
        pytest.param(
            [(100_000, 7), (100_000, 9, 100_000)], [100_000, 428_571], id="a batch of the plan before"
        ),
        pytest.param([(96_000, 125)], [100_000, 23_040], id="shares are rounded down"),
    ],
)
def test_plans(batches: list[tuple[int, float, int]], planned: list[int]) -> None:
    """A batch over a minute makes the next ones smaller; a pace of twice the plan makes them larger."""
    assert plans(BatchSize(2_000_000), *(batch(*values) for values in batches)) == planned


def test_the_reason_has_the_numbers() -> None:
    """The line of the job says what was seen and what follows."""
    size = BatchSize(2_000_000)
    size.plan()
    size.learn(batch(100_000, 200))
    assert size.change() == (
        "a batch of 100,000 offsets took 200 s, continuing with at most 15,000 in a batch"
    )
    size.plan()
    assert size.change() is None


def test_a_single_run_begins_with_the_bound_of_the_settings() -> None:
    """Another plan would only cost time; a batch over a minute makes the next ones smaller here, too."""
    assert plans(BatchSize(2_000_000, is_single_run=True), batch(2_000_000, 10)) == [2_000_000]
    assert plans(BatchSize(2_000_000, is_single_run=True), batch(2_000_000, 100)) == [2_000_000, 600_000]


@given(most=st.integers(1, 10**8), batches=st.lists(st.tuples(st.integers(0, 10**8), st.floats(0, 10**5))))
def test_the_bound_of_the_settings_holds(most: int, batches: list[tuple[int, float]]) -> None:
    """Whatever the batches were."""
    for planned in plans(BatchSize(most), *(batch(*values) for values in batches)):
        assert 1 <= planned <= most
