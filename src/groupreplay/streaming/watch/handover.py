"""The file of a ``watch`` that has ended, as ``run --adopt`` takes it over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from groupreplay.state.phrases import timestamp_ms
from groupreplay.streaming.contract.messages import MessageDecoder
from groupreplay.streaming.contract.probe_messages import GroupAnswer, decode_message, encode_message
from groupreplay.streaming.delivery.result_topics import NAME, value_of
from groupreplay.streaming.run.handover import Handover, nothing_to_adopt
from groupreplay.streaming.run.standby import FormerJob
from groupreplay.streaming.watch.own_messages import open_answers
from groupreplay.streaming.watch.state_file import StateFile


class _Time(msgspec.Struct):
    time: str


_times: Final = MessageDecoder[_Time](_Time)


def handover(path: Path) -> Handover:
    """Where the watch has ended: all events of an earlier time have reached its readers.

    The state itself is not taken over: ``run`` builds it anew from the log, from which the watch has built it, and the
    events since then have the same ids.

    Raises:
        GroupReplayError: the watch still runs, or the file cannot be used.
    """
    if not path.is_file() or not path.stat().st_size:
        raise nothing_to_adopt(str(path))
    with closing(StateFile(path)) as file:
        owner, memory = file.owner(), file.load()
    if owner is None:
        raise nothing_to_adopt(str(path))
    waiting = chain(
        memory.pending.values(),
        *(
            map(value_of, of.values()) if name == NAME else of.values()
            for name, of in memory.outgoing.items()
        ),
    )
    emitted_to_ms = min([max(memory.passed_ms, owner.first_start_ms), *_times_of(waiting)])
    answers = [open_answers(messages) for _, messages in sorted(memory.answers.items())]
    return Handover(
        where=str(path),
        former=FormerJob(
            job_id=owner.job_id,
            cluster_id=owner.cluster_id,
            era=owner.era_of_events,
            first_start_ms=owner.first_start_ms,
            emitted_to_ms=emitted_to_ms,
            is_reported=True,
        ),
        answers=tuple(chain.from_iterable(map(_kept, answers))),
    )


def _kept(answers: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """The same answers, dated by the watch."""
    for message in (decode_message(*answer) for answer in answers):
        if isinstance(message, GroupAnswer):
            yield encode_message(msgspec.structs.replace(message, kept=True))


def _times_of(messages: Iterable[bytes | None]) -> Iterator[int]:
    """The times of those that are events."""
    for event in messages:
        decoded = _times.decode(event)
        at_ms = None if decoded is None else timestamp_ms(decoded.time)
        if at_ms is not None:
            yield at_ms
