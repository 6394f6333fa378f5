"""``watch`` beside a real broker and real clients: it finds a stuck rebalance while it is stuck, and writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.jobs import running_job, topic_names
from support.job.replays import Json, named
from support.job.watch_process import WatchProcess, watching_process
from support.job.watched import producing
from support.kafka.clients import make_topics
from support.kafka.polled_members import PolledMembers
from support.kafka.waiting import wait_until
from support.pictures.live_pages import live_page
from support.pictures.report_pages import OpenedPage

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.broker

#: What is not the same in both: when it was written, and whether that was late.
_OF_WRITER = ("recordedtime", "catch_up")

#: In a group's page: the shape whose tooltip has this line.
FLAG = """Picture.draw(GroupView.state.doc, GroupView.state.view).items
    .find(item => item.kind === "path" && item.tip && item.tip.includes("%s"))"""
FLAGS = ("--probe-interval", "1", "--rule", "rebalance.stuck.threshold_ms=6000", "--member-events")


def names_of(servers: str) -> tuple[set[str], set[str]]:
    """The topics and the groups of a cluster."""
    admin = AdminClient({"bootstrap.servers": servers})
    groups = admin.list_consumer_groups().result(20).valid
    return set(admin.list_topics(timeout=20).topics), {group.group_id for group in groups}


def test_a_stuck_rebalance_and_a_kill(
    broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """The blocker is the first suspect while the group is stuck; a killed process goes on with the same ids.

    No topic and no group is new in the cluster, and no JVM is in the process.
    """
    group, topic, servers = unique("stuck"), unique("orders"), broker.bootstrap_servers
    make_topics(servers, {topic: 6})
    members = PolledMembers(servers, 60_000)
    with closing(members), producing(servers, {topic: 6}, 0.05):
        for name in ("a", "b", "c"):
            members.join(name, group, topic)
        members.wait_until(lambda: members.owned("a", "b", "c") == [2, 2, 2])
        before = names_of(servers)
        with watching_process(
            servers, tmp_path, "--state", str(tmp_path / "state.db"), *FLAGS, "--ends-interval", "1"
        ) as watch:
            members.stuck.add("a")
            members.join("d", group, topic)
            (fired,) = members.wait_until(lambda: named(watch.events(), "rebalance.stuck", group))
            assert (fired["data"]["status"], fired["data"]["suspects"][0]["client_id"]) == ("firing", "a")
            assert watch.page(f"/api/groups/{group}")["document"]["state"] == "PreparingRebalance"
            assert f'group="{group}"' in watch.metrics()
            # The prober's process has sent the ends of partitions, and nobody has committed yet or all have.
            lag = members.wait_until(lambda: watch.page(f"/api/groups/{group}")["lag"], 60)
            assert (lag["lag"] is None) == (lag["unknown"] == 6), lag
            assert watch.process is not None
            assert "libjvm" not in Path(f"/proc/{watch.process.pid}/maps").read_text()
            watch.kill()
            watch.start()
            members.stuck.clear()
            members.wait_until(lambda: len(named(watch.events(), "rebalance.stuck", group)) > 1)
            fired, resolved = named(watch.events(), "rebalance.stuck", group)
            assert (resolved["data"]["status"], resolved["data"]["condition_id"]) == (
                "resolved",
                fired["data"]["condition_id"],
            )
            members.wait_until(lambda: named(watch.events(), "rebalance.completed", group))
            # Groups of earlier tests may go meanwhile.
            new = [now - earlier for now, earlier in zip(names_of(servers), before, strict=True)]
            assert new == [set(), set()]


def test_the_cost_of_a_rebalance_on_its_page(
    broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path, browser: Browser
) -> None:
    """What piled up while a group stood still is on its page, as far as the log of the topic has grown meanwhile.

    A process that is killed leaves it to the next one, whose picture has it at the rebalance.
    """
    group, topic, servers = unique("cost"), unique("orders"), broker.bootstrap_servers
    make_topics(servers, {topic: 2})
    members = PolledMembers(servers, 60_000)
    with (
        closing(members),
        producing(servers, {topic: 2}, 0.05),
        watching_process(
            servers, tmp_path, "--state", str(tmp_path / "state.db"), *FLAGS, "--ends-interval", "1"
        ) as watch,
    ):
        members.join("a", group, topic)
        members.wait_until(lambda: members.owned("a") == [2])
        members.wait_until(lambda: named(watch.events(), "group.created", group))
        members.wait_until(lambda: (watch.page(f"/api/groups/{group}")["lag"] or {}).get("unknown") == 0)
        settled = written(servers, topic)
        # The prober has seen the group stable after its first commits, so that the next rebalance began later.
        members.wait_until(lambda: written(servers, topic) > settled + 200)
        before = written(servers, topic)
        members.stuck.add("a")
        members.join("b", group, topic)
        members.wait_until(
            lambda: watch.page(f"/api/groups/{group}")["document"]["state"] == "PreparingRebalance"
        )
        began = written(servers, topic)
        members.wait_until(lambda: written(servers, topic) > began + 200)
        went_on = written(servers, topic)
        members.stuck.clear()
        members.wait_until(lambda: members.owned("a", "b") == [1, 1])
        completed = written(servers, topic)
        members.wait_until(lambda: (cost_of(watch, group) or {}).get("caught_up_ms"))
        cost = cost_of(watch, group)
        assert cost is not None
        assert (cost["partitions"], cost["lag_unknown"]) == (2, 0), cost
        assert cost["added_least"] <= completed - before, (cost, before, completed)
        assert cost["added_most"] >= went_on - began, (cost, began, went_on)
        assert 0 < cost["added_least"] <= cost["added"] <= cost["added_most"]
        watch.kill()
        watch.start()
        members.wait_until(lambda: cost_of(watch, group) == cost)
        with live_page(browser, f"http://127.0.0.1:{watch.port}/groups/{group}") as page:
            members.wait_until(lambda: page.value(f"Boolean(GroupView.state.doc && {FLAG % cost['text']})"))
            members.wait_until(lambda: hovered(page, cost["text"]))
            assert cost["text"] in page.page.inner_text("#tip")
            assert page.problems == []


def written(servers: str, topic: str) -> int:
    """How many records are in a topic of two partitions now, as its leaders say."""
    admin = AdminClient({"bootstrap.servers": servers})
    ends = admin.list_offsets({TopicPartition(topic, number): OffsetSpec.latest() for number in range(2)})
    return sum(int(end.result(20).offset) for end in ends.values())


def hovered(page: OpenedPage, text: str) -> bool:
    """Moves the mouse to the flag of a rebalance with this line; whether the page shows what it is."""
    x, y = page.value(f"{FLAG % text}.d.match(/[0-9.]+/g).slice(0, 2).map(Number)")
    box = page.page.locator("#picture").bounding_box()
    assert box is not None
    page.page.mouse.move(box["x"] + x + 5, box["y"] + y + 3)
    return bool(page.page.locator("#tip").is_visible())


def cost_of(watch: WatchProcess, group: str) -> Json | None:
    """What the last rebalance cost, as the page of the group has it."""
    generations = watch.page(f"/api/groups/{group}/timeline?since=0")["generations"]
    cost: Json | None = generations[-1]["cost"] if generations else None
    return cost


def told(events: Iterable[Json], group: str) -> dict[str, Json]:
    """The events about a group by id, without what only their writer decides."""
    mine = [event for event in events if event["data"]["group_id"] == group]
    for event in mine:
        for place in (event, event["data"]):
            for name in _OF_WRITER:
                place.pop(name, None)
    return {str(event["id"]): event for event in mine}


@pytest.mark.spark
@pytest.mark.long
def test_beside_the_job(broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path) -> None:
    """A group that lives and is deleted while both read: the same events with the same ids, across a kill of each."""
    group, topic, servers = unique("both"), unique("orders"), broker.bootstrap_servers
    topics = topic_names(unique("job"))
    make_topics(servers, {topic: 6})
    members = PolledMembers(servers, 60_000)
    with (
        closing(members),
        producing(servers, {topic: 6}, 0.05),
        running_job(servers, tmp_path / "checkpoint", topics, "--no-probe", "--member-events") as job,
        watching_process(
            servers, tmp_path, "--state", str(tmp_path / "state.db"), "--no-probe", "--member-events"
        ) as watch,
    ):
        job.wait_caught_up()
        for name in ("a", "b"):
            members.join(name, group, topic)
        members.wait_until(lambda: members.owned("a", "b") == [3, 3])
        watch.kill()
        members.join("c", group, topic)
        members.wait_until(lambda: members.owned("a", "b", "c") == [2, 2, 2])
        watch.start()
        job.kill()
        members.consumers.pop("b").close()
        members.wait_until(lambda: members.owned("a", "c") == [3, 3])
        job.restart()
        for name in ("a", "c"):
            members.consumers.pop(name).close()
        admin = AdminClient({"bootstrap.servers": servers})
        admin.delete_consumer_groups([group])[group].result(30)
        for events in (watch.events, lambda: job.events().values()):
            wait_until(partial(_is_deleted, events, group), pause=0.5)
        assert told(watch.events(), group) == told(job.events().values(), group)


def _is_deleted(events: Callable[[], Iterable[Json]], group: str) -> bool:
    return bool(named(list(events()), "group.deleted", group))
