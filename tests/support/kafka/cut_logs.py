"""A broker that loses the end of its logs, as a disk does that had not stored it yet when the power failed."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import TopicPartition

from groupreplay.streaming.local.broker import EmbeddedBroker


def log_size(broker: EmbeddedBroker, place: TopicPartition) -> int:
    """The bytes of a partition's newest segment, which a later ``cut_log`` keeps."""
    return _segment(broker, place).stat().st_size


def cut_log(broker: EmbeddedBroker, place: TopicPartition, size: int) -> None:
    """Restarts the broker with a log that ends there: its leader begins a new epoch, as every leader does."""
    broker.stop()
    segment = _segment(broker, place)
    with segment.open("r+b") as file:
        file.truncate(size)
    # The broker then reads the segments again and takes nothing from an index or a snapshot.
    for made in ("*.index", "*.timeindex", "*.snapshot"):
        for file_path in segment.parent.glob(made):
            file_path.unlink()
    (broker.folder / "data" / ".kafka_cleanshutdown").unlink()
    broker.start()


def _segment(broker: EmbeddedBroker, place: TopicPartition) -> Path:
    return max((broker.folder / "data" / f"{place.topic}-{place.partition}").glob("*.log"))
