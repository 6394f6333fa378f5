"""What is made of the answers of librdkafka's Admin client.

The client is a fake: on one embedded broker there is none that is silent beside one that answers. The real
one is asked in ``integration/test_prober_live.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.contract.probe_messages import MemberAnswer
from groupreplay.streaming.kafka.group_admin import (
    ClusterLayout,
    GroupAdmin,
    GroupDescription,
    GroupListing,
    Refusal,
)

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

    def list_topics(self, *_: object, **__: object) -> Any:
        """Metadata, or no broker."""
        if isinstance(self.answers["metadata"], BaseException):
            raise self.answers["metadata"]
        return self.answers["metadata"]

    def list_consumer_groups(self, *, states: set[ConsumerGroupState], **_: object) -> Future[Any]:
        """Only the two states are asked for."""
        assert states == {
            ConsumerGroupState.PREPARING_REBALANCING,
            ConsumerGroupState.COMPLETING_REBALANCING,
        }
        return done(self.answers["listing"])

    def describe_configs(self, resources: Sequence[Any], **_: object) -> Mapping[Any, Future[Any]]:
        """The settings of one broker."""
        (resource,) = resources
        return {resource: done(self.answers["configs"][int(resource.name)])}

    def describe_consumer_groups(self, groups: Sequence[str], **_: object) -> Mapping[str, Future[Any]]:
        """All at once."""
        return {group: done(self.answers["groups"][group]) for group in groups}

    def list_offsets(self, wanted: Mapping[Any, Any], **options: Any) -> Mapping[Any, Future[Any]]:
        """Ends by isolation level."""
        ends = self.answers["ends"][options["isolation_level"].name]
        return {
            place: done(
                one
                if isinstance(one := ends[place.partition], BaseException)
                else SimpleNamespace(offset=one)
            )
            for place in wanted
        }


def questions(admin: Admin) -> GroupAdmin:
    """Requests to that client."""

    def forget() -> None:
        admin.forgotten += 1

    def explain(error: KafkaException, where: str) -> GroupReplayError:
        return GroupReplayError(error.args[0].str(), where=where)

    return GroupAdmin(SimpleNamespace(admin=lambda: admin, forget_admin=forget, explain=explain))  # type: ignore[arg-type]


def metadata(**topics: int | None) -> SimpleNamespace:
    """Brokers 1 and 2, and topics with so many partitions (None: an error)."""
    return SimpleNamespace(
        brokers={1: None, 2: None},
        topics={
            name: SimpleNamespace(
                error=None if count else object(), partitions=dict.fromkeys(range(count or 0))
            )
            for name, count in topics.items()
        },
    )


def test_the_layout() -> None:
    """Brokers and partitions; without a first commit there is no topic yet."""
    brokers = frozenset({1, 2})
    for topics, count in (({"__consumer_offsets": 50}, 50), ({"__consumer_offsets": None}, 0), ({}, 0)):
        assert questions(Admin(metadata=metadata(**topics))).layout() == ClusterLayout(brokers, count)
    with pytest.raises(GroupReplayError, match=r"timed out \(__consumer_offsets\)"):
        questions(Admin(metadata=SILENT)).layout()


def listing(errors: Sequence[Any] = (), *groups: str) -> SimpleNamespace:
    """What ListGroups came to."""
    return SimpleNamespace(valid=[SimpleNamespace(group_id=group) for group in groups], errors=errors)


NAMED = KafkaException(
    KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, "Broker [2] ListConsumerGroups: loading")
)
LOADING = "Broker [2] ListConsumerGroups: loading"


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
    admin = Admin(listing=listing(errors, "g"), configs=configs)
    assert questions(admin).rebalancing([1, 2]) == GroupListing(frozenset({"g"}), brokers)


def test_no_listing_at_all() -> None:
    """The whole question failed: that says nothing about any broker."""
    assert questions(Admin(listing=SILENT)).rebalancing([1, 2]) == GroupListing(
        frozenset(), {1: "timed out", 2: "timed out"}
    )


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
    forbidden = KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "no"))
    described = {
        "busy": group(ConsumerGroupState.PREPARING_REBALANCING),
        "forbidden": forbidden,
        "lost": SILENT,
        "strange": group(ConsumerGroupState.UNKNOWN),
        "late": FutureTimeoutError(),
    }
    found = questions(Admin(groups=described)).describe(list(described))
    member = MemberAnswer(member_id="m", instance_id="i", client_id="a", client_host="/h")
    assert found.pop("busy") == GroupDescription(
        state="PreparingRebalance",
        broker=7,
        protocol_type="consumer",
        protocol="range",
        members=(member,),
    )
    assert {name: isinstance(one, Refusal) and one.unauthorised for name, one in found.items()} == {
        "forbidden": True,
        "lost": False,
        "strange": False,
        "late": False,
    }
    assert questions(Admin()).describe([]) == {}


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (ConsumerGroupState.PREPARING_REBALANCING, "PreparingRebalance"),
        (ConsumerGroupState.COMPLETING_REBALANCING, "CompletingRebalance"),
        (ConsumerGroupState.STABLE, "Stable"),
        (ConsumerGroupState.EMPTY, "Empty"),
        (ConsumerGroupState.DEAD, "Dead"),
    ],
)
def test_states_in_kafkas_words(state: ConsumerGroupState, word: str) -> None:
    """All five states of a classic group."""
    picture = questions(Admin(groups={"g": group(state)})).describe(["g"])["g"]
    assert isinstance(picture, GroupDescription)
    assert picture.state == word


def test_ends() -> None:
    """Both ends of the partitions that answer; after a failure the client is opened anew."""

    def both(high: Mapping[int, Any], stable: Mapping[int, Any]) -> Admin:
        return Admin(ends={"READ_UNCOMMITTED": high, "READ_COMMITTED": stable})

    well = both({0: 5, 1: 9}, {0: 5, 1: 7})
    assert (questions(well).ends(2), well.forgotten) == ({0: (5, 5), 1: (9, 7)}, 0)
    moved = both({0: 5, 1: SILENT}, {0: SILENT, 1: 7})
    assert (questions(moved).ends(2), moved.forgotten) == ({}, 1)
    assert questions(Admin()).ends(0) == {}
