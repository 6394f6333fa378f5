"""The table of committed offsets compared with a simple dictionary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state.snapshot.observations import CommitRun
from groupreplay.state.snapshot.offsets import COMMITTED, Offsets
from support.histories.builders import Raw, commit, observed, placed

TOPIC_ID = bytes(range(1, 17))


def run_of(*history: Raw) -> CommitRun:
    """One folded run."""
    (run,) = observed(placed(history)).items
    assert isinstance(run, CommitRun)
    return run


def table_of(*history: Raw) -> Offsets:
    """A table after one run."""
    table = Offsets()
    table.apply(run_of(*history))
    return table


def test_a_row_is_36_bytes() -> None:
    """The budget of the snapshot: 36 bytes a partition beside the topic names."""
    assert COMMITTED.itemsize == 36


def test_one_commit_as_describe_shows_it() -> None:
    """Every field, with what a record does not have as null."""
    table = table_of(commit("t", 3, 7, at=50, metadata="m", leader_epoch=2))
    assert list(table) == [
        {
            "topic": "t",
            "partition": 3,
            "offset": 7,
            "metadata": "m",
            "leader_epoch": 2,
            "commit_timestamp_ms": 50,
            "expire_timestamp_ms": None,
            "log_offset": 100,
        }
    ]


def test_an_explicit_expiry_and_metadata_go_with_their_commit() -> None:
    """A later commit without them takes both away."""
    table = table_of(commit("t", 0, 7, at=50, version=1, expire_timestamp_ms=99, metadata="m"))
    assert [(row["expire_timestamp_ms"], row["metadata"]) for row in table] == [(99, "m")]
    (later,) = observed([Raw(**{**commit("t", 0, 8, at=60).__dict__, "offset": 300})]).items
    table.apply(later)
    assert [(row["expire_timestamp_ms"], row["metadata"], row["offset"]) for row in table] == [(None, "", 8)]


def test_an_older_commit_changes_nothing() -> None:
    """Log order decides, not the order of arrival."""
    table = table_of(commit("t", 0, 7, at=50))
    (older,) = observed([Raw(**{**commit("t", 0, 3, at=40).__dict__, "offset": 50})]).items
    table.apply(older)
    assert [row["offset"] for row in table] == [7]


def test_removing_what_is_not_there() -> None:
    """Compaction may have removed the value of a tombstone."""
    table = table_of(commit("t", 0, 7, at=50))
    table.remove([("u", 0), ("t", 1)])
    assert len(table) == 1
    table.remove([("t", 0)])
    assert (len(table), table.topics) == (0, [])


def test_the_newest_commit_of_some_partitions() -> None:
    """Used as a sign of life of the member that owns them."""
    table = table_of(commit("t", 0, 1, at=50), commit("t", 1, 1, at=90), commit("u", 0, 1, at=99))
    assert table.last_commit_ms([("t", 0), ("t", 1), ("x", 0)]) == 90
    assert table.last_commit_ms([("t", 5)]) is None
    assert Offsets().last_commit_ms([("t", 5)]) is None


def test_the_summary() -> None:
    """The offsets in the document of a group."""
    assert Offsets().summary() == {"partitions": 0, "oldest_commit_ms": None, "newest_commit_ms": None}
    table = table_of(commit("t", 0, 1, at=50), commit("t", 1, 1, at=90, version=1, expire_timestamp_ms=1_000))
    assert table.summary() == {"partitions": 2, "oldest_commit_ms": 50, "newest_commit_ms": 90}


def test_times_and_generations_follow_the_rows() -> None:
    """What is remembered of the rows is forgotten when commits, a clock that goes back or tombstones change them."""
    table = Offsets()
    found = [(table.newest_commit_ms(), table.moves())]
    history = placed([commit("t", 0, 1, at=50), commit("t", 1, 1, at=60)])
    history += [replace(raw, offset=raw.offset + 10) for raw in placed([commit("t", 0, 2, at=70)])]
    history += [replace(raw, offset=raw.offset + 20) for raw in placed([commit("t", 1, 2, at=80)])]
    for number, run in enumerate((history[:2], history[2:3], history[3:])):
        (commits,) = observed(run).items
        assert isinstance(commits, CommitRun)
        table.apply(commits, number)
        found.append((table.newest_commit_ms(), table.moves()))
    table.remove([("t", 0)])
    found.append((table.newest_commit_ms(), table.moves()))
    table.set_back(75)
    found.append((table.newest_commit_ms(), table.oldest_commit_ms()))
    assert found == [(None, None), (60, (60, None)), (70, (70, 1)), (80, (80, 1)), (80, (80, 2)), (75, 75)]


def test_topic_ids_are_kept() -> None:
    """They come with commits of version 4 and survive a snapshot."""
    run = run_of(commit("t", 0, 1, at=50), commit("u", 0, 1, at=51))
    table = Offsets()
    table.apply(replace(run, topic_ids={1: TOPIC_ID}))
    assert Offsets.from_snapshot(table.snapshot()).topic_ids == {table.topics.index("u"): TOPIC_ID}


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("commit"), st.sampled_from("tuv"), st.integers(0, 4), st.integers(0, 99), st.booleans()
        ),
        st.tuples(st.just("remove"), st.sampled_from("tuv"), st.integers(0, 4), st.just(0), st.just(False)),
    ),
    min_size=1,
    max_size=40,
)


@given(steps, st.booleans())
def test_as_a_dictionary_would(history: list[tuple[Any, ...]], restore: bool) -> None:
    """Commits and removals in any order, in runs of any length, with a snapshot in between."""
    table, expected = Offsets(), {}
    run: list[Raw] = []
    offset = 10

    def flush() -> None:
        if run:
            (folded,) = observed(run).items
            table.apply(folded)
            run.clear()

    for kind, topic, partition, value, flag in history:
        offset += 1
        if kind == "commit":
            metadata = "m" if flag else ""
            raw = commit(topic, partition, value, at=offset, metadata=metadata)
            run.append(Raw(raw.key, raw.value, offset, offset))
            expected[topic, partition] = (value, offset, metadata)
        else:
            flush()
            if restore:
                table = Offsets.from_snapshot(table.snapshot())
            table.remove([(topic, partition)])
            expected.pop((topic, partition), None)
    flush()
    got = {
        (row["topic"], row["partition"]): (row["offset"], row["log_offset"], row["metadata"]) for row in table
    }
    assert got == expected
    assert list(got) == sorted(got)
