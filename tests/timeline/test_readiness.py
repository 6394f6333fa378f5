"""Whether a group may move to another protocol: the verdicts that tests/integration/groups/test_ready_live.py lacks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupreplay.codecs import GroupMetadataValue, MemberMetadata
from groupreplay.state.policy.context import SessionSettings
from groupreplay.timeline.protocol_faults import FAULTS, Target, known_faults
from groupreplay.timeline.readiness import BrokerFacts, Readiness, Verdict, readiness
from support.model.classic_clients import owning, subscription

SESSION = SessionSettings(least_ms=45_000)
BROKERS = BrokerFacts(release=(4, 3), max_size=9, policy="bidirectional", session=SESSION)


def group(members: int = 1, **fields: Any) -> dict[str, Any]:
    """A classic group as it is described."""
    described = [{"member_id": f"m{number}", "member_protocol": "classic"} for number in range(members)]
    return {
        "group_id": "g",
        "type": "classic",
        "state": "Stable" if members else "Empty",
        "simple": False,
        "protocol_type": "consumer",
        "members": described,
        **fields,
    }


def last(
    protocol: str = "range", session_ms: int = 45_000, instance_id: str | None = None
) -> GroupMetadataValue:
    """The last record with a member."""
    member = MemberMetadata(
        member_id="m0",
        group_instance_id=instance_id,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=300_000,
        session_timeout_ms=session_ms,
        subscription=subscription("t"),
        assignment=owning("t", 0),
    )
    return GroupMetadataValue(
        version=3,
        protocol_type="consumer",
        generation=1,
        protocol=protocol,
        leader="m0",
        current_state_timestamp_ms=0,
        members=(member,),
    )


def facts(answer: Readiness) -> list[tuple[str, str]]:
    """Verdict and fact of each finding."""
    return [(finding.verdict.value, finding.fact) for finding in answer.findings]


def to_consumer(group: dict[str, Any], last: GroupMetadataValue | None, **brokers: Any) -> Readiness:
    """The verdict with these facts about the brokers."""
    known = {name: getattr(BROKERS, name) for name in BROKERS.__struct_fields__} | brokers
    return readiness(group, last, Target.CONSUMER, BrokerFacts(**known))


def test_brokers_that_refuse() -> None:
    """An old release blocks each group; a policy without upgrades only those with members."""
    old = ("blocked", "the brokers run Kafka 3.9, and the protocol needs 4.0")
    kept = ("ready", "its assignor is range; the brokers' default is uniform")
    assert facts(to_consumer(group(), last(), release=(3, 9))) == [old, kept]
    refused = ("blocked", "group.consumer.migration.policy is downgrade")
    assert facts(to_consumer(group(), last(), policy="downgrade")) == [refused, kept]
    assert facts(to_consumer(group(0, protocol_type="consumer"), last(), policy="disabled")) == [kept]


def test_a_session_timeout_is_told_with_whose_number_it_is_compared() -> None:
    """A client's other session timeout is a change; where the brokers' number is not known, the finding is assumed."""
    known = to_consumer(group(), last(session_ms=10_000)).findings[0]
    assert (known.basis, known.fact, known.do) == (
        "brokers",
        "1 member has a session timeout of 10.0 s; the brokers' is 45.0 s",
        "remove session.timeout.ms and heartbeat.interval.ms from the clients; a group may have 45.0 s at least "
        "(group.consumer.min.session.timeout.ms)",
    )
    assumed = readiness(group(), last(session_ms=60_000), Target.CONSUMER, BrokerFacts()).findings[0]
    assert (assumed.basis, assumed.fact) == (
        "assumed",
        "1 member has a session timeout of 1 min 0 s; Kafka's default is 45.0 s",
    )
    assert assumed.do.endswith("--add-config consumer.session.timeout.ms=60000 keeps it")


def test_a_session_that_the_brokers_may_refuse() -> None:
    """No group may set a longer session than ``group.consumer.max.session.timeout.ms``, a minute by default."""
    long = to_consumer(group(), last(session_ms=300_000)).findings[0]
    assert long.do.endswith(
        "consumer.session.timeout.ms=300000 keeps it, if group.consumer.max.session.timeout.ms allows it "
        "(Kafka's default is 1 min 0 s)"
    )


def test_a_session_that_the_group_has_set_for_itself() -> None:
    """Sessions are compared with the group's own one: what the advice has set is not advised again."""
    own = {"g": {"consumer.session.timeout.ms": 60_000}}
    kept = to_consumer(group(), last(session_ms=60_000), own_settings=own).findings[0]
    remove = "remove session.timeout.ms and heartbeat.interval.ms from the clients"
    assert (kept.basis, kept.fact, kept.do) == (
        "brokers",
        "1 member has a session timeout of 1 min 0 s; the group's own is 1 min 0 s",
        remove,
    )
    other = to_consumer(group(), last(), own_settings=own).findings[0]
    assert other.fact == "1 member has a session timeout of 45.0 s; the group's own is 1 min 0 s"
    assert other.do.endswith("consumer.session.timeout.ms=45000 keeps it")


def test_a_session_that_clients_have_set_as_the_brokers_have() -> None:
    """A session that is not the clients' default was set: the client does not start with it, whatever the brokers'."""
    short = SessionSettings(10_000, 6_000, timeout_from="broker")
    assert to_consumer(group(), last(session_ms=10_000), session=short).verdict is Verdict.CHANGES


def test_the_longest_of_several_sessions_is_kept() -> None:
    """A member with a shorter session does not shorten that of the others."""
    record = last(session_ms=60_000)
    several = [record.members[0], *last(session_ms=50_000).members, *last().members]
    answer = to_consumer(group(3), replace(record, members=tuple(several))).findings[0]
    assert answer.fact == "2 members have a session timeout of 50.0 s, 1 min 0 s; the brokers' is 45.0 s"
    assert answer.do.endswith("consumer.session.timeout.ms=60000 keeps the longest")
    short = SessionSettings(45_000, 6_000, timeout_from="broker")
    mixed = replace(record, members=(*last(session_ms=10_000).members, *last().members))
    assert "keeps" not in to_consumer(group(2), mixed, session=short).findings[0].do


def test_members_without_a_record_are_not_judged() -> None:
    """A group whose members no readable record has is unknown, not ready."""
    assert to_consumer(group(), None).verdict is Verdict.UNKNOWN
    assert to_consumer(group(0), None).verdict is Verdict.READY


STREAMS = [
    (group(), last("stream"), "blocked", "it has 1 member, and brokers convert only Empty groups"),
    (group(0), last("stream"), "ready", None),
    (
        group(0),
        last("stream", instance_id="i"),
        "changes",
        "1 member with a group.instance.id, which brokers before 4.4 refuse in streams groups",
    ),
    (
        group(0),
        last(),
        "not_applicable",
        "its members are no Kafka Streams application: their assignor is range",
    ),
    (group(0), None, "unknown", "the log has no member of it, so nothing shows what it belongs to"),
    (group(type="streams"), None, "done", "it is a streams group"),
    (group(type="share"), None, "not_applicable", "it is a share group"),
]


@pytest.mark.parametrize(("described", "record", "verdict", "fact"), STREAMS)
def test_streams(
    described: dict[str, Any], record: GroupMetadataValue | None, verdict: str, fact: str | None
) -> None:
    """Only an Empty group of a Kafka Streams application is converted, and the log must show that it is one."""
    answer = readiness(described, record, Target.STREAMS, BROKERS)
    assert (answer.verdict.value, facts(answer)) == (verdict, [] if fact is None else [(verdict, fact)])


def test_known_faults_by_release() -> None:
    """Brokers of a named release have its faults; those that name none, and 4.0 or later, may have all of them."""

    def issues(to: Target, release: tuple[int, int] | None) -> list[str]:
        return [fault.issue for fault in known_faults(to, release)]

    every = {fault.issue for fault in FAULTS}
    assert {*issues(Target.CONSUMER, None), *issues(Target.STREAMS, (4, 0))} == every
    assert issues(Target.STREAMS, (4, 2)) == ["KAFKA-20254"]
    assert issues(Target.CONSUMER, (4, 1)) == ["KAFKA-19862", "KAFKA-19233", "KAFKA-20442"]
    assert (issues(Target.CONSUMER, (4, 4)), issues(Target.STREAMS, (4, 4))) == ([], [])
