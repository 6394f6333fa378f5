"""May a group move to another rebalance protocol: ``consumer`` (KIP-848) or ``streams`` (KIP-1071)?

What brokers refuse is what Kafka 4.0 to 4.4 check: ``GroupMetadataManager.validateOnlineUpgrade``,
``convertToConsumerGroup``, ``ConsumerGroup.fromClassicGroup`` and ``getOrCreateStreamsGroup``. An Empty group is always
converted. docs/ready.md has the verdicts and the known faults in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Literal

import msgspec

from groupreplay.codecs import (
    Assignment,
    GroupMetadataValue,
    MemberMetadata,
    Subscription,
    decode_assignment,
    decode_subscription,
)
from groupreplay.codecs.kafka_terms import (
    CONSUMER_PROTOCOL_TYPE,
    CONSUMER_SESSION_BOUND,
    DEFAULT_SESSION_TIMEOUT_MS,
    LONGEST_CONSUMER_SESSION_MS,
    GroupType,
)
from groupreplay.state.phrases import counted, counted_verb, first_of, member, milliseconds, safe_text
from groupreplay.state.policy.context import ASSUMED_SESSIONS, BrokerRelease, SessionSettings
from groupreplay.timeline.protocol_faults import UNNAMED, Target


class Verdict(str, Enum):
    """What can be said of a group, the worst first."""

    BLOCKED = "blocked"
    UNKNOWN = "unknown"
    HALF_WAY = "half_way"
    CHANGES = "changes"
    READY = "ready"
    DONE = "done"
    NOT_APPLICABLE = "not_applicable"

    @property
    def words(self) -> str:
        """As part of a count: ``3 with changes``."""
        return "with changes" if self is Verdict.CHANGES else self.value.replace("_", " ")


WORST_FIRST: Final = {verdict: place for place, verdict in enumerate(Verdict)}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One fact about the move, and what to do about it.

    ``basis``: the log has it; the brokers' settings have it; or it rests on an assumed setting. ``members`` are the
    member ids that it is about; empty: the group.
    """

    verdict: Verdict
    fact: str
    do: str = ""
    basis: Literal["log", "brokers", "assumed"] = "log"
    members: tuple[str, ...] = ()


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one group: the worst of its findings."""

    group_id: str
    type: str
    state: str
    members: int
    to: Target
    verdict: Verdict
    findings: tuple[Finding, ...] = ()


class BrokerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the brokers; None: not known, and Kafka's default is assumed.

    ``release`` (4, 0) stands for each later one, because brokers since 4.0 do not name theirs. ``max_size`` is
    ``group.consumer.max.size``, ``policy`` is ``group.consumer.migration.policy``. ``own_settings``: what groups
    have set for themselves.
    """

    release: BrokerRelease | None = None
    max_size: int | None = None
    policy: str | None = None
    session: SessionSettings = ASSUMED_SESSIONS
    own_settings: Mapping[str, Mapping[str, int]] = {}


#: The first release with the protocol.
_FIRST_RELEASE: Final[Mapping[Target, BrokerRelease]] = {Target.CONSUMER: (4, 0), Target.STREAMS: (4, 1)}
#: What no record has.
NOT_IN_THE_LOG: Final[Mapping[Target, str]] = {
    Target.CONSUMER: (
        "the log does not show the versions of the clients (Java 4.0, librdkafka 2.12 or later), and not whether they "
        "call enforceRebalance or use a rebalance listener that expects all partitions at once"
    ),
    Target.STREAMS: (
        "the log does not show the version of Kafka Streams (4.2 or later), and not whether the application subscribes "
        "to source topics by a pattern or uses warm-up tasks, which brokers up to 4.4 refuse"
    ),
}
#: The assignor of Kafka Streams on the classic protocol.
_STREAMS_ASSIGNOR: Final = "stream"
_RANGE: Final = "range"
#: Kafka's other assignors; the brokers' ``uniform`` is the nearest to each.
_NEAR_UNIFORM: Final = frozenset({"roundrobin", "sticky", "cooperative-sticky"})
_UPGRADES: Final = frozenset({"upgrade", "bidirectional"})
_OWN_SESSION: Final = "consumer.session.timeout.ms"
#: The first release in which members of a streams group may be static.
_STATIC_STREAMS: Final = (4, 4)


def readiness(
    group: Mapping[str, Any], last: GroupMetadataValue | None, to: Target, brokers: BrokerFacts
) -> Readiness:
    """The verdict on one group as ``Group.describe`` has it.

    ``last`` is the last record of the classic group that has members; None: the log has none.
    """
    findings = tuple(sorted(_FINDINGS[to](group, last, brokers), key=lambda each: WORST_FIRST[each.verdict]))
    return Readiness(
        group_id=group["group_id"],
        type=group["type"],
        state=group["state"],
        members=len(group["members"]),
        to=to,
        verdict=findings[0].verdict if findings else Verdict.READY,
        findings=findings,
    )


def _consumer_findings(
    group: Mapping[str, Any], last: GroupMetadataValue | None, brokers: BrokerFacts
) -> Iterator[Finding]:
    kind = group["type"]
    if kind == GroupType.CONSUMER.value:
        yield _progress(group)
    elif kind != GroupType.CLASSIC.value:
        yield _not_applicable(f"it is a {kind} group")
    elif (reason := _other_use(group, last)) is not None:
        yield _not_applicable(reason)
    else:
        yield from _release_findings(Target.CONSUMER, brokers)
        if group["members"]:
            yield from _refusals(last, brokers)
        if last is not None:
            yield from _assignor_findings(last.protocol)
            yield from _session_findings(group["group_id"], last.members, brokers)


def _other_use(group: Mapping[str, Any], last: GroupMetadataValue | None) -> str | None:
    """Why a classic group is none of consumers that could use the new protocol."""
    if group["simple"]:
        return "it has no members, only commits offsets: the protocol does not concern it"
    if group["protocol_type"] != CONSUMER_PROTOCOL_TYPE:
        return f"its members speak the protocol {safe_text(str(group['protocol_type']))!r}, not that of consumers"
    if last is not None and last.protocol == _STREAMS_ASSIGNOR:
        return "it is a Kafka Streams application: see --to streams"
    return None


def _progress(group: Mapping[str, Any]) -> Finding:
    """A consumer group: all members moved, or some have not."""
    old = [each for each in group["members"] if each["member_protocol"] == "classic"]
    if not old:
        return Finding(verdict=Verdict.DONE, fact="all its members use the consumer protocol")
    return Finding(
        verdict=Verdict.HALF_WAY,
        fact=f"{len(old)} of {counted(len(group['members']), 'member')} use the classic protocol: "
        f"{first_of(old, member)}",
        do="restart them with group.protocol=consumer",
        members=tuple(each["member_id"] for each in old),
    )


def _release_findings(to: Target, brokers: BrokerFacts) -> Iterator[Finding]:
    release, first = brokers.release, _FIRST_RELEASE[to]
    if release is not None and release < UNNAMED:
        yield Finding(
            verdict=Verdict.BLOCKED,
            fact=f"the brokers run Kafka {release[0]}.{release[1]}, and the protocol needs {first[0]}.{first[1]}",
            do=f"upgrade the brokers to {first[0]}.{first[1]} or later first",
            basis="brokers",
        )


def _refusals(last: GroupMetadataValue | None, brokers: BrokerFacts) -> Iterator[Finding]:
    """What makes the brokers refuse a member of the new protocol in a group that has classic members."""
    if last is None:
        yield Finding(
            verdict=Verdict.UNKNOWN,
            fact="the log has no record of its members that can be decoded",
            do="groupreplay decode --group names the record",
        )
        return
    stop = "stop all members and start them with group.protocol=consumer"
    if brokers.policy is not None and brokers.policy.lower() not in _UPGRADES:
        yield Finding(
            verdict=Verdict.BLOCKED,
            fact=f"group.consumer.migration.policy is {safe_text(brokers.policy)}",
            do=f"{stop}; or set the policy to upgrade or bidirectional",
            basis="brokers",
        )
    if brokers.max_size is not None and len(last.members) > brokers.max_size:
        yield Finding(
            verdict=Verdict.BLOCKED,
            fact=f"it has {counted(len(last.members), 'member')}, and group.consumer.max.size is {brokers.max_size}",
            do="raise group.consumer.max.size",
            basis="brokers",
        )
    custom = [each for each in last.members if _has_user_data(each)]
    if custom:
        yield _blocked_by(
            custom,
            f"the assignor {safe_text(last.protocol or '?')!r} puts data of its own into assignments",
            f"{stop}; or roll all members to range, roundrobin, sticky or cooperative-sticky first",
        )
    unreadable = [each for each in last.members if _is_unreadable(each)]
    if unreadable:
        yield _blocked_by(
            unreadable, "a subscription or an assignment is not in the format of Kafka's consumers", stop
        )


def _blocked_by(members: Sequence[MemberMetadata], fact: str, do: str) -> Finding:
    names = first_of(members, lambda each: member(_client(each)))
    return Finding(
        verdict=Verdict.BLOCKED,
        fact=f"{fact}: {names}",
        do=do,
        members=tuple(each.member_id for each in members),
    )


def _client(each: MemberMetadata) -> dict[str, Any]:
    return {
        "instance_id": each.group_instance_id,
        "client_id": each.client_id,
        "client_host": each.client_host,
    }


def _has_user_data(each: MemberMetadata) -> bool:
    decoded = decode_assignment(each.assignment) if each.assignment else None
    return isinstance(decoded, Assignment) and bool(decoded.user_data)


def _is_unreadable(each: MemberMetadata) -> bool:
    is_assigned = not each.assignment or isinstance(decode_assignment(each.assignment), Assignment)
    return not is_assigned or not isinstance(decode_subscription(each.subscription), Subscription)


def _assignor_findings(protocol: str | None) -> Iterator[Finding]:
    if protocol is None:
        return
    if protocol == _RANGE:
        yield Finding(
            verdict=Verdict.READY,
            fact="its assignor is range; the brokers' default is uniform",
            do="group.remote.assignor=range keeps it",
        )
        return
    fact = (
        f"its assignor is {protocol}; on the brokers uniform is the nearest"
        if protocol in _NEAR_UNIFORM
        else f"its assignor {safe_text(protocol)!r} runs in the clients; the brokers have none of that name"
    )
    yield Finding(
        verdict=Verdict.CHANGES, fact=fact, do="remove partition.assignment.strategy from the clients"
    )


def _session_findings(
    group_id: str, members: Sequence[MemberMetadata], brokers: BrokerFacts
) -> Iterator[Finding]:
    """Session timeouts that clients have set, or that change: in the new protocol it is the brokers' or the group's."""
    session = brokers.session
    own_ms = (brokers.own_settings.get(group_id) or {}).get(_OWN_SESSION)
    new_ms, is_assumed = own_ms or session.timeout_ms, not own_ms and session.timeout_from == "default"
    # Clients that have set nothing have the same default as brokers.
    other = [each for each in members if {each.session_timeout_ms, new_ms} != {DEFAULT_SESSION_TIMEOUT_MS}]
    if not other:
        return
    whose = "the group's own" if own_ms else "Kafka's default" if is_assumed else "the brokers'"
    lengths = [milliseconds(length) for length in sorted({each.session_timeout_ms for each in other})]
    longest_ms = max(each.session_timeout_ms for each in members)
    kept = "it" if len(lengths) == 1 else "the longest"
    keep = "" if longest_ms == new_ms else f"; {_keeping(group_id, longest_ms, session, kept)}"
    yield Finding(
        verdict=Verdict.CHANGES,
        fact=f"{counted_verb(len(other), 'member', 'has', 'have')} a session timeout of "
        f"{', '.join(lengths)}; {whose} is {milliseconds(new_ms)}",
        do=f"remove session.timeout.ms and heartbeat.interval.ms from the clients{keep}",
        basis="assumed" if is_assumed else "brokers",
        members=tuple(each.member_id for each in other),
    )


def _keeping(group_id: str, longest_ms: int, session: SessionSettings, kept: str) -> str:
    """How a group keeps its longest session."""
    least_ms = session.timeout_ms if session.timeout_from == "default" else session.least_ms
    if longest_ms < least_ms:
        return f"a group may have {milliseconds(least_ms)} at least (group.consumer.min.session.timeout.ms)"
    is_allowed = longest_ms <= max(LONGEST_CONSUMER_SESSION_MS, session.timeout_ms)
    most = f", if {CONSUMER_SESSION_BOUND} allows it (Kafka's default is {milliseconds(LONGEST_CONSUMER_SESSION_MS)})"
    return (
        f"kafka-configs.sh --alter --entity-type groups --entity-name {safe_text(group_id)} --add-config "
        f"{_OWN_SESSION}={longest_ms} keeps {kept}{'' if is_allowed else most}"
    )


def _streams_findings(
    group: Mapping[str, Any], last: GroupMetadataValue | None, brokers: BrokerFacts
) -> Iterator[Finding]:
    kind = group["type"]
    if kind == GroupType.STREAMS.value:
        yield Finding(verdict=Verdict.DONE, fact="it is a streams group")
    elif kind != GroupType.CLASSIC.value:
        yield _not_applicable(f"it is a {kind} group")
    elif group["simple"] or group["protocol_type"] != CONSUMER_PROTOCOL_TYPE:
        yield _not_applicable("it is no group of consumers")
    elif last is None:
        yield Finding(
            verdict=Verdict.UNKNOWN, fact="the log has no member of it, so nothing shows what it belongs to"
        )
    elif last.protocol != _STREAMS_ASSIGNOR:
        yield _not_applicable(
            f"its members are no Kafka Streams application: their assignor is {safe_text(last.protocol or '?')}"
        )
    else:
        yield from _release_findings(Target.STREAMS, brokers)
        yield from _streams_application(group, last)


def _streams_application(group: Mapping[str, Any], last: GroupMetadataValue) -> Iterator[Finding]:
    if group["members"]:
        yield Finding(
            verdict=Verdict.BLOCKED,
            fact=f"it has {counted(len(group['members']), 'member')}, and brokers convert only Empty groups",
            do="stop all instances, wait until the group is Empty, start them with group.protocol=streams; committed "
            "offsets stay",
        )
    static = [each for each in last.members if each.group_instance_id]
    if static:
        yield Finding(
            verdict=Verdict.CHANGES,
            fact=f"{counted(len(static), 'member')} with a group.instance.id, which brokers before "
            f"{_STATIC_STREAMS[0]}.{_STATIC_STREAMS[1]} refuse in streams groups",
            do="remove group.instance.id, or upgrade the brokers first",
            members=tuple(each.member_id for each in static),
        )


def _not_applicable(fact: str) -> Finding:
    return Finding(verdict=Verdict.NOT_APPLICABLE, fact=fact)


_FINDINGS: Final = {Target.CONSUMER: _consumer_findings, Target.STREAMS: _streams_findings}
