"""Words for writing capture files, and for running the program on them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import click
import pyarrow as pa
from click.testing import CliRunner, Result

from groupreplay.app.cli.program import cli
from groupreplay.codecs import encode_key, encode_value
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.contract.log import ROW_SCHEMA
from groupreplay.streaming.sources.capture import CaptureWriter
from groupreplay.streaming.sources.capture_context import CaptureContext
from support.histories.builders import PARTITION, placed
from support.histories.builders import Raw as Record
from support.histories.raw_records import Raw

CLUSTER_ID = "cluster-1"
ERA = "era-1"
#: The program as a process of its own.
GROUPREPLAY: Final = (sys.executable, "-m", "groupreplay")


def raw(history: Iterable[Record], *, partition: int = PARTITION) -> list[Raw]:
    """A history of one group as the bytes of its records."""
    return [Raw(partition, one.offset, one.at, *in_bytes(one)) for one in placed(history)]


def in_bytes(record: Record) -> tuple[bytes, bytes | None]:
    """Key and value of a record."""
    return encode_key(record.key), None if record.value is None else encode_value(record.value)


def rows_batch(rows: Sequence[Raw], topic: str = OFFSETS_TOPIC, *, appended: bool = False) -> pa.RecordBatch:
    """Records with the columns of a capture; ``appended``: the timestamps are those of the broker."""
    kind = int(appended)
    cells = [(topic, one.partition, one.offset, one.timestamp_ms, kind, one.key, one.value) for one in rows]
    return pa.RecordBatch.from_pylist(
        [dict(zip(ROW_SCHEMA.names, row, strict=True)) for row in cells], ROW_SCHEMA
    )


def write_capture(
    path: Path,
    rows: Sequence[Raw],
    *,
    probes: pa.RecordBatch | None = None,
    cluster_id: str = CLUSTER_ID,
    era: str = ERA,
    topic_names: Mapping[str, str] | None = None,
    context: CaptureContext | None = None,
) -> Path:
    """A capture as the program writes it; ``probes`` stand beside the log. Earlier releases wrote no ``context``."""
    with CaptureWriter(path, cluster_id=cluster_id, era=era, context=context, force=True) as writer:
        writer.topic_names.update(topic_names or {})
        for partition in sorted({row.partition for row in rows}):
            writer.write(rows_batch([row for row in rows if row.partition == partition]))
        if probes is not None:
            writer.write(probes)
    return path


def invoke(*words: object, env: Mapping[str, str | None] | None = None) -> Result:
    """Runs ``groupreplay`` with these words, as a process would, with nobody's configuration."""
    clean: dict[str, str | None] = {"XDG_CONFIG_HOME": "/nonexistent", "GROUPREPLAY_BOOTSTRAP_SERVER": None}
    return CliRunner().invoke(cli, [str(word) for word in words], env={**clean, **(env or {})})


def printed_by(*words: object) -> str:
    """What ``groupreplay`` prints with these words; it must succeed."""
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def simulated_capture(path: Path, *words: object) -> Path:
    """Writes the log of a simulation with these words, and returns its path."""
    printed_by("simulate", *words, "-o", path)
    return path


def parsed(words: Sequence[str]) -> click.Context:
    """The parsed flags of a command, which is not run."""
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None
    return command.make_context(words[0], list(words[1:]))
