"""The vote of a classic group's members for a protocol (``ClassicGroup.selectProtocol``).

A record only has the metadata of the chosen protocol, so the replay cannot repeat the vote; the model can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence


def candidate_protocols(supported: Mapping[str, Sequence[str]]) -> list[str]:
    """Protocols that all members support, in the first member's order. ``supported``: protocols by member id."""
    preferences = list(supported.values())
    if not preferences:
        return []
    common = set(preferences[0]).intersection(*preferences[1:])
    return [protocol for protocol in preferences[0] if protocol in common]


def vote(supported_protocols: Sequence[str], candidates: Sequence[str]) -> str:
    """The first of a member's protocols that is a candidate.

    Raises ValueError when the member supports none of them, as Kafka does: such a member cannot join.
    """
    allowed = set(candidates)
    for protocol in supported_protocols:
        if protocol in allowed:
            return protocol
    raise ValueError(
        f"member supports none of the candidates {list(candidates)}: {list(supported_protocols)}"
    )


def select_protocol(supported: Mapping[str, Sequence[str]]) -> str:
    """The candidate with most votes; among equals, the first candidate.

    Raises ValueError without members or without a common protocol.
    """
    candidates = candidate_protocols(supported)
    if not candidates:
        raise ValueError("no protocol is supported by every member")
    votes = Counter(vote(protocols, candidates) for protocols in supported.values())
    return max(candidates, key=lambda protocol: votes[protocol])
