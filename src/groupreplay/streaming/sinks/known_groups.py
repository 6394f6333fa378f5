"""The documents of ``group-states`` in the form in which the exporter keeps them: some 400 bytes for each group.

Whoever may commit offsets chooses how many groups there are and how long their ids are, so a group is kept under its
label, which is short, and whatever many groups have in common is kept once.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from groupreplay.state.display.safe_text import safe_text
from groupreplay.state.output.message_forms import GroupHead
from groupreplay.streaming.contract.message_decoder import Integer, MessageDecoder
from groupreplay.streaming.sinks.held_conditions import HeldForm, Holding

#: Sets of labels and conditions that many groups share; far more than a policy has.
_SHARED: Final = 4_096
_SEVERITIES: Final = ("ERROR", "WARN")


class _GroupDocument(GroupHead, kw_only=True):
    """The fields of a document that become metrics."""

    conditions: list[HeldForm] = msgspec.field(default_factory=list)


class KnownGroup(msgspec.Struct, frozen=True, gc=False):
    """A group; ``label`` is its id as metrics show it, ``generation`` the group epoch of a newer kind of group."""

    label: str
    cluster_id: str
    type: str
    state: str
    generation: Integer | None
    since_ms: Integer | None
    member_count: Integer
    next_expiry_ms: Integer | None
    conditions: tuple[Holding, ...]
    labels: Mapping[str, str]

    @property
    def worst(self) -> str | None:
        """The highest severity of its conditions; None without one."""
        if not self.conditions:
            return None
        held = {one.severity for one in self.conditions}
        return next((severity for severity in _SEVERITIES if severity in held), "INFO")


_decoder: Final = MessageDecoder[_GroupDocument](_GroupDocument)


def group_label(group_id: str) -> str:
    """The id itself, so that series can be joined with those of other exporters.

    An id that is empty, very long or has control characters is made safe, with a hash of the whole id at its end.
    """
    shown = safe_text(group_id)
    if shown == group_id and shown:
        return shown
    return f"{shown}#{hashlib.sha256(group_id.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def known_group(value: bytes) -> KnownGroup | None:
    """The group of a document; None when the value is no document."""
    document = _decoder.decode(value)
    if document is None:
        return None
    return KnownGroup(
        label=group_label(document.group_id),
        cluster_id=sys.intern(document.cluster_id),
        type=sys.intern(document.type),
        state=sys.intern(document.state),
        generation=document.epoch,
        since_ms=document.since_ms,
        member_count=document.member_count,
        next_expiry_ms=document.offsets.next_expiry_ms,
        conditions=_conditions(tuple(one.holding() for one in document.conditions)),
        labels=shared_labels(document.labels),
    )


def shared_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    """The same labels, as one object for all groups that have them."""
    return _labels(tuple(labels.items()))


@lru_cache(_SHARED)
def _labels(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    return dict(items)


@lru_cache(_SHARED)
def _conditions(conditions: tuple[Holding, ...]) -> tuple[Holding, ...]:
    return conditions
