"""The demo's story, as a table and against a real broker."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from groupreplay.app.demo import scenario
from groupreplay.app.demo.scenario import ACTORS, STORY, TOPICS, Action, Stage, Step, create_topics
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.kafka.waiting import wait_until


def test_the_cast_is_complete() -> None:
    """Every actor plays, every played one is an actor, and each has a topic that is created."""
    assert {step.actor for step in STORY} == set(ACTORS)
    assert {actor.topic for actor in ACTORS.values()} == set(TOPICS)


def test_the_story_shows_what_it_promises() -> None:
    """Every action but the one that takes long; a killed static member is back before its session is over."""
    assert {step.action for step in STORY} == set(Action) - {Action.HANG}
    deaths = [step for step in STORY if step.action is Action.DIE and ACTORS[step.actor].instance_id]
    assert deaths
    for death in deaths:
        half_s = ACTORS[death.actor].session_timeout_ms / 1000 / 2
        starts = [step.at_s for step in STORY if (step.actor, step.action) == (death.actor, Action.START)]
        assert 0 < max(starts) - death.at_s < half_s


@pytest.mark.broker
def test_members_join_die_and_leave(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unique: Callable[[str], str]
) -> None:
    """Members are real: the broker lists them and their commits, and no longer lists who left."""
    group = unique("group")
    monkeypatch.setattr(scenario, "TOPICS", {unique("topic"): 2})
    (topic,) = scenario.TOPICS
    actors = {
        "one": scenario.Actor(group=group, topic=topic),
        "two": scenario.Actor(group=group, topic=topic, instance_id="two"),
        "simple": scenario.Actor(group=f"{group}-simple", topic=topic),
    }
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    story = [Step(0, "one", Action.START), Step(0, "two", Action.START)]
    story += [Step(1, "simple", Action.COMMIT), Step(2, "simple", Action.DELETE_GROUP)]
    story += [Step(3, "one", Action.LEAVE), Step(4, "two", Action.DIE)]

    def members() -> list[tuple[str, str | None]]:
        try:
            found = admin.describe_consumer_groups([group])[group].result(10).members
        except KafkaException:  # its coordinator may still load the partition
            return []
        return sorted((member.client_id, member.group_instance_id) for member in found)

    def committed() -> int:
        answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(10)
        return sum(place.offset for place in answer.topic_partitions if place.offset > 0)

    def groups() -> set[str]:
        return {found.group_id for found in admin.list_consumer_groups().result(10).valid}

    with Stage(broker.bootstrap_servers, tmp_path, story, actors) as stage:
        assert stage.advance(0) == story[:2]
        wait_until(lambda: members() == [("one", None), ("two", "two")])
        assert stage.advance(1) == [story[2]]
        assert f"{group}-simple" in groups()
        assert stage.advance(2) == [story[3]]
        assert f"{group}-simple" not in groups()
        wait_until(committed)
        assert stage.advance(3) == [story[4]]
        wait_until(lambda: stage.groups()[group] == ("Stable", 1))
        assert stage.advance(4) == [story[5]]
        # A killed static member is missed only when its session is over; an ended stage has nothing to end.
        assert members() == [("two", "two")]
        stage.close()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"one.log": "", "two.log": ""}


@pytest.mark.broker
def test_topics_may_exist_already(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """Creating topics twice is no error; each has the number of partitions that was asked for first."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    name = unique("topic")
    create_topics(admin, {name: 3})
    create_topics(admin, {name: 3})
    assert len(admin.list_topics(name, timeout=10).topics[name].partitions) == 3


@pytest.mark.broker
def test_play_stops_on_sigterm(broker: EmbeddedBroker) -> None:
    """The program of docker-compose.yml tells its first step and ends cleanly when it is told to."""
    command = [sys.executable, "-m", "groupreplay.app.demo.scenario", "play", "--repeat"]
    process = subprocess.Popen(
        [*command, "--bootstrap-server", broker.bootstrap_servers], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert (first, process.returncode) == ("shipping-a starts\n", 0)
