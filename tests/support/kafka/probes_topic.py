"""A topic of probes as ``Connection`` finds it, without a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.kafka.clients import Connection
from support.job.probes import PROBES, probes_batch


class ProbesTopic:
    """A topic with eight messages, or none; notes which part was read by the modules that read it."""

    def __init__(self, patch: pytest.MonkeyPatch, messages: Sequence[Any], *readers: ModuleType) -> None:
        self.partitions = 1
        self.refusal: GroupReplayError | None = None
        self.read: list[tuple[Mapping[int, int], Mapping[int, int]]] = []
        self._batch = probes_batch(messages)
        for reader in readers:
            patch.setattr(reader, "read_messages", self._messages)
        patch.setattr(Connection, "admin", lambda _: SimpleNamespace(list_topics=self._topics))
        patch.setattr(Connection, "end_offsets", lambda *_: {0: 8})
        patch.setattr(Connection, "first_offsets", lambda *_: {0: 0})
        patch.setattr(Connection, "offsets_since", lambda *_: {0: 2})

    def _topics(self, **_: object) -> Any:
        listed = SimpleNamespace(error=None, partitions=dict.fromkeys(range(self.partitions)))
        return SimpleNamespace(topics={PROBES: listed} if self.partitions else {})

    def _messages(
        self, _: Connection, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]
    ) -> Iterator[pa.RecordBatch]:
        assert topic == PROBES
        if self.refusal:
            raise self.refusal
        self.read.append((starts, ends))
        if starts[0] < ends[0]:
            yield self._batch
