"""Records as Kafka's own formatters print them: ``decode`` and ``decode_record``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from groupreplay.api.sources import (
    AnySource,
    Time,
    group_choice,
    log,
    naming_errors,
    point_ms,
    public,
    record_source,
)
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError

if TYPE_CHECKING:
    from groupreplay.app.inspection.records import RecordChoice
    from groupreplay.streaming.sources.source import Rows


@public
def decode(
    source: AnySource,
    *,
    group: str | Sequence[str] = (),
    partitions: Sequence[int] = (),
    kind: Literal["commits", "groups"] | None = None,
    since: Time | None = None,
    until: Time | None = None,
    members: bool = False,
    with_position: bool = False,
) -> Iterator[dict[str, Any]]:
    """The records of a log as Kafka's own formatters print them, in the order of the log.

    >>> import groupreplay
    >>> record = next(groupreplay.decode("tuesday.parquet", group="*-000001", kind="groups", with_position=True))
    >>> record["partition"], record["offset"], record["key"]
    (39, 0, {'type': 2, 'data': {'group': 'deployment-000001'}})

    ``kind``: only committed offsets, or only the other records. ``members`` also decodes the subscriptions and
    assignments of classic members. Records that cannot be decoded are left out; a warning is logged at the end.

    Raises:
        GroupReplayError: the source cannot be read; also while iterating.
    """
    from groupreplay.app.inspection.records import RecordChoice

    choice = group_choice(group)
    wanted = RecordChoice(
        groups=choice if choice.patterns else None,
        kind=kind,
        since_ms=point_ms(since),
        until_ms=point_ms(until),
    )
    rows = record_source(source, probes=False).open(partitions, choice.ids)
    return _decoded(rows, wanted, members=members, with_position=with_position)


def _decoded(rows: Rows, wanted: RecordChoice, **options: bool) -> Iterator[dict[str, Any]]:
    from groupreplay.app.inspection.records import DecodeCounts, decode_rows

    counts = DecodeCounts()
    with naming_errors():
        yield from decode_rows(rows, counts, choice=wanted, **options)
    for line in counts.lines():
        log.warning("%s", line)


def decode_record(key: bytes | None, value: bytes | None, *, members: bool = False) -> dict[str, Any]:
    """One record of the offsets topic as JSON; ``value`` None is a tombstone. ``members`` as for ``decode``.

    >>> import groupreplay
    >>> groupreplay.decode_record(bytes.fromhex("00020001 67"), None)
    {'key': {'type': 2, 'data': {'group': 'g'}}, 'value': None}

    Raises:
        GroupReplayError: it cannot be decoded: its type is unknown, or it is damaged.
    """
    from groupreplay.app.inspection.records import decode_record as decoded

    record = decoded(key, value, members=members)
    if not isinstance(record, dict):
        raise GroupReplayError(f"the record cannot be decoded: {record.reason}", exit_code=ExitCode.DATA)
    return record
