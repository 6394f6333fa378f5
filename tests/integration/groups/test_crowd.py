"""A thousand groups of every kind: at each quiet moment the replayed state is the broker's, and nothing was missed."""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from groupreplay.state.replay.offset_sets import OCCASION_MS
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.replays import Json, event_name, replayed_log
from support.kafka.clients import commit_once
from support.kafka.kafka_admin import by_broker, by_log
from support.kafka.live_groups import World
from support.kafka.waiting import wait_until
from support.ordeals.crowd import TOPICS, Crowd, Wave, api_type

pytestmark = [pytest.mark.broker, pytest.mark.long]

#: Waves, and groups in each; GROUPREPLAY_WAVES makes it fewer.
WAVES = int(os.environ.get("GROUPREPLAY_WAVES", "16"))
GROUPS_A_WAVE = 64
WAVE_SECONDS = 25.0
QUIET_SECONDS = 240.0
#: A generation whose leader has sent its assignment; it is written, and then the group is Stable.
_ASSIGNED = re.compile(r"Assignment received from leader \S+ for group (\S+) for generation (\d+)\. ")
#: States in which nothing more happens by itself.
_SETTLED = ("Stable", "Empty")


def quiet(crowd: Crowd, wave: Wave) -> dict[str, dict[str, Any]]:
    """The broker's descriptions of all groups, when nothing happens any more: two in a row are equal."""
    kinds = {group: api_type(group) for group in crowd.groups}
    before: dict[str, dict[str, Any]] = {}
    deadline = time.monotonic() + QUIET_SECONDS
    while True:
        crowd.poll(wave, 2)
        now = crowd.world.admin.describe(kinds, offsets=True)
        waiting = {
            group: (now[group]["state"], len(now[group]["members"]), wave.count(group))
            for group in wave.groups
            if group in now
            and (now[group]["state"] not in _SETTLED or len(now[group]["members"]) != wave.count(group))
        }
        if not waiting and now == before:
            return now
        assert time.monotonic() < deadline, waiting
        before = now


def compare(crowd: Crowd, answers: dict[str, dict[str, Any]]) -> list[Json]:
    """All groups that the broker has are those of the log, and equal; returns the events of the log."""
    names = Connection(Cluster(bootstrap_servers=crowd.world.servers)).topic_names()
    events, replay = replayed_log(crowd.world.servers, member_events=True, topic_names=names)
    found = {group.group_id: group.describe() for group in replay.groups()}
    pairs = {name: (by_log(found[name]), by_broker(one)) for name, one in answers.items() if name in found}
    different = [
        (name, what, log[what], broker[what])
        for name, (log, broker) in sorted(pairs.items())
        for what in log
        if log[what] != broker[what]
    ]
    assert not different, "\n".join(map(str, different))
    # What a group that is gone has lost is remembered for a while.
    living = {name: by_log(one) for name, one in found.items() if one["state"] != "Dead"}
    more = {name: one for name, one in living.items() if name.startswith("crowd.") and name not in answers}
    assert more == {}, more
    assert not crowd.deleted & answers.keys()
    return events


def occasions(events: list[Json]) -> list[tuple[str, dict[str, int]]]:
    """The offsets that were set by hand, by the events: group, and the new offset by place."""
    return sorted(
        (
            one["data"]["group_id"],
            {f"{at['topic']}-{at['partition']}": at["to_offset"] for at in one["data"]["partitions"]},
        )
        for one in events
        if event_name(one) == "offsets.set"
    )


def pass_time(crowd: Crowd) -> None:
    """Until a record was written later than the end of the last occasion; commits of another group are the clock."""
    end = time.monotonic() + OCCASION_MS / 1_000 + 1

    def later() -> bool:
        commit_once(crowd.world.servers, "clock", TopicPartition(next(iter(TOPICS)), 0, 1))
        return time.monotonic() > end

    wait_until(later, pause=1.0)


def assigned(log: Path) -> set[tuple[str, int]]:
    """Group and generation of all completed classic rebalances, by the broker's own log."""
    return {(group, int(number)) for group, number in _ASSIGNED.findall(log.read_text())}


@pytest.mark.timeout(5_400)
def test_a_thousand_groups(tmp_path: Path) -> None:
    """Of every kind, with leaves, kills, resets, deletions and transactions, in waves."""
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")  # noqa: T201
    with EmbeddedBroker(offsets_partitions=8) as broker, World(broker.bootstrap_servers, tmp_path) as world:
        crowd = Crowd(world, seed)
        compared = 0
        for number in range(WAVES):
            wave = crowd.wave(number, GROUPS_A_WAVE)
            crowd.live(wave, WAVE_SECONDS)
            events = compare(crowd, answers := quiet(crowd, wave))
            compared += len(answers)
            crowd.end(wave)
            empty = quiet(crowd, wave)
            crowd.operate(
                {name: empty[name]["offsets"] for name in wave.groups if "offsets" in empty.get(name, ())}
            )
        pass_time(crowd)
        events = compare(crowd, quiet(crowd, wave))
        assert occasions(events) == sorted(crowd.resets)
        completed = [
            (one["data"]["group_id"], one["data"]["generation"])
            for one in events
            if event_name(one) == "rebalance.completed"
        ]
        assert len(completed) == len(set(completed))
        truth = assigned(broker.log_path)
        classic = {group for group, _ in truth}
        assert {one for one in completed if one[0] in classic} == truth
        print(  # noqa: T201
            f"{len(crowd.groups)} groups, {compared} descriptions equal, {len(truth)} classic rebalances of the "
            f"broker's log and {len(completed) - len(truth)} others completed, {len(events)} events; {crowd.done}"
        )
