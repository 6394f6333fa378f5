"""A model of one partition's log with leader epochs: elections with and without loss, compaction, retention."""

from __future__ import annotations

from dataclasses import dataclass, field

from groupreplay.streaming.contract.log import (
    EpochEnd,
    LogAnswer,
    PartitionMark,
    RecordMark,
    is_later_leader,
    record_digest,
)


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """A record; ``value`` is another one for each record that is written."""

    offset: int
    epoch: int
    key: int
    value: int

    @property
    def mark(self) -> RecordMark:
        return RecordMark(
            self.offset, record_digest(b"%d" % self.key, b"%d" % self.value, 1_000 + self.value)
        )


@dataclass(slots=True)
class ModelLog:
    """The log of the present leader. ``starts``: its cache of epochs, each with the first offset (KIP-101)."""

    has_epochs: bool = True
    records: list[ModelRecord] = field(default_factory=list)
    starts: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    end: int = 0
    epoch: int = 0
    written: int = 0

    def append(self, key: int) -> None:
        """The leader writes a record."""
        self.records.append(ModelRecord(self.end, self.epoch, key, self.written))
        self.end += 1
        self.written += 1

    def elect(self, kept: int, steps: int) -> None:
        """A leader whose log ends at ``kept``, after so many elections; with the whole log it was in sync."""
        self.records = [one for one in self.records if one.offset < kept]
        self.starts = [one for one in self.starts if one[1] < kept or one[1] == 0]
        self.end = kept
        self.epoch += steps
        self.starts.append((self.epoch, kept))

    def compact(self, below: int) -> None:
        """The cleaner keeps the last record of each key; it never reads the newest segment."""
        last = {one.key: one.offset for one in self.records if one.offset < below}
        self.records = [one for one in self.records if one.offset >= below or last[one.key] == one.offset]

    def delete(self, below: int) -> None:
        """Retention, or somebody who deletes records."""
        self.records = [one for one in self.records if one.offset >= below]

    def copy_to_new_replica(self) -> None:
        """A replica without data fetches what compaction has left, and leads: it knows only epochs of these batches."""
        firsts: dict[int, int] = {}
        for one in self.records:
            firsts.setdefault(one.epoch, one.offset)
        self.starts = sorted(firsts.items()) or [(0, 0)]
        self.elect(self.end, 1)

    def answer(self, mark: PartitionMark) -> LogAnswer:
        """What the brokers answer about a mark."""
        asked = is_later_leader(mark, self.log_end())
        behind = [one for one in self.records if mark.record is not None and one.offset >= mark.record.offset]
        return LogAnswer(
            end=self.log_end(),
            in_epoch=self._end_of(mark.end.epoch or 0) >= mark.end.offset if asked else None,
            record=behind[0].mark if behind else None,
        )

    def log_end(self) -> EpochEnd:
        """The end, as ListOffsets returns it."""
        return EpochEnd(self.end, self.epoch if self.has_epochs else None)

    def mark(self) -> PartitionMark:
        """The log as it is now, with its last record."""
        return PartitionMark(self.log_end(), self.records[-1].mark if self.records else None)

    def _end_of(self, epoch: int) -> int:
        """As LeaderEpochFileCache.endOffsetFor: where the first later epoch begins."""
        return next((start for later, start in self.starts if later > epoch), self.end)
