"""An incident in words: one sentence, and what to do first."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from groupreplay.state.conditions.registry import kind_named
from groupreplay.state.events.event import Severity
from groupreplay.state.events.group_events import MemberLeft, RebalanceCompleted
from groupreplay.state.events.incident_events import Shared
from groupreplay.state.events.offset_events import OffsetsDeleted, OffsetsReset, OffsetsSet
from groupreplay.state.phrases import counted, milliseconds, safe_text
from groupreplay.timeline.diagnosis import FirstStep
from groupreplay.timeline.event_reading import clock

_ALSO_SHOWN: Final = 2
#: What happened to fewer than a fifth of the groups may be chance.
_ALSO_SHARE: Final = 5
_DID: Final = {
    RebalanceCompleted.NAME: "rebalanced",
    MemberLeft.NAME: "lost a member",
    OffsetsDeleted.NAME: "lost committed offsets",
    OffsetsReset.NAME: "began at another offset",
    OffsetsSet.NAME: "had their offsets set",
}
_SHARE: Final = {
    "broker": "have broker {} as coordinator",
    "partition": "are in partition {} of __consumer_offsets",
    "topic": "consume topic {}",
    "host": "run on host {}",
    "client": "run client {}",
}
_FIRST: Final = {
    "broker": (
        "Look whether broker {value} is up and reachable, and at its log around that time.",
        "kafka-broker-api-versions.sh --bootstrap-server HOST:PORT",
    ),
    "partition": (
        "Look at the leader and the replicas of partition {value} of __consumer_offsets, and at its leader's log.",
        "kafka-topics.sh --bootstrap-server HOST:PORT --describe --topic __consumer_offsets",
    ),
    "topic": (
        "Look at topic {value}: whether it exists, its partitions have leaders, and records are written to it.",
        "kafka-topics.sh --bootstrap-server HOST:PORT --describe --topic {quoted}",
    ),
    "host": (
        "Look whether host {value} is up: its members are gone, or do not answer, in all of these groups.",
        "ping -c 3 {quoted}",
    ),
    "client": (
        "Ask who has deployed or restarted client {value} at that time; if nobody has, look at its log.",
        "groupreplay explain --all-groups --bootstrap-server HOST:PORT",
    ),
    "": (
        "Look at what all clients need: the brokers, the network, the login, quotas.",
        "groupreplay explain --all-groups --bootstrap-server HOST:PORT",
    ),
}


class Proof(NamedTuple):
    """What the brokers have answered: a topic is deleted, or a partition has another leader, or one that fails."""

    what: str
    partition: int = -1
    before: int = -1
    after: int = -1
    error: str | None = None


def main_kind(kinds: Mapping[str, int]) -> str:
    """What happened: that of the highest severity, and of these that of most groups; a rebalance last."""

    def rank(kind: str) -> tuple[bool, int, int, str]:
        severity = Severity.WARN if kind in _DID else kind_named(kind).SEVERITY
        return kind != RebalanceCompleted.NAME, int(severity), kinds[kind], kind

    return max(kinds, key=rank)


def incident_text(incident: Mapping[str, Any], proof: Proof | None, all_groups: int) -> str:
    """``120 groups stopped committing at 03:50:25 UTC within 2 s; all consume topic orders, as do 3 of 280``."""
    kinds: Mapping[str, int] = incident["kinds"]
    kind, count = main_kind(kinds), incident["group_count"]
    often = [other for other in kinds if other != kind and _ALSO_SHARE * kinds[other] >= count]
    others = [f"{counted(kinds[other], 'group')} {_did(other)}" for other in often]
    also = f" ({', '.join(others[:_ALSO_SHOWN])})" if others else ""
    span_ms = incident["last_began_ms"] - incident["since_ms"]
    within = "in one moment" if span_ms < 1 else f"within {milliseconds(span_ms)}"
    head = f"{counted(count, 'group')} {_did(kind)} at {clock(incident['since_ms'])} UTC {within}{also}"
    if not incident["shared"] and count >= all_groups:
        return f"{head}; these are all groups"
    return f"{head}; {_what_is_shared(incident['shared'])}{_proof_text(incident['shared'], proof)}"


def _did(kind: str) -> str:
    if kind in _DID:
        return _DID[kind]
    return kind_named(kind).GROUPS_DID or f"began to have {safe_text(kind)}"


def _what_is_shared(shared: Sequence[Shared]) -> str:
    if not shared:
        return "only the moment sets them apart from the other groups"
    phrases = [_SHARE[each.kind].format(safe_text(each.value)) for each in shared[:_ALSO_SHOWN]]
    return f"all {' and '.join(phrases)}, {_other_groups(shared[0])}"


def _other_groups(main: Shared) -> str:
    if not main.all_other_groups:
        return "which are all groups"
    if main.all_other_groups == 1:
        return "so does the other one" if main.other_groups else "the other one does not"
    if not main.other_groups:
        return f"none of the {main.all_other_groups} others does"
    do = "does" if main.other_groups == 1 else "do"
    return f"so {do} {main.other_groups} of the {main.all_other_groups} others"


def _proof_text(shared: Sequence[Shared], proof: Proof | None) -> str:
    if proof is None:
        return ""
    if proof.what == "deleted":
        return f": topic {safe_text(shared[0].value)} was deleted"
    error = "" if proof.error is None else f", which answered: {safe_text(proof.error)}"
    if proof.before == proof.after:
        return f": broker {proof.after} did not answer ({safe_text(proof.error or '')})" if error else ""
    return f": partition {proof.partition} moved from broker {proof.before} to broker {proof.after}{error}"


def first_step(shared: Sequence[Shared], runbook: str) -> FirstStep:
    """What to do first about what the groups share; with nothing, about what all clients need."""
    kind, value = (shared[0].kind, shared[0].value) if shared else ("", "")
    text, command = _FIRST[kind]
    return FirstStep(
        text=text.format(value=safe_text(value)),
        about=f"{kind} {safe_text(value)}".strip(),
        command=command.format(quoted=shlex.quote(safe_text(value))),
        runbook=f"{runbook}#incidents",
    )
