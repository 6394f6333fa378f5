"""The lag of groups: their offsets beside the ends that are recorded, and beside those of now."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from groupreplay.app.inspection.group_lag import GroupLags, add_ends_now, time_lag_text
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.contract.partition_ends import PartitionEnds
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.sources.recorded_ends import RecordedEnds
from groupreplay.timeline.lag import Range
from support.job.captures import CLUSTER_ID
from support.kafka.answered_ends import AnsweredEnds

#: One partition with a lag, one whose log was cut below the committed offset, one that does not exist, and one that has
#: an owner alone.
GROUP: dict[str, Any] = {
    "group_id": "g",
    "type": "classic",
    "members": [{"partitions": {"t": [1], "u": [0]}}],
    "offsets": [
        {"topic": "t", "partition": 0, "offset": 5},
        {"topic": "t", "partition": 1, "offset": 7},
        {"topic": "t", "partition": 2, "offset": 9},
    ],
}
ENDS = {
    ("t", 0): PartitionEnds(0, 8, 8),
    ("t", 1): PartitionEnds(6, 6, 6),
    ("u", 0): PartitionEnds(1, 4, 4),
    ("v", 0): PartitionEnds(0, 4, 4),
}


def lags(cluster: AnsweredEnds, group: dict[str, Any] = GROUP) -> GroupLags:
    """The lags of now."""
    return GroupLags(RecordedEnds(CLUSTER_ID), 0).with_now([group], cast(Connection, cluster))


def test_lag_and_what_a_reset_would_cost() -> None:
    """Replays count from the log's start to the offset, skips from there to its end; a lag is never negative."""
    nothing = dict.fromkeys(("lag", "lag_least", "lag_most"))
    nothing |= dict.fromkeys(("time_lag_ms", "time_lag_least_ms", "time_lag_most_ms"))
    past = "the committed offset is 1 past the end of the log, which was cut or is another one"
    unseen = "the ends of the partition were not recorded"
    measured = [
        {
            **{"log_start_offset": 0, "log_end_offset": 8, "lag": 3, "lag_least": 3, "lag_most": 3},
            **{"time_lag_ms": 0, "time_lag_least_ms": 0, "time_lag_most_ms": None, "lag_notes": ()},
            **{"earliest_replays": 5, "latest_skips": 3},
        },
        {
            **{**nothing, "log_start_offset": 6, "log_end_offset": 6, "lag_notes": (past,)},
            **{"earliest_replays": 0, "latest_skips": 0},
        },
        {
            **{**nothing, "log_start_offset": None, "log_end_offset": None, "lag_notes": (unseen,)},
            **{"earliest_replays": None, "latest_skips": None},
        },
    ]
    offsets = [{**offset, **more} for offset, more in zip(GROUP["offsets"], measured, strict=True)]
    cluster = AnsweredEnds(ENDS)
    assert lags(cluster).beside([GROUP]) == [{**GROUP, "offsets": offsets}]
    assert cluster.asked == [[("t", 0), ("t", 1), ("u", 0)]]


def test_partitions_that_are_owned() -> None:
    """They are asked for without a commit, and their lag is unknown; members of a streams group own none."""
    assert lags(AnsweredEnds(ENDS)).of("u", 0, None).end == 4
    streams = {**GROUP, "type": "streams"}
    assert lags(AnsweredEnds(ENDS), streams).of("u", 0, None).end is None


def test_the_totals_of_a_group() -> None:
    """Three of four partitions are unknown: past the end, of no topic, and never committed."""
    assert lags(AnsweredEnds(ENDS)).totals(GROUP) == (Range(3, 3, 3), Range(0, 0, None), 3)


def test_without_any_ends_nothing_is_added() -> None:
    """A capture without a prober is shown as it is: absent fields, and no 0."""
    assert GroupLags(RecordedEnds(CLUSTER_ID), 0).beside([GROUP]) == [GROUP]


def test_a_cluster_that_does_not_answer() -> None:
    """The reason is that of the topics."""
    cluster = AnsweredEnds({}, errors=dict.fromkeys(("t", "u"), KafkaError._TIMED_OUT))
    with pytest.raises(GroupReplayError, match="no topic could be described"):
        add_ends_now(RecordedEnds(CLUSTER_ID), [GROUP], cast(Connection, cluster))


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ((None, None), None),
        ((0, 0), "0 ms"),
        ((0, 30_000), "at most 30.0 s"),
        ((10_000, 14_000), "10.0 s .. 14.0 s"),
        ((120_000, None), "at least 2 min 0 s"),
    ],
)
def test_time_in_words(bounds: tuple[int | None, int | None], text: str | None) -> None:
    """The bounds, and not an estimate that looks exact."""
    assert time_lag_text(*bounds) == text
