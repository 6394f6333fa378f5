"""How the members of a classic group choose their protocol (``ClassicGroup.selectProtocol``).

Knows preferences in order; must not know what a protocol does. A record shows only the chosen protocol of
each member, so from the log the vote can be checked, not replayed; the coordinator model holds it whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence


def candidate_protocols(supported: Mapping[str, Sequence[str]]) -> list[str]:
    """Protocols that every member supports, in the first member's order; ``supported`` is by member id."""
    preferences = list(supported.values())
    if not preferences:
        return []
    common = set(preferences[0]).intersection(*preferences[1:])
    return [protocol for protocol in preferences[0] if protocol in common]


def vote(supported_protocols: Sequence[str], candidates: Sequence[str]) -> str:
    """The first of a member's protocols that is a candidate.

    Raises ValueError when the member supports none of them, as Kafka does: such a member is never admitted.
    """
    allowed = set(candidates)
    for protocol in supported_protocols:
        if protocol in allowed:
            return protocol
    raise ValueError(
        f"member supports none of the candidates {list(candidates)}: {list(supported_protocols)}"
    )


def select_protocol(supported: Mapping[str, Sequence[str]]) -> str:
    """The candidate with most votes; of equals, the one that stands first among the candidates.

    Raises ValueError without members or without a common protocol.
    """
    candidates = candidate_protocols(supported)
    if not candidates:
        raise ValueError("no protocol is supported by every member")
    votes = Counter(vote(protocols, candidates) for protocols in supported.values())
    return max(candidates, key=lambda protocol: votes[protocol])
