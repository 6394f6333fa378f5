"""The versions in which coordinators write the values of classic groups and offsets.

The older coordinator decides by ``inter.broker.protocol.version`` (``GroupMetadataManager.groupMetadataValue`` and
``offsetCommitValue`` of Kafka 3.9), later ones by their release (``GroupCoordinatorRecordHelpers``). Values of offsets
of version 0 were written by brokers before 0.9, under keys of type 0; no setting brings them back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from groupreplay.codecs.classic import GroupMetadataValue
from groupreplay.codecs.offsets import OffsetCommitValue
from groupreplay.codecs.schema import Struct, Value, Versioned, wires

_Message = TypeVar("_Message", bound=Struct)

#: The values of ``inter.broker.protocol.version``, in order; "2.1" is 2.1-IV2.
PROTOCOL_VERSIONS: Final = (
    *("0.9.0", "0.10.0", "0.10.1", "0.10.2", "0.11.0", "1.0", "1.1", "2.0", "2.1-IV0", "2.1-IV1", "2.1"),
    *(f"2.{minor}" for minor in range(2, 9)),
    *(f"3.{minor}" for minor in range(10)),
)
#: The place of each, and of the releases whose coordinators do not know that setting.
_ORDER: Final = {name: place for place, name in enumerate((*PROTOCOL_VERSIONS, "4.0", "4.1"))}
#: Each version with the first release that writes it.
WRITTEN_SINCE: Final[Mapping[type[Value], tuple[tuple[str, int], ...]]] = {
    OffsetCommitValue: (("0.9.0", 1), ("2.1-IV0", 2), ("2.1-IV1", 3), ("4.1", 4)),
    GroupMetadataValue: (("0.9.0", 0), ("0.10.1", 1), ("2.1-IV0", 2), ("2.3", 3)),
}
#: Of an offset for which the client has set a retention time: the only version with an expiry of its own.
VERSION_WITH_EXPIRY: Final = 1


def written_version(message: type[Value], release: str) -> int:
    """The version that is written, by the protocol version or, from 4.0 on, the release. KeyError for others."""
    reached = _ORDER[release]
    return max(version for since, version in WRITTEN_SINCE[message] if _ORDER[since] <= reached)


def as_written(value: _Message, version: int) -> _Message:
    """The message as a reader of this version has it: fields that the version lacks hold their defaults."""
    changes: dict[str, Any] = {"version": version} if isinstance(value, Versioned) else {}
    for each in wires(type(value)):
        content = getattr(value, each.name)
        if not each.exists_in(version):
            changes[each.name] = each.default
        elif isinstance(content, tuple):
            changes[each.name] = tuple(
                as_written(one, version) if isinstance(one, Struct) else one for one in content
            )
    return replace(value, **changes)
