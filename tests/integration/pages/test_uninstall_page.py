"""The commands of docs/operations.md that take groupreplay away, on a broker where the quick start was followed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from groupreplay.streaming.config.settings import TopicNames
from support.kafka.clients import commit_once, make_topics
from support.kafka.secured import ADMINISTRATOR, SecuredBroker, secured_broker
from support.kafka.waiting import wait_until
from support.pages.page_shell import blocks_of, terminal
from support.paths import ROOT

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
QUICK_START = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
UNITS = ("groupreplay.service", "groupreplay-serve.service", "groupreplay-watch.service")
TOPICS = TopicNames()
OUTPUT_TOPICS = {TOPICS.events, TOPICS.states, TOPICS.dead_letters, TOPICS.job, TOPICS.probes}
#: Every right of every login.
RIGHTS = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with logins, and with a topic and a group of somebody else."""
    with secured_broker(tmp_path_factory.mktemp("uninstall")) as broker:
        broker.create_user(ADMINISTRATOR)
        make_topics(broker.broker.bootstrap_servers, {"orders": 1})
        commit_once(broker.broker.bootstrap_servers, "first")
        yield broker


def rights(guarded: SecuredBroker) -> set[str]:
    """Every right that the broker knows."""
    return {str(one) for one in guarded.admin.describe_acls(RIGHTS).result(30)}


def users(guarded: SecuredBroker) -> set[str]:
    """Every login with a password."""
    return {*guarded.admin.describe_user_scram_credentials().result(30)}


@pytest.mark.broker
def test_nothing_is_left(guarded: SecuredBroker, tmp_path: Path) -> None:
    """Rights, login, topics and files of the quick start go; those of others stay, and so does the offsets topic."""
    topics = lambda: {*guarded.admin.list_topics(timeout=10).topics}  # noqa: E731
    # A broker answers from metadata that it has a moment after its controller.
    left = lambda: (topics(), rights(guarded), users(guarded))  # noqa: E731
    before = left()
    folder = tmp_path / "checkout"
    folder.mkdir()
    cache = tmp_path / "home" / ".cache" / "groupreplay"
    cache.mkdir(parents=True)
    (cache / "a.jar").touch()
    no_cache = {"GROUPREPLAY_CACHE": "", "XDG_CACHE_HOME": "", "HOME": str(tmp_path / "home")}
    with terminal(guarded, folder, environment=no_cache) as shell:
        for block in blocks_of(QUICK_START, "2. A login with the least rights"):
            shell.run(block)
        make_topics(guarded.broker.bootstrap_servers, dict.fromkeys(OUTPUT_TOPICS, 1))
        there = {path.name for path in folder.iterdir()}
        for name in ("checkpoint", "groupreplay-env"):
            (folder / name).mkdir()
            (folder / name / "file").touch()
        for name in ("run.log", "first.log", "second.log", "sent.ids"):
            (folder / name).touch()
        wait_until(lambda: topics() - before[0] == OUTPUT_TOPICS)
        wait_until(lambda: users(guarded) - before[2] == {"groupreplay"})
        wait_until(lambda: len(rights(guarded) - before[1]) >= 16)
        *_, cluster, files, of_units = blocks_of(PAGE, "Uninstall")
        shell.run(cluster)
        shell.run(files)
        wait_until(lambda: left() == before)
    assert {path.name for path in folder.iterdir()} == there - {"client.properties"}
    assert not cache.exists()
    assert (tmp_path / "home" / ".cache").exists()
    assert "/opt/groupreplay" in of_units


def test_the_files_of_the_units() -> None:
    """What the units and their installation make is named, and nothing else is removed."""
    services, kubernetes, compose, _, _, of_units = blocks_of(PAGE, "Uninstall")
    assert {name for name in UNITS if f"/etc/systemd/system/{name}" in services} == {*UNITS}
    removed = {word for line in of_units.splitlines() for word in shlex.split(line)[2:]}
    made = {"/opt/groupreplay", "/etc/groupreplay"}
    for name in UNITS:
        for kind, place in (("StateDirectory", "lib"), ("CacheDirectory", "cache")):
            for folder in re.findall(rf"(?m)^{kind}=(\S+)$", (ROOT / "deploy" / name).read_text("utf-8")):
                made |= {f"/var/{place}/{folder}", f"/var/{place}/private/{folder}"}
    assert removed == made
    secrets = set(
        re.findall(r"secretName: ([\w-]+)", (ROOT / "deploy/kubernetes/groupreplay.yaml").read_text("utf-8"))
    )
    assert secrets == {*shlex.split(kubernetes.splitlines()[-1])[3:]}
    assert "--profile demo down --volumes" in compose
