"""The rows of some groups, found by columns: without decoding the records of the others."""

from __future__ import annotations

from collections.abc import Container, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.codecs import Malformed, Skipped, decode_key
from groupreplay.streaming.base.arrow_arrays import numbers
from groupreplay.streaming.engine.group_choice import GroupChoice
from groupreplay.streaming.engine.packing.key_columns import decode_keys


def noting_groups(batches: Iterator[pa.RecordBatch], seen: GroupChoice) -> Iterator[pa.RecordBatch]:
    """The same batches; ``seen`` is asked about the group of each of their records."""
    for batch in batches:
        rows_of_groups(batch, seen)
        yield batch


def rows_of_groups(batch: pa.RecordBatch, groups: Container[str]) -> pa.RecordBatch:
    """The rows whose key can be read and names one of the groups, in order."""
    encoded = pc.dictionary_encode(batch["key"].cast(pa.large_binary()), null_encoding="encode")
    keys = decode_keys(encoded.dictionary)
    wanted = np.array([name in groups for name in keys.groups] + [False], bool)[keys.group]
    for place in keys.odd:
        # A commit for a partition below zero is no usable key, and names a group all the same.
        key = decode_key(keys.raw.at(place))
        wanted[place] = not isinstance(key, Skipped | Malformed) and key.group in groups
    rows = np.flatnonzero(wanted[numbers(encoded.indices).astype(np.int64)])
    return batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
