"""The file of a ``watch`` that has ended, as ``run --adopt`` takes it over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from groupreplay.state.events.incident_events import IncidentOpened, IncidentResolved
from groupreplay.state.output.envelope import event_type
from groupreplay.state.phrases import timestamp_ms
from groupreplay.streaming.contract.messages import MessageDecoder
from groupreplay.streaming.contract.probe_messages import GroupAnswer, decode_message, encode_message
from groupreplay.streaming.delivery.result_topics import NAME, value_of
from groupreplay.streaming.engine.json_messages import incident_row
from groupreplay.streaming.run.handover import Handover, nothing_to_adopt
from groupreplay.streaming.run.standby import FormerJob
from groupreplay.streaming.watch.incidents import stored_incidents
from groupreplay.streaming.watch.own_messages import open_answers
from groupreplay.streaming.watch.state_file import Memory, StateFile


class _Head(msgspec.Struct):
    id: str
    type: str
    time: str


_heads: Final = MessageDecoder[_Head](_Head)
_INCIDENTS: Final = frozenset(event_type(kind.NAME) for kind in (IncidentOpened, IncidentResolved))


def handover(path: Path, *, with_incidents: bool = True) -> Handover:
    """Where the watch has ended: all events of an earlier time have reached its readers.

    The state of groups is not taken over: ``run`` builds it anew from the log, from which the watch has built it, and
    the events since then have the same ids. The finder of incidents is: what has opened one may be compacted away. It
    has the names that the watch has shown: not ``with_incidents`` where ``run`` hides names.

    Raises:
        GroupReplayError: the watch still runs, or the file cannot be used.
    """
    if not path.is_file() or not path.stat().st_size:
        raise nothing_to_adopt(str(path))
    with closing(StateFile(path)) as file:
        owner, memory = file.owner(), file.load()
    if owner is None:
        raise nothing_to_adopt(str(path))
    waiting = list(_waiting(memory))
    times = [at_ms for head, _ in waiting if (at_ms := timestamp_ms(head.time)) is not None]
    emitted_to_ms = min([max(memory.passed_ms, owner.first_start_ms), *times])
    untold = {head.id: event for head, event in waiting if with_incidents and head.type in _INCIDENTS}
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
        incidents=stored_incidents(memory.incidents) if with_incidents else None,
        untold=tuple(map(incident_row, untold.values())),
    )


def _kept(answers: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """The same answers, dated by the watch."""
    for message in (decode_message(*answer) for answer in answers):
        if isinstance(message, GroupAnswer):
            yield encode_message(msgspec.structs.replace(message, kept=True))


def _waiting(memory: Memory) -> Iterator[tuple[_Head, bytes]]:
    """The events that may not have reached all readers; one may come several times."""
    outgoing = (
        map(value_of, of.values()) if name == NAME else of.values() for name, of in memory.outgoing.items()
    )
    for message in chain(memory.pending.values(), *outgoing):
        head = _heads.decode(message)
        if head is not None and message is not None:
            yield head, message
