"""What a prober was answered, read from its topic."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from confluent_kafka.admin import ConfigResource

from groupreplay.app.serve.group_answers import LiveAnswers
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import UnreachableError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.probe_messages import encode_message
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.captures import CLUSTER_ID
from support.job.probes import asked as answered
from support.job.probes import summed_up
from support.kafka.clients import set_configs
from support.kafka.waiting import wait_until
from support.kafka.written_topics import WrittenTopics

PREPARING = "PreparingRebalance"


@pytest.mark.broker
def test_a_prober_with_a_wrong_clock(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """Answers from ten minutes ahead are not used, and counted; one of a clock that is behind is bounded, not moved.

    The times of the rounds are those of the broker.
    """
    topics, name = WrittenTopics(broker.bootstrap_servers), unique("probes")
    topics.create(name, partitions=1)
    appended = {"message.timestamp.type": "LogAppendTime"}
    set_configs(broker.bootstrap_servers, ConfigResource.Type.TOPIC, [name], appended)
    began = now_ms()
    ahead, behind = (answered("g", PREPARING, at=began + off_ms) for off_ms in (600_000, -600_000))
    elsewhere = msgspec.structs.replace(ahead, cluster_id="another")
    for message in (
        ahead,
        behind,
        elsewhere,
        answered("h", PREPARING, at=began),
        summed_up(at=began + 600_000),
    ):
        topics.write(name, *encode_message(message))
    answers = LiveAnswers(Cluster(bootstrap_servers=broker.bootstrap_servers), name)
    found = answers.of_group("g", CLUSTER_ID, now_ms())
    assert (found.misdated, found.error) == (1, None)
    (state,) = found.states
    assert (state.state, state.asked_ms <= began <= state.answered_ms) == (PREPARING, True)
    assert found.rounds is not None
    assert all(began - 1_000 <= at_ms <= now_ms() + 1_000 for at_ms in found.rounds)
    assert answers.of_group("h", CLUSTER_ID, now_ms()).misdated == 0


@pytest.mark.broker
def test_answers_that_cannot_be_read(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """Nobody asked, the topic is missing, the brokers are away: three things. What was read before stays."""
    topics, name, here = WrittenTopics(broker.bootstrap_servers), unique("probes"), broker.bootstrap_servers
    away: list[str] = []
    answers = LiveAnswers(Cluster(bootstrap_servers=here), name, lambda: away[0] if away else None)
    missing = answers.of_group("g", CLUSTER_ID, now_ms())
    assert "does not exist" in str(missing.error)
    assert missing[:3] == ((), None, None)
    topics.create(name, partitions=1)
    read_ms = now_ms()
    # A broker may have the metadata of a new topic a moment late.
    wait_until(lambda: answers.of_group("g", CLUSTER_ID, read_ms).error is None)
    assert answers.of_group("g", CLUSTER_ID, read_ms)[:4] == ((), None, read_ms, None)
    topics.write(name, *encode_message(summed_up(at=read_ms)))
    topics.write(name, *encode_message(answered("g", PREPARING, at=read_ms)))
    whole = answers.of_group("g", CLUSTER_ID, read_ms + 1)
    away.append("cannot reach the cluster")
    kept = answers.of_group("g", CLUSTER_ID, read_ms + 60_000)
    assert isinstance(kept.error, UnreachableError)
    assert (len(whole.states), kept[:3]) == (1, whole[:3])
    assert kept.known_ms == read_ms + 1
