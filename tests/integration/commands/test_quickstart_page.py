"""Every command of docs/quickstart.md, run as it stands there, on a broker with logins (SCRAM, TLS) and ACLs."""

from __future__ import annotations

import json
import re
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from groupreplay.app.check import cluster_checks
from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.kafka import clients
from groupreplay.streaming.kafka.rights import sink_rights, source_rights
from support.job.captures import invoke
from support.job.replays import event_name
from support.kafka.clients import commit_once, make_topics
from support.kafka.secured import ADMINISTRATOR, SecuredBroker, secured_broker
from support.kafka.waiting import wait_until
from support.pages.page_shell import END_SECONDS, HOOK, Terminal, blocks_of, terminal
from support.paths import ROOT
from support.receiver import receiving
from support.tools.project_copy import copy_project

pytestmark = pytest.mark.broker

PAGE = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
LOGIN = "User:groupreplay"
TOPICS = TopicNames()
OUTPUT_TOPICS = (TOPICS.events, TOPICS.states, TOPICS.dead_letters, TOPICS.job, TOPICS.probes)
#: The line that `events` prints at the end of the condition.
ENDED = re.compile(r"  OK +quickstart .*rebalance stuck: resolved")
SPARK_GROUPS = "Describe on group spark-kafka-source-*"
EVERY_GROUP = "Describe on group *"
EVERY_TOPIC = "Describe on topic *"


def blocks(heading: str) -> list[str]:
    """The shell blocks of a section of the page."""
    return blocks_of(PAGE, heading)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with an administrator's login, and an offsets topic."""
    with secured_broker(tmp_path_factory.mktemp("quickstart")) as broker:
        broker.create_user(ADMINISTRATOR)
        make_topics(broker.broker.bootstrap_servers, {"orders": 1})
        commit_once(broker.broker.bootstrap_servers, "first")
        yield broker


@pytest.fixture(scope="module")
def login(guarded: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the section about the login has run, with Kafka's own tools."""
    folder = tmp_path_factory.mktemp("login")
    with terminal(guarded, folder) as shell:
        for block in blocks("2. A login with the least rights"):
            shell.run(block)
    return folder


def checked(guarded: SecuredBroker, folder: Path) -> tuple[int, dict[str, str]]:
    """Exit code of ``check`` with the login of the page, and the status of all that is not well."""
    words = ["--bootstrap-server", guarded.checked, "--command-config", "client.properties"]
    with pytest.MonkeyPatch.context() as patch:
        # The login names its CA relative to the working directory. Nobody writes while the clock is looked at.
        patch.chdir(folder)
        patch.setattr(cluster_checks, "_CLOCK_SECONDS", 0.1)
        patch.setattr(clients, "REQUEST_SECONDS", 5.0)
        result = invoke("check", "-o", "json", *words)
    found = {one["check"]: one["status"] for one in json.loads(result.stdout)}
    return result.exit_code, {
        name: status for name, status in found.items() if status in ("warning", "failed")
    }


def granted(guarded: SecuredBroker) -> list[AclBinding]:
    """The rights of the page's login, as the broker has them."""
    anything = (ResourceType.ANY, None, ResourcePatternType.ANY)
    wanted = AclBindingFilter(*anything, LOGIN, "*", AclOperation.ANY, AclPermissionType.ANY)
    return sorted(guarded.admin.describe_acls(wanted).result(30), key=str)


def add(guarded: SecuredBroker, right: AclBinding) -> None:
    """Grants a right."""
    guarded.admin.create_acls([right])[right].result(30)


def remove(guarded: SecuredBroker, right: AclBinding) -> None:
    """Takes a right away."""
    place = (right.restype, right.name, right.resource_pattern_type)
    exactly = AclBindingFilter(*place, right.principal, right.host, right.operation, right.permission_type)
    assert guarded.admin.delete_acls([exactly])[exactly].result(30) == [right]


@contextmanager
def without(guarded: SecuredBroker, right: AclBinding) -> Iterator[None]:
    """The broker while the login lacks one right."""
    remove(guarded, right)
    yield
    add(guarded, right)


def named(right: AclBinding) -> str:
    """A right as ``check`` names it."""
    operation = right.operation.name.title().replace("_", "")
    kind = "cluster" if right.restype == ResourceType.BROKER else right.restype.name.lower()
    return f"{operation} on {kind}" + ("" if kind == "cluster" else f" {right.name}")


def delete_topics(guarded: SecuredBroker) -> None:
    """Removes the job's topics if they are there."""
    there = sorted(set(OUTPUT_TOPICS) & set(guarded.admin.list_topics(timeout=10).topics))
    if there:
        for result in guarded.admin.delete_topics(there).values():
            result.result(30)


def test_the_rights_are_enough(guarded: SecuredBroker, login: Path) -> None:
    """Without topics and with them `check` finds every right, and they are those that it asks for."""
    delete_topics(guarded)
    assert checked(guarded, login) == (ExitCode.OK, {})
    wanted = {
        str(one) for one in [*source_rights(probe=True, ask_retention=True, ends=True), *sink_rights(TOPICS)]
    }
    implied = {one for one in wanted if one.startswith("Describe on topic ")} - {EVERY_TOPIC} | {SPARK_GROUPS}
    found = granted(guarded)
    assert {named(one) for one in found if one.operation != AclOperation.CREATE} == wanted - implied
    assert {one.name for one in found if one.operation == AclOperation.CREATE} == set(OUTPUT_TOPICS)


def test_the_right_to_create_is_needed_for_each_topic(guarded: SecuredBroker, login: Path) -> None:
    """While the topics do not exist, one right less is a failure."""
    delete_topics(guarded)
    for right in granted(guarded):
        if right.operation == AclOperation.CREATE:
            with without(guarded, right):
                assert checked(guarded, login) == (ExitCode.AUTHORISATION, {"output topics": "failed"}), right


def test_no_other_right_is_too_much(guarded: SecuredBroker, login: Path) -> None:
    """Any one right less, and `check` names it: it fails, or warns of those that the page calls optional."""
    make_topics(guarded.broker.bootstrap_servers, dict.fromkeys(OUTPUT_TOPICS, 1))
    rights = [one for one in granted(guarded) if one.operation != AclOperation.CREATE]
    for right in rights:
        with without(guarded, right):
            code, wrong = checked(guarded, login)
        asked = [*source_rights(probe=True, ask_retention=True, ends=True), *sink_rights(TOPICS)]
        sparable = [str(one) for one in asked if not one.needed]
        # What the right brings along, and no other one: every topic may be described.
        contained = {SPARK_GROUPS} if named(right) == EVERY_GROUP else set()
        assert {one for one in wrong if " on " in one} == {named(right), *contained}
        assert wrong[named(right)] == ("warning" if named(right) in sparable else "failed")
        is_spared = named(right) in sparable and named(right) != EVERY_GROUP
        assert code == (ExitCode.OK if is_spared else ExitCode.AUTHORISATION)


def test_the_groups_of_spark_are_enough(guarded: SecuredBroker, login: Path) -> None:
    """The remedy of the page for a login that may not see all groups: what is left is a warning."""
    make_topics(guarded.broker.bootstrap_servers, dict.fromkeys(OUTPUT_TOPICS, 1))
    (every,) = (one for one in granted(guarded) if named(one) == EVERY_GROUP)
    place = (ResourceType.GROUP, "spark-kafka-source-", ResourcePatternType.PREFIXED)
    some = AclBinding(*place, LOGIN, "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    with without(guarded, every):
        add(guarded, some)
        code, wrong = checked(guarded, login)
        remove(guarded, some)
    assert (code, [one for one in wrong if " on " in one]) == (ExitCode.OK, [EVERY_GROUP])


def install(shell: Terminal, folder: Path) -> None:
    """Runs the section about the installation; the libraries are those of the tests."""
    (block,) = blocks("1. Install")
    first, rest = block.split("\n", 1)
    shell.run(first)
    (packages,) = (folder / "groupreplay-env" / "lib").glob("python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    shell.run(f"unset PYTHONPATH\n{rest}")
    shell.run(f"test $(command -v groupreplay) = {folder}/groupreplay-env/bin/groupreplay")


@pytest.mark.spark
@pytest.mark.long
def test_the_whole_page(guarded: SecuredBroker, tmp_path: Path) -> None:
    """From the installation to the alert: the stuck rebalance is printed and sent, and so is its end."""
    delete_topics(guarded)
    folder = copy_project(tmp_path / "checkout")
    with receiving() as hook, terminal(guarded, folder, {HOOK: hook.url}) as shell:
        install(shell, folder)
        for heading in ("2. A login with the least rights", "3. Check", "4. Run"):
            for block in blocks(heading):
                shell.run(block)
        trouble, printing, sending, waking = blocks("5. The first alert")
        shell.run(trouble)
        printed, sent = shell.follow(printing, "printed"), shell.follow(sending, "sent")
        wait_until(lambda: "rebalance stuck:" in printed.read_text(), END_SECONDS, pause=0.5)
        wait_until(lambda: stuck(hook.taken) == ["firing"], END_SECONDS, pause=0.5)
        assert "PreparingRebalance" in printed.read_text()
        shell.run(waking)
        wait_until(lambda: stuck(hook.taken) == ["firing", "resolved"], END_SECONDS, pause=0.5)
        wait_until(lambda: ENDED.search(printed.read_text()), END_SECONDS, pause=0.5)
        assert sent.read_text() == ""
        assert {headers["content-type"] for headers, _ in hook.asked} == {"application/cloudevents+json"}
        (end,) = blocks("6. Clean up, and go on")
        shell.run(end, code=143)


def stuck(came: list[Any]) -> list[str]:
    """What the web hook has heard of the stuck rebalance of the test group."""
    mine = ("rebalance.stuck", "quickstart")
    return [one["data"]["status"] for one in came if (event_name(one), one["data"]["group_id"]) == mine]
