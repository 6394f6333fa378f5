"""What all inputs have in common; and reading a capture needs neither Kafka's client nor Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import ConsumerGroupType
from confluent_kafka.admin import ConfigResource, ConfigSource

from groupreplay.codecs import GroupMetadataKey, GroupMetadataValue, encode_key
from groupreplay.state.policy.context import OwnSettings
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.retention import Retention
from groupreplay.streaming.config.settings import RetentionFlags
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.sources.source import Rows, context_of, counted, dialect_of, shows_rounds
from support.histories.builders import generation, member
from support.histories.raw_records import Raw, commit
from support.histories.redpanda import dialect
from support.job.captures import rows_batch, write_capture
from support.job.probes import beat, probes_batch, summed_up

WEEK = RetentionFlags(retention_minutes=10_080, check_interval_ms=600_000, broker_release=(3, 9))
#: A program that replays a capture to its end, and prints which of the packages it has loaded.
REPLAYS = """
import sys
from pathlib import Path
from groupreplay.streaming.config.settings import RetentionFlags
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.sources.capture import CaptureSource
from groupreplay.streaming.sources.source import context_of

source = CaptureSource([Path(sys.argv[1])])
rows = source.open()
replay = Replay(context_of(rows, RetentionFlags()))
assert len(list(events_in_order(replay.feed(rows), Filter()))) == 1
assert (rows.extent.records, source.end().at_ms, len(source.digest())) == (1, 5_000, 64)
print(*(name for name in ("confluent_kafka", "pyspark", "pandas", "click", "rich") if name in sys.modules))
"""


def test_reading_a_capture_loads_no_client_of_kafka_and_no_spark(tmp_path: Path) -> None:
    """Not even while it is replayed: who has only a capture installs neither."""
    path = write_capture(tmp_path / "a.parquet", [Raw(0, 1, 5_000, b"junk", None)])
    command = [sys.executable, "-c", REPLAYS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


def test_whether_a_prober_was_at_work() -> None:
    """A round tells; a heartbeat is there without a prober, too. The batches can still be read."""
    beats, rounds = probes_batch([beat(at=1, caught_up=1)]), probes_batch([summed_up(at=1)])
    for batches, expected in (([], False), ([beats], False), ([rounds, beats], True)):
        is_probed, again = shows_rounds(iter(batches))
        assert (is_probed, list(again)) == (expected, batches)


class Answering:
    """A cluster that names its topics."""

    def topic_names(self) -> Mapping[str, str]:
        """One topic."""
        return {"id-1": "orders"}

    def broker_settings(self, wanted: object) -> Mapping[str, str]:
        """A retention."""
        return {"offsets.retention.minutes": "3"}

    def admin(self) -> object:
        """Lists one group, with a session of its own."""
        return self

    def list_consumer_groups(self, **_: object) -> Future[object]:
        """One group of KIP-848, and one that a broker before 3.8 lists."""
        listed = [
            SimpleNamespace(group_id="g", type=ConsumerGroupType.CONSUMER),
            SimpleNamespace(group_id="h", type=ConsumerGroupType.UNKNOWN),
        ]
        return done(SimpleNamespace(valid=listed, errors=[]))

    def describe_configs(self, resources: Iterable[ConfigResource], **_: object) -> dict[object, object]:
        """A session of 8 s for all."""
        entry = SimpleNamespace(value="8000", source=ConfigSource.GROUP_CONFIG.value)
        return {one: done({"consumer.session.timeout.ms": entry}) for one in resources}


def done(outcome: object) -> Future[Any]:
    """A future that has ended."""
    future: Future[Any] = Future()
    future.set_result(outcome)
    return future


OWN = {"g": {"consumer.session.timeout.ms": 8_000}}


@pytest.mark.parametrize("is_live", [True, False])
@pytest.mark.parametrize("is_probed", [True, False])
def test_the_settings_of_groups(is_live: bool, is_probed: bool) -> None:
    """Those of now, or of the capture; where a prober was at work a job knew what it had written, so a replay does."""
    recorded = Retention(own_settings=OwnSettings(OWN))
    connection = cast(Connection, Answering()) if is_live else None
    rows = Rows("c", "e", iter(()), connection, is_probed=is_probed, retention=recorded)
    asked = OwnSettings(OWN, frozenset({"g"})) if is_live else OwnSettings(OWN)
    assert context_of(rows, WEEK).own_settings == (None if is_probed else asked)


def test_the_context_of_rows() -> None:
    """A cluster that can be asked comes before the capture, and flags before both."""
    rows = Rows("c", "e", iter(()), topic_names={"id-1": "from a capture"}, is_probed=True)
    context = context_of(rows, WEEK, member_events=True)
    assert (context.cluster_id, context.era, context.topic_names) == ("c", "e", rows.topic_names)
    assert (context.probing, context.member_events, context.broker_release) == (True, True, (3, 9))
    live = replace(rows, connection=cast(Connection, Answering()))
    assert context_of(live, WEEK).topic_names == {"id-1": "orders"}
    retentions = [context_of(live, flags).retention_ms for flags in (WEEK, RetentionFlags())]
    assert retentions == [7 * 86_400_000, 180_000]


@pytest.mark.parametrize(
    ("complete_ms", "until_ms", "expected"), [(None, 5, None), (3, None, 3), (3, 5, 3), (8, 5, 5)]
)
def test_up_to_when_a_log_is_complete(
    complete_ms: int | None, until_ms: int | None, expected: int | None
) -> None:
    """Not after the end that somebody asked for; and never known where the input does not say it."""
    assert Rows("c", "e", iter(()), complete_ms=complete_ms).complete_until(until_ms) == expected


def test_rows_count_themselves() -> None:
    """While they are read; a time that cannot be is no bound."""
    batches = [
        rows_batch([Raw(0, at, at_ms, b"k", None) for at, at_ms in enumerate(times)])
        for times in ([5_000, -1], [2**61], [4_000, 6_000])
    ]
    rows = counted(Rows("c", "e", iter(batches)))
    assert (rows.extent.records, rows.extent.first_ms) == (0, None)
    assert list(rows.batches) == batches
    assert (rows.extent.records, rows.extent.first_ms, rows.extent.last_ms) == (5, 4_000, 6_000)


def test_the_retention_of_redpanda_is_asked_for() -> None:
    """Its records, behind commits: without a flag an error, with one the context; all rows are still read."""
    value = generation(7, member("a-1", [0]), at=1_000).value
    assert isinstance(value, GroupMetadataValue)
    group = Raw(0, 1, 1_000, encode_key(GroupMetadataKey(group="g")), dialect(value))
    batches = [rows_batch([Raw(0, 0, 1_000, *commit())]), rows_batch([group])]

    def rows() -> Rows:
        return counted(Rows("c", "e", iter(batches), where="redpanda.parquet"))

    with pytest.raises(GroupReplayError, match="Redpanda's") as error:
        context_of(rows(), RetentionFlags())
    assert "group_offset_retention_sec" in str(error.value.fix)
    opened = rows()
    assert context_of(opened, WEEK).retention_ms == 604_800_000
    assert dialect_of(opened) == "redpanda"
    assert list(opened.batches) == batches
