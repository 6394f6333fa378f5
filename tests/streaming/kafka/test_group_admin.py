"""What is made of the answers of librdkafka's Admin client.

The client is a fake: on one embedded broker there is none that is silent beside one that answers. The real
one is asked in ``integration/test_prober_live.py``. Which partition holds a group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, ConsumerGroupState, ConsumerGroupType, KafkaError, KafkaException
from confluent_kafka.admin import ConfigSource

from groupreplay.state.policy.context import OwnSettings
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.probe_messages import MemberAnswer
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.group_admin import (
    ClusterLayout,
    GroupAdmin,
    GroupDescription,
    GroupListing,
    Refusal,
    own_settings_now,
)
from groupreplay.streaming.kafka.topic_identity import TopicIdentity

#: All states of a classic group.
STATES = {
    "PreparingRebalance": ConsumerGroupState.PREPARING_REBALANCING,
    "CompletingRebalance": ConsumerGroupState.COMPLETING_REBALANCING,
    "Stable": ConsumerGroupState.STABLE,
    "Empty": ConsumerGroupState.EMPTY,
    "Dead": ConsumerGroupState.DEAD,
}
LOADING = "Broker [2] ListConsumerGroups: loading"
NAMED = KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, LOADING))
SILENT = KafkaException(KafkaError(KafkaError._TIMED_OUT, "timed out"))
REFUSED = KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no"))


def done(outcome: object) -> Future[Any]:
    """A future that has ended."""
    future: Future[Any] = Future()
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
    return future


class Admin:
    """Answers as told."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.forgotten = 0
        self.described_at_once: list[int] = []

    def list_topics(self, *_: object, **__: object) -> Any:
        return done(self.answers["metadata"]).result()

    def list_consumer_groups(
        self,
        *,
        states: Collection[ConsumerGroupState] = (),
        types: Collection[ConsumerGroupType] = (),
        **_: object,
    ) -> Future[Any]:
        assert {*states, *types} in (
            {STATES["PreparingRebalance"], STATES["CompletingRebalance"]},
            {ConsumerGroupType.CONSUMER},
        )
        return done(self.answers["listing"])

    def describe_configs(self, resources: Sequence[Any], **_: object) -> Mapping[Any, Future[Any]]:
        if "settings" in self.answers:
            self.described_at_once.append(len(resources))
            return {one: done(self.answers["settings"].get(one.name, REFUSED)) for one in resources}
        (resource,) = resources
        return {resource: done(self.answers["configs"][int(resource.name)])}

    def describe_consumer_groups(self, groups: Sequence[str], **_: object) -> Mapping[str, Future[Any]]:
        self.described_at_once.append(len(groups))
        return {group: done(self.answers["groups"][group]) for group in groups}

    def list_offsets(self, wanted: Mapping[Any, Any], **options: Any) -> Mapping[Any, Future[Any]]:
        ends = self.answers["ends"][options["isolation_level"].name]
        found = {place: ends[place.partition] for place in wanted}
        return {
            place: done(SimpleNamespace(offset=one) if isinstance(one, int) else one)
            for place, one in found.items()
        }


def questions(admin: Admin) -> GroupAdmin:
    """Requests to that client."""

    def forget() -> None:
        admin.forgotten += 1

    connection = Connection(Cluster(bootstrap_servers="h:1"))
    connection.__dict__.update(admin=lambda: admin, forget_admin=forget)
    return GroupAdmin(connection)


def metadata(**topics: int | None) -> SimpleNamespace:
    """Brokers 1 and 2, and topics with so many partitions (None: an error), of which the first has no leader."""
    found = {
        name: SimpleNamespace(
            error=None if count else object(),
            partitions={number: SimpleNamespace(leader=2 if number else -1) for number in range(count or 0)},
        )
        for name, count in topics.items()
    }
    return SimpleNamespace(brokers={1: None, 2: None}, topics=found)


def test_the_layout() -> None:
    """Brokers, partitions and their leaders; without a first commit there is no topic yet."""
    brokers = frozenset({1, 2})
    for topics, count in (({"__consumer_offsets": 50}, 50), ({"__consumer_offsets": None}, 0), ({}, 0)):
        layout = questions(Admin(metadata=metadata(**topics))).layout()
        assert layout == ClusterLayout(brokers, count, dict.fromkeys(range(1, count), 2))
    with pytest.raises(GroupReplayError, match=r"timed out \(__consumer_offsets, h:1\)"):
        questions(Admin(metadata=SILENT)).layout()


def typed(name: str, kind: ConsumerGroupType) -> SimpleNamespace:
    """A group as librdkafka lists it by its type."""
    return SimpleNamespace(group_id=name, type=kind)


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        (
            SimpleNamespace(
                valid=[
                    typed("a", ConsumerGroupType.CONSUMER),
                    typed("b", ConsumerGroupType.CLASSIC),
                    typed("c", ConsumerGroupType.UNKNOWN),
                ],
                errors=[],
            ),
            frozenset({"a"}),
        ),
        (SimpleNamespace(valid=[], errors=[SILENT]), None),
        (SILENT, None),
    ],
    ids=["a broker before 3.8 does not filter", "one is silent", "all are"],
)
def test_the_groups_of_the_newer_protocol(listing: Any, expected: frozenset[str] | None) -> None:
    """Those that are said to be; without the answer of a broker it is not known which there are."""
    assert questions(Admin(listing=listing)).consumer_groups() == expected


def entry(value: str, source: ConfigSource) -> SimpleNamespace:
    """A setting as librdkafka describes it."""
    return SimpleNamespace(value=value, source=source.value)


def test_what_groups_have_set_for_themselves() -> None:
    """Settings that something rests on, in requests of 100 groups; no word about a group that is refused."""
    own = {
        "consumer.session.timeout.ms": entry("8000", ConfigSource.GROUP_CONFIG),
        "consumer.heartbeat.interval.ms": entry("2000", ConfigSource.STATIC_BROKER_CONFIG),
        "share.heartbeat.interval.ms": entry("5000", ConfigSource.DEFAULT_CONFIG),
        "streams.num.standby.replicas": entry("1", ConfigSource.GROUP_CONFIG),
    }
    names = [f"g{number}" for number in range(150)]
    others: dict[str, Any] = {name: {} for name in names[2:]}
    admin = Admin(settings={"g1": own, **others})
    settings = questions(admin).own_settings(names)
    assert settings == {"g1": {"consumer.session.timeout.ms": 8_000}, **others}
    assert admin.described_at_once == [100, 50]
    assert questions(admin).own_settings([]) == {}


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        (
            SimpleNamespace(
                valid=[typed(name, ConsumerGroupType.CONSUMER) for name in ("a", "b", "c")], errors=[]
            ),
            OwnSettings({"a": {"consumer.session.timeout.ms": 8_000}}, frozenset({"a", "b"})),
        ),
        (SILENT, None),
    ],
)
def test_the_settings_of_now(listing: Any, expected: OwnSettings | None) -> None:
    """Which groups were described is part of it: of others nobody knows what they have set."""
    own = {"consumer.session.timeout.ms": entry("8000", ConfigSource.GROUP_CONFIG)}
    connection = questions(Admin(listing=listing, settings={"a": own, "b": {}}))._connection
    assert own_settings_now(connection) == expected


def listed(name: str, word: str | None) -> SimpleNamespace:
    """A group as librdkafka lists it; None: the broker gives no state."""
    return SimpleNamespace(group_id=name, state=ConsumerGroupState.UNKNOWN if word is None else STATES[word])


@pytest.mark.parametrize(
    ("errors", "configs", "brokers"),
    [
        ([], {}, {1: None, 2: None}),
        ([NAMED], {}, {1: None, 2: LOADING}),
        ([SILENT], {1: {}, 2: SILENT}, {1: None, 2: "timed out"}),
        ([SILENT], {1: REFUSED, 2: SILENT}, {1: None, 2: "timed out"}),
        ([SILENT, NAMED], {1: SILENT}, {1: "timed out", 2: LOADING}),
        ([SILENT], {1: {}, 2: {}}, {1: "timed out", 2: "timed out"}),
    ],
    ids=["all well", "named", "found out", "a refusal is an answer", "both", "it may be any"],
)
def test_which_brokers_answered(
    errors: Sequence[Any], configs: dict[int, Any], brokers: dict[int, str | None]
) -> None:
    """Librdkafka does not say which broker was silent: each is asked, and in doubt none counts as heard."""
    listing = SimpleNamespace(valid=[listed("g", "PreparingRebalance")], errors=errors)
    found = questions(Admin(listing=listing, configs=configs)).rebalancing([1, 2])
    assert found == GroupListing(frozenset({"g"}), brokers)


def test_no_listing_at_all() -> None:
    """The whole question failed: that says nothing about any broker."""
    found = questions(Admin(listing=SILENT)).rebalancing([1, 2])
    assert found == GroupListing(frozenset(), {1: "timed out", 2: "timed out"})


def group(state: ConsumerGroupState) -> SimpleNamespace:
    """A group as librdkafka describes it."""
    member = SimpleNamespace(member_id="m", group_instance_id="i", client_id="a", host="/h", assignment=None)
    return SimpleNamespace(
        state=state,
        coordinator=SimpleNamespace(id=7),
        is_simple_consumer_group=False,
        partition_assignor="range",
        members=[member],
    )


def test_groups() -> None:
    """In Kafka's own words; what is no picture tells whether it was the rights."""
    refusals = {
        "forbidden": KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "no")),
        "lost": SILENT,
        "strange": group(ConsumerGroupState.UNKNOWN),
        "late": FutureTimeoutError(),
    }
    described = {**{word: group(state) for word, state in STATES.items()}, **refusals}
    member = MemberAnswer(member_id="m", instance_id="i", client_id="a", client_host="/h")
    assert questions(Admin(groups=described)).describe(list(described)) == {
        word: GroupDescription(
            state=word, broker=7, protocol_type="consumer", protocol="range", members=(member,)
        )
        for word in STATES
    } | {name: Refusal(unauthorised=name == "forbidden") for name in refusals}
    assert questions(Admin()).describe([]) == {}


def test_a_broker_that_lists_no_states(caplog: pytest.LogCaptureFixture) -> None:
    """Before 2.6 all groups are listed: those are described, and one warning says so."""
    described: dict[str, Any] = {word: group(state) for word, state in STATES.items()} | {"lost": SILENT}
    # Of two brokers one is newer already.
    valid = [*(listed(name, None) for name in described), listed("new", "CompletingRebalance")]
    admin = questions(Admin(listing=SimpleNamespace(valid=valid, errors=[]), groups=described))
    expected = GroupListing(
        frozenset({"PreparingRebalance", "CompletingRebalance", "new"}), {1: None, 2: None}
    )
    assert [admin.rebalancing([1, 2]) for _ in range(2)] == [expected] * 2
    assert [record.getMessage() for record in caplog.records] == [
        "the brokers (before 2.6) list groups without their states: each round of the prober describes all "
        "groups; with many groups choose a longer --probe-interval"
    ]


def test_many_groups_without_states() -> None:
    """They are described in parts, each with a timeout of its own: one for all would be over before the last answer."""
    described = {f"g{number}": group(STATES["Stable"]) for number in range(249)}
    described["last"] = group(STATES["PreparingRebalance"])
    valid = [listed(name, None) for name in described]
    admin = Admin(listing=SimpleNamespace(valid=valid, errors=[]), groups=described)
    assert questions(admin).rebalancing([1]) == GroupListing(frozenset({"last"}), {1: None})
    assert admin.described_at_once == [100, 100, 50]


def test_ends() -> None:
    """Both ends of the partitions that answer; after a failure the client is opened anew."""
    well = Admin(ends={"READ_UNCOMMITTED": {0: 5, 1: 9}, "READ_COMMITTED": {0: 5, 1: 7}})
    assert (questions(well).ends(2), well.forgotten) == ({0: (5, 5), 1: (9, 7)}, 0)
    moved = Admin(ends={"READ_UNCOMMITTED": {0: 5, 1: SILENT}, "READ_COMMITTED": {0: SILENT, 1: 7}})
    assert (questions(moved).ends(2), moved.forgotten) == ({}, 1)
    assert questions(Admin()).ends(0) == {}


def test_a_leader_that_dies_while_it_is_asked() -> None:
    """For librdkafka it is no error: it returns an invalid offset; a round with it could not be read."""
    ends = {"READ_UNCOMMITTED": {0: 5, 1: OFFSET_INVALID}, "READ_COMMITTED": {0: 5, 1: 7}}
    dying = Admin(ends=ends)
    assert (questions(dying).ends(2), dying.forgotten) == ({0: (5, 5)}, 1)


def test_the_leader_is_the_coordinator() -> None:
    """The broker that leads the group's partition coordinates the group; without a leader nobody does."""
    identity = TopicIdentity("c", "__consumer_offsets", "0", 50, {12: "host:9092 (3)"})
    assert identity.coordinator_of("my-group") == "host:9092 (3)"
    assert identity.coordinator_of("testgroup") is None
