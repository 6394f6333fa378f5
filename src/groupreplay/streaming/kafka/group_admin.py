"""The prober's requests to a cluster: groups, end offsets, and deleted topics; each for all of them at once.

librdkafka's Admin client lists only groups with the protocol type consumer: rebalances of Kafka Connect workers
are not visible to it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import ConfigEntry, ConfigResource, ConfigSource, OffsetSpec

from groupreplay.codecs import LegacyOffsetCommitKey, OffsetCommitKey, decode_key
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.policy.context import OWN_SETTINGS, OwnSettings
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.contract.log import keys_and_values
from groupreplay.streaming.contract.probe_messages import MemberAnswer
from groupreplay.streaming.kafka.clients import REQUEST_SECONDS, Connection
from groupreplay.streaming.kafka.raw_log import raw_log
from groupreplay.streaming.kafka.topic_reader import read_messages

log = logging.getLogger(__name__)

#: Kafka's names of the states of classic groups.
_STATES: Final[Mapping[ConsumerGroupState, str]] = {
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.EMPTY: "Empty",
    ConsumerGroupState.DEAD: "Dead",
}
_REBALANCING: Final = frozenset(
    {ConsumerGroupState.PREPARING_REBALANCING, ConsumerGroupState.COMPLETING_REBALANCING}
)
#: Groups that are described in one call where all of a cluster must be.
_AT_ONCE: Final = 100
#: How librdkafka names a broker that returned an error; for a broker that did not answer it gives no name.
_BROKER: Final = re.compile(r"Broker \[(-?\d+)\]")
_NO_ANSWER: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._TIMED_OUT_QUEUE})


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """The ids of the brokers, the number of partitions of the offsets topic, and the leader of each that has one."""

    brokers: frozenset[int]
    partitions: int
    leaders: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupListing:
    """Groups that are rebalancing, and the error of each broker (None: it answered)."""

    groups: frozenset[str]
    brokers: Mapping[int, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group as its coordinator describes it; ``state`` in Kafka's spelling."""

    state: str
    broker: int | None
    protocol_type: str
    protocol: str
    members: tuple[MemberAnswer, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A group could not be described."""

    unauthorised: bool


class GroupAdmin:
    """Requests to one cluster. Not thread-safe."""

    def __init__(self, connection: Connection, *, request_seconds: float = REQUEST_SECONDS) -> None:
        self._connection = connection
        self._seconds = request_seconds
        self._told = False

    def layout(self) -> ClusterLayout:
        """The live brokers, and the number of partitions of the offsets topic (0: it does not exist yet).

        Raises:
            GroupReplayError: no broker answers.
        """
        metadata = self._connection.metadata(OFFSETS_TOPIC, OFFSETS_TOPIC, seconds=self._seconds)
        topic = metadata.topics.get(OFFSETS_TOPIC)
        partitions = {} if topic is None or topic.error is not None else topic.partitions
        leaders = {
            number: partition.leader
            for number, partition in sorted(partitions.items())
            if partition.leader >= 0
        }
        return ClusterLayout(frozenset(metadata.brokers), len(partitions), leaders)

    def rebalancing(self, brokers: Collection[int]) -> GroupListing:
        """Groups in PreparingRebalance and CompletingRebalance: one ListGroups to each broker.

        Brokers before 2.6 list all groups, without states; librdkafka drops the filter and raises no error. Those
        groups are described.
        """
        answer = self._answer(
            self._connection.admin().list_consumer_groups(
                states=set(_REBALANCING), request_timeout=self._seconds
            )
        )
        if isinstance(answer, KafkaException):
            return GroupListing(frozenset(), dict.fromkeys(brokers, answer.args[0].str()))
        errors = [error.args[0] if isinstance(error, KafkaException) else error for error in answer.errors]
        stateless = [group.group_id for group in answer.valid if group.state == ConsumerGroupState.UNKNOWN]
        listed = frozenset(group.group_id for group in answer.valid).difference(stateless)
        return GroupListing(listed | self._found_rebalancing(stateless), self._blamed(brokers, errors))

    def _found_rebalancing(self, groups: Sequence[str]) -> frozenset[str]:
        """Those of the groups that are rebalancing, by their descriptions."""
        if groups and not self._told:
            self._told = True
            log.warning(
                "the brokers (before 2.6) list groups without their states: each round of the prober describes all "
                "groups; with many groups choose a longer --probe-interval"
            )
        names = {_STATES[state] for state in _REBALANCING}
        # Each request has the timeout to itself: librdkafka takes 4 to 12 ms for each group.
        described = [
            self.describe(groups[start : start + _AT_ONCE]) for start in range(0, len(groups), _AT_ONCE)
        ]
        return frozenset(
            name
            for answers in described
            for name, description in answers.items()
            if isinstance(description, GroupDescription) and description.state in names
        )

    def describe(self, groups: Sequence[str]) -> dict[str, GroupDescription | Refusal]:
        """Describe these groups, all in one call."""
        if not groups:
            return {}
        answers = self._connection.admin().describe_consumer_groups(
            list(groups), request_timeout=self._seconds
        )
        return {group: self._picture(answer) for group, answer in answers.items()}

    def ends(self, partitions: int) -> dict[int, tuple[int, int]]:
        """(high watermark, last stable offset) of each partition of the offsets topic; without those that fail."""
        # In this order: otherwise records written in between would look like an open transaction.
        high = self._ends(partitions, IsolationLevel.READ_UNCOMMITTED)
        stable = self._ends(partitions, IsolationLevel.READ_COMMITTED)
        if len(high) < partitions or len(stable) < partitions:
            # For this call librdkafka caches partition leaders even after they have changed.
            self._connection.forget_admin()
        return {number: (high[number], stable[number]) for number in sorted(high.keys() & stable.keys())}

    def uncommitted(self, spans: Mapping[int, tuple[int, int]]) -> dict[int, bytes]:
        """The batches of partitions of the offsets topic, also of open transactions; raises what ``raw_log`` raises."""
        return raw_log(self._connection, OFFSETS_TOPIC, spans)

    def topics(self) -> frozenset[str] | None:
        """The topics of the cluster that this login may see; None if no broker answers."""
        try:
            return frozenset(self._connection.metadata("cluster", seconds=self._seconds).topics)
        except GroupReplayError:
            return None

    def unknown_topics(self, topics: Collection[str]) -> frozenset[str]:
        """Those of the topics of which a broker says that they do not exist. Creates none of them."""
        asked = TopicCollection(sorted(topics))
        answers = self._connection.admin().describe_topics(asked, request_timeout=self._seconds)
        descriptions = {topic: self._answer(answer) for topic, answer in answers.items()}
        return frozenset(
            topic
            for topic, description in descriptions.items()
            if isinstance(description, KafkaException)
            and description.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        )

    def removed_offsets(
        self, spans: Mapping[int, tuple[int, int]], topics: Collection[str]
    ) -> set[tuple[str, str]]:
        """(group, topic) of the tombstones of offsets of these topics, in these spans of the offsets topic.

        Raises:
            GroupReplayError: this login may not read the topic, or a partition does not answer.
        """
        starts = {number: start for number, (start, _) in spans.items()}
        ends = {number: end for number, (_, end) in spans.items()}
        batches = read_messages(self._connection, OFFSETS_TOPIC, starts, ends)
        tombstones = (
            decode_key(key)
            for key, value in chain.from_iterable(map(keys_and_values, batches))
            if key is not None and value is None
        )
        return {
            (key.group, key.topic)
            for key in tombstones
            if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey) and key.topic in topics
        }

    def _ends(self, partitions: int, level: IsolationLevel) -> dict[int, int]:
        if not partitions:
            return {}
        wanted = {TopicPartition(OFFSETS_TOPIC, number): OffsetSpec.latest() for number in range(partitions)}
        answers = self._connection.admin().list_offsets(
            wanted, isolation_level=level, request_timeout=self._seconds
        )
        ends = {at.partition: self._answer(answer) for at, answer in answers.items()}
        answered = {n: end.offset for n, end in ends.items() if not isinstance(end, KafkaException)}
        # Below zero: the leader was asked and did not answer.
        return {number: offset for number, offset in answered.items() if offset >= 0}

    def _blamed(self, brokers: Collection[int], errors: Sequence[KafkaError]) -> dict[int, str | None]:
        """Errors by broker. An error without a broker counts for every broker that may have caused it."""
        blamed: dict[int, str | None] = dict.fromkeys(brokers)
        nameless = ""
        for error in errors:
            named = _BROKER.search(error.str())
            if named:
                blamed[int(named[1])] = error.str()
            else:
                nameless = error.str()
        if nameless:
            open_ones = [number for number, error in blamed.items() if error is None]
            silent = self._silent(open_ones)
            blamed.update(dict.fromkeys(silent or open_ones, nameless))
        return blamed

    def _silent(self, brokers: Collection[int]) -> list[int]:
        """The brokers that do not answer: DescribeConfigs of a broker is sent to that broker."""
        admin = self._connection.admin()
        resources = [ConfigResource(ConfigResource.Type.BROKER, str(number)) for number in brokers]
        answers = [
            admin.describe_configs([resource], request_timeout=self._seconds)[resource]
            for resource in resources
        ]
        outcomes = zip(brokers, map(self._answer, answers), strict=True)
        # A refusal is an answer.
        return [
            number
            for number, outcome in outcomes
            if isinstance(outcome, KafkaException) and outcome.args[0].code() in _NO_ANSWER
        ]

    def _picture(self, answer: Future[Any]) -> GroupDescription | Refusal:
        group = self._answer(answer)
        if isinstance(group, KafkaException):
            return Refusal(group.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED)
        if group.state not in _STATES:
            return Refusal(False)
        return GroupDescription(
            state=_STATES[group.state],
            broker=None if group.coordinator is None else group.coordinator.id,
            protocol_type="" if group.is_simple_consumer_group else "consumer",
            protocol=group.partition_assignor or "",
            members=tuple(
                MemberAnswer(
                    member_id=member.member_id,
                    instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.host,
                )
                for member in group.members
            ),
        )

    def _answer(self, answer: Future[Any]) -> Any:
        """The result, or the exception."""
        try:
            # Longer than the request timeout, whose error is more precise.
            return answer.result(2 * self._seconds)
        except KafkaException as error:
            return error
        except FutureTimeoutError:
            return KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def consumer_groups(self) -> frozenset[str] | None:
        """The groups of KIP-848; None if a broker does not answer. librdkafka lists no share or streams groups."""
        answer = self._answer(
            self._connection.admin().list_consumer_groups(
                types={ConsumerGroupType.CONSUMER}, request_timeout=self._seconds
            )
        )
        if isinstance(answer, KafkaException) or answer.errors:
            return None
        # Brokers before 3.8 have no such filter.
        listed = (group.group_id for group in answer.valid if group.type is ConsumerGroupType.CONSUMER)
        return frozenset(listed)

    def own_settings(self, groups: Collection[str]) -> dict[str, dict[str, int]]:
        """What each group has set for itself (``OWN_SETTINGS``); without groups that this login may not describe."""
        names, own = sorted(groups), dict[str, dict[str, int]]()
        for start in range(0, len(names), _AT_ONCE):
            asked = [
                ConfigResource(ConfigResource.Type.GROUP, name) for name in names[start : start + _AT_ONCE]
            ]
            answers = self._connection.admin().describe_configs(asked, request_timeout=self._seconds)
            for resource, answer in answers.items():
                settings = self._answer(answer)
                if not isinstance(settings, KafkaException):
                    own[resource.name] = _own(settings)
        return own

    def refusal_of_settings(self, group: str) -> int | None:
        """The code of the error with which brokers refuse the settings of a group; None: they answer."""
        resource = ConfigResource(ConfigResource.Type.GROUP, group)
        answers = self._connection.admin().describe_configs([resource], request_timeout=self._seconds)
        settings = self._answer(answers[resource])
        return settings.args[0].code() if isinstance(settings, KafkaException) else None


def _own(settings: Mapping[str, ConfigEntry]) -> dict[str, int]:
    return {
        name: int(settings[name].value)
        for name in sorted(OWN_SETTINGS & settings.keys())
        if settings[name].source == ConfigSource.GROUP_CONFIG.value and settings[name].value.isdigit()
    }


def group_names(connection: Connection) -> list[str]:
    """The ids of the groups that the brokers list to this login, as far as they answer.

    librdkafka lists only groups of consumers.
    """
    try:
        listed = connection.admin().list_consumer_groups(request_timeout=REQUEST_SECONDS).result()
    except KafkaException as error:
        log.debug("no list of groups: %s", error)
        return []
    return sorted(group.group_id for group in listed.valid)


def committed_offsets(connection: Connection, group: str) -> dict[tuple[str, int], int]:
    """The committed offsets of a group now, by topic and partition; without those of open transactions.

    Raises:
        GroupReplayError: the coordinator does not answer, or this login may not describe the group.
    """
    asked = ConsumerGroupTopicPartitions(group)
    try:
        answers = connection.admin().list_consumer_group_offsets([asked], request_timeout=REQUEST_SECONDS)
        places = answers[group].result(2 * REQUEST_SECONDS).topic_partitions
    except KafkaException as error:
        raise connection.explain(error, f"group {group}") from None
    return {(at.topic, at.partition): at.offset for at in places if at.error is None and at.offset >= 0}


def own_settings_now(connection: Connection) -> OwnSettings | None:
    """What the groups of KIP-848 have set for themselves, as far as this login may see it; None: no broker tells."""
    queries = GroupAdmin(connection)
    groups = queries.consumer_groups()
    if groups is None:
        return None
    answers = queries.own_settings(groups)
    return OwnSettings({group: own for group, own in answers.items() if own}, frozenset(answers))
