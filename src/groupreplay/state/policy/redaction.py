"""Redaction: names of machines and programs are replaced by a keyed hash in events, documents and Kafka's own JSON.

What is made of such a name, like the id of a condition, is keyed, too: there are few hosts, so that all hashes without
a secret can be tried out. The state is never redacted: records and answers of brokers are matched by these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

#: The prefix of a hidden value: it is no name.
MARK: Final = "~"
LEAST_KEY_BYTES: Final = 16

#: The keys below these fields are names of topics or of labels: nothing to hide.
_BY_NAME: Final = frozenset({"labels", "partitions", "revoking", "tasks"})
_MEMBER_IDS: Final = frozenset(
    {
        *("member_id", "old_member_id", "new_member_id", "leader", "joined", "left", "kept", "memberId"),
        *("previous_leader", "rebalance_timeout_member"),
    }
)
#: ``client id@host``.
_PLACES: Final = frozenset({"place", "places"})
#: What can be hidden -> the fields that show it. The clients make their member ids of their client id or instance id.
FIELDS: Final[Mapping[str, frozenset[str]]] = {
    # Bytes and texts of the clients may contain hosts, too: those of Connect and Streams do.
    "hosts": frozenset(
        {
            *("client_host", "old_host", "new_host", "url", "clientHost", "host"),
            *("subscription", "assignment", "metadata", "userData"),
            # The same, decoded: the leader of Connect workers by its address, and bytes that cannot be decoded.
            *("leaderUrl", "bytes"),
        }
    )
    | _PLACES,
    "client-id": frozenset({"client_id", "clientId"}) | _PLACES | _MEMBER_IDS,
    "member-id": _MEMBER_IDS,
    "instance-id": frozenset({"instance_id", "groupInstanceId", "instanceId"}) | _MEMBER_IDS,
}


def redacted(document: dict[str, Any], redaction: Redaction | None) -> dict[str, Any]:
    """The document as it is shown; unchanged without a redaction."""
    return document if redaction is None else redaction.of(document)


@dataclass(frozen=True, slots=True)
class Redaction:
    """What is hidden (names of ``FIELDS``), and the key: the same key gives the same hash for the same text.

    Raises:
        ValueError: an unknown name, or a key that is too short to be a secret.
    """

    hidden: frozenset[str]
    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if unknown := self.hidden - FIELDS.keys():
            raise ValueError(f"cannot hide {', '.join(sorted(unknown))}; there are {', '.join(FIELDS)}")
        if len(self.key) < LEAST_KEY_BYTES:
            raise ValueError(f"the key has {len(self.key)} bytes; it must have at least {LEAST_KEY_BYTES}")

    def hide(self, text: str) -> str:
        """A hash instead of a text; an empty one stays empty."""
        if not text:
            return text
        return (
            MARK + blake2b(text.encode("utf-8", "surrogatepass"), key=self._secret, digest_size=8).hexdigest()
        )

    def digest(self, data: str | bytes, size: int) -> str:
        """So many bytes that identify a text or bytes, in hexadecimal; without the key they cannot be tried out."""
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        return blake2b(raw, key=self._secret, digest_size=size, person=b"digest").hexdigest()

    @property
    def _secret(self) -> bytes:
        return blake2b(self.key, digest_size=32).digest()

    def of(self, document: dict[str, Any]) -> dict[str, Any]:
        """A document with every hidden field hashed, at any depth."""
        names = frozenset[str]().union(*(FIELDS[one] for one in self.hidden))
        shown: dict[str, Any] = self._within(document, names, hidden=False)
        return shown

    def _within(self, value: Any, names: frozenset[str], *, hidden: bool) -> Any:
        if isinstance(value, Mapping):
            return {
                name: inner if name in _BY_NAME else self._within(inner, names, hidden=name in names)
                for name, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._within(one, names, hidden=hidden) for one in value]
        return self.hide(value) if hidden and isinstance(value, str) else value
