"""The commands that ``check`` and ``run`` print, typed as they stand there: afterwards all is well."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.kafka.rights import sink_rights, source_rights
from support.job.captures import invoke
from support.kafka.clients import make_topics
from support.kafka.runbook_commands import CLASSES, as_administrator
from support.kafka.secured import SecuredBroker
from support.kafka.waiting import wait_until
from support.remedies import read_remedy

pytestmark = pytest.mark.broker

TOPICS = TopicNames()
Answers = dict[str, dict[str, str | None]]


def checked(guarded: SecuredBroker, folder: Path | None) -> tuple[int, Answers]:
    """Exit code of ``check``, and the answers that are not well, by check.

    With the user's login, which has no right to see settings of topics; without a folder as the administrator.
    """
    words: list[object] = ["--bootstrap-server", guarded.broker.bootstrap_servers]
    if folder is not None:
        words = ["--bootstrap-server", guarded.checked, "--command-config", guarded.properties(folder)]
    result = invoke("check", "--no-ends", "-o", "json", *words)
    answers: Answers = {one["check"]: one for one in json.loads(result.stdout)}
    return result.exit_code, {
        name: one for name, one in answers.items() if one["status"] in ("warning", "failed")
    }


def commands(answers: Answers) -> list[str]:
    """The lines with a command in the remedies, each once."""
    lines = [line for one in answers.values() for line in (one["fix"] or "").splitlines()]
    return list(dict.fromkeys(line for line in lines if line.startswith(tuple(CLASSES))))


def delete_topics(guarded: SecuredBroker) -> None:
    """Removes the job's topics, and waits until they are gone."""

    def there() -> list[str]:
        known = guarded.admin.list_topics(timeout=10).topics
        return [name for name in known if name.startswith("group-")]

    if names := there():
        for answer in guarded.admin.delete_topics(names).values():
            answer.result(30)
    wait_until(lambda: not there())


def test_a_login_without_rights_gets_all_of_them(guarded: SecuredBroker, tmp_path: Path) -> None:
    """The lines of kafka-acls.sh, typed until nothing is missing; the first answers hide what depends on them."""
    make_topics(
        guarded.broker.bootstrap_servers, dict.fromkeys((TOPICS.events, TOPICS.dead_letters, TOPICS.job), 1)
    )
    guarded.allow_only([])
    code, wrong = checked(guarded, tmp_path)
    assert code == ExitCode.AUTHORISATION
    typed_lines: list[str] = []
    for _ in range(3):
        lines = [line for line in commands(wrong) if line.startswith("kafka-acls.sh")]
        assert not set(lines) & set(typed_lines), "a right is missing after it was granted"
        for line in lines:
            as_administrator(guarded, line)
        typed_lines += lines
        code, wrong = checked(guarded, tmp_path)
        if not any(one["status"] == "failed" for one in wrong.values()):
            break
    assert (code, [name for name in wrong if " on " in name]) == (ExitCode.OK, [])
    delete_topics(guarded)


def test_settings_that_are_wrong(guarded: SecuredBroker) -> None:
    """The lines of kafka-configs.sh, typed for topics that an administrator has made with Kafka's defaults."""
    wanted = [getattr(TOPICS, name) for name in ("events", "states", "dead_letters", "job", "probes")]
    made = [NewTopic(name, 1, 1, config={"max.message.bytes": "1000"}) for name in wanted]
    for answer in guarded.admin.create_topics(made).values():
        answer.result(30)
    _, wrong = checked(guarded, None)
    assert {f"topic {name}" for name in wanted} <= wrong.keys()
    for line in commands(wrong):
        read_remedy("app.check.cluster_checks: kafka-configs.sh", line)
        as_administrator(guarded, line)
    assert checked(guarded, None) == (ExitCode.OK, {})
    delete_topics(guarded)


def test_a_simulation_that_may_not_be_written(guarded: SecuredBroker, tmp_path: Path) -> None:
    """Rights that are none of the job's: the command that needs them prints them itself."""
    guarded.allow_only([])
    words = ["simulate", "--groups", 1, "--seconds", 60, "--to-topic", "simulated", "--partitions", 1]
    words += ["--probes-topic", "simulated-probes", "--bootstrap-server", guarded.checked, "--force"]
    words += ["--command-config", guarded.properties(tmp_path), "--truth-file", tmp_path / "truth.jsonl"]
    refused = invoke(*words)
    lines = [line.strip() for line in refused.stderr.splitlines() if line.strip().startswith("kafka-acls.sh")]
    assert (refused.exit_code, len(lines)) == (ExitCode.AUTHORISATION, 3)
    for line in lines:
        as_administrator(guarded, line)
    assert invoke(*words).exit_code == ExitCode.OK


def test_topics_that_may_not_be_created(guarded: SecuredBroker, tmp_path: Path) -> None:
    """Both ways out that are printed: the right to create them, and the words for kafka-topics.sh --create."""
    guarded.allow_only([*source_rights(probe=True, ask_retention=True), *sink_rights(TOPICS)])
    code, wrong = checked(guarded, tmp_path)
    assert (code, list(wrong)) == (ExitCode.AUTHORISATION, ["output topics"])
    fix = wrong["output topics"]["fix"] or ""
    read_remedy("streaming.kafka.output_topics: kafka-acls.sh", fix)
    read_remedy("streaming.kafka.output_topics: create them (kafka-topics.sh --create ...):", fix)
    (grant,) = commands(wrong)
    creations = re.search(r"^or create them \(kafka-topics\.sh --create \.\.\.\): (.*)$", fix, re.MULTILINE)
    assert creations is not None
    for words in creations[1].split("; "):
        as_administrator(guarded, f"kafka-topics.sh --create --bootstrap-server {guarded.checked} {words}")
    assert checked(guarded, tmp_path) == (ExitCode.OK, {})
    delete_topics(guarded)
    as_administrator(guarded, grant)
    assert checked(guarded, tmp_path) == (ExitCode.OK, {})
