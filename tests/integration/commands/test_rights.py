"""The job with exactly the rights that docs/operations.md names, on a broker with logins (SCRAM, TLS) and ACLs."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from groupreplay.app.check import cluster_checks
from groupreplay.app.demo.scenario import Action, Stage, Step, create_topics
from groupreplay.state.conditions.job_blind import GRANT_DESCRIBE
from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.kafka import clients
from groupreplay.streaming.kafka.rights import (
    ALL_TOPICS,
    CREATE,
    Right,
    grant_line,
    sink_rights,
    source_rights,
)
from groupreplay.streaming.local.broker import free_ports
from groupreplay.streaming.local.process_guard import GuardedProcess
from groupreplay.streaming.sinks.event_topic import SinkReader
from support.job.captures import invoke
from support.job.jobs import Json, read_json, read_topic
from support.kafka.secured import PASSWORD, USER, SecuredBroker, secured_broker
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker

DEADLINE_SECONDS = 240.0
TOPICS = TopicNames()
OUTPUT_TOPICS = (TOPICS.events, TOPICS.states, TOPICS.dead_letters, TOPICS.job, TOPICS.probes)
#: The rights of that page (tests/streaming/kafka/test_rights.py compares them), each once.
RIGHTS = list(dict.fromkeys([*source_rights(probe=True, ask_retention=True), *sink_rights(TOPICS), CREATE]))
#: Describe comes with Read and with Write.
CONTAINED = [
    one
    for one in RIGHTS
    if one.operation == "Describe"
    and any(other.name == one.name and other.operation in ("Read", "Write") for other in RIGHTS)
]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """One broker for the module, with the topics of the job."""
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody writes here while the clock is looked at, and a login that is refused is asked again for long."""
    monkeypatch.setattr(cluster_checks, "_CLOCK_SECONDS", 0.1)
    monkeypatch.setattr(clients, "REQUEST_SECONDS", 5.0)


def make_topics(guarded: SecuredBroker) -> None:
    """The topics of the job, made by the administrator where they are missing."""
    create_topics(guarded.admin, dict.fromkeys(OUTPUT_TOPICS, 1))


def delete_topics(guarded: SecuredBroker) -> None:
    """Removes them again, and waits until they are gone."""

    def there() -> list[str]:
        known = guarded.admin.list_topics(timeout=10).topics
        return [name for name in OUTPUT_TOPICS if name in known]

    if there():
        for answer in guarded.admin.delete_topics(there()).values():
            answer.result(30)
    wait_until(lambda: not there())


def commands(guarded: SecuredBroker, folder: Path, *words: object) -> list[object]:
    """A command line with the user's login."""
    login = guarded.properties(folder)
    return [*words, "--bootstrap-server", guarded.checked, "--command-config", login]


def checked(
    guarded: SecuredBroker, folder: Path, *words: str
) -> tuple[int, dict[str, tuple[str, str | None]]]:
    """Exit code of ``check``, and status and remedy of all that is not well; by default for a job without lag."""
    result = invoke(*commands(guarded, folder, "check", "-o", "json", *(words or ("--no-ends",))))
    assert PASSWORD not in result.output
    answers = json.loads(result.stdout)
    return result.exit_code, {
        one["check"]: (one["status"], one["fix"]) for one in answers if one["status"] in ("warning", "failed")
    }


def test_the_named_rights_pass_the_check(guarded: SecuredBroker, tmp_path: Path) -> None:
    """With the rights of the page, and no Describe where Read or Write brings it along, all is well."""
    make_topics(guarded)
    guarded.allow_only([one for one in RIGHTS if one not in CONTAINED and one != CREATE])
    assert checked(guarded, tmp_path) == (ExitCode.OK, {})
    # The ends of all topics need a right more, which costs nothing but lag.
    code, wrong = checked(guarded, tmp_path, "--ends")
    assert (code, list(wrong)) == (ExitCode.OK, ["Describe on topic *"])
    status, fix = wrong["Describe on topic *"]
    assert (status, str(fix).endswith("--operation Describe --topic '*'")) == ("warning", True)
    guarded.allow_only([*(one for one in RIGHTS if one not in CONTAINED and one != CREATE), ALL_TOPICS])
    assert checked(guarded, tmp_path, "--ends") == (ExitCode.OK, {})


@pytest.mark.parametrize(
    "missing", [one for one in RIGHTS if one not in CONTAINED and one != CREATE], ids=str
)
def test_each_missing_right_is_named(guarded: SecuredBroker, tmp_path: Path, missing: Right) -> None:
    """One taken away: ``check`` names it and prints the command; ``run`` stops before Spark if it is needed."""
    make_topics(guarded)
    # The right to all groups contains that to some of them.
    same = [one for one in RIGHTS if (one.kind, one.operation) == (missing.kind, missing.operation)]
    gone = [one for one in same if one == missing or (one.name == "*" and missing.kind == "group")]
    guarded.allow_only([one for one in RIGHTS if one not in (*gone, CREATE)])
    cluster = Cluster(
        bootstrap_servers=guarded.checked,
        properties={
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'x required username="{USER}" password="x";',
        },
    )
    line = grant_line(missing, cluster)
    code, found = checked(guarded, tmp_path)
    assert found[str(missing)] == ("failed" if missing.needed else "warning", line)
    # What cannot be asked because of it may be wrong, too; no other right is.
    assert [name for name in found if " on " in name] == [str(one) for one in gone]
    assert code == (ExitCode.AUTHORISATION if missing.needed else ExitCode.OK)
    if not missing.needed:
        return
    result = invoke(*commands(guarded, tmp_path, "run", "--checkpoint", tmp_path / "checkpoint"))
    assert (result.exit_code, result.stdout) == (ExitCode.AUTHORISATION, "")
    assert line in result.stderr
    assert result.stderr.startswith(f"error: not authorised: {missing}")
    assert PASSWORD not in result.output
    assert not (tmp_path / "checkpoint").exists()


def test_topics_that_may_not_be_created(guarded: SecuredBroker, tmp_path: Path) -> None:
    """Where they are missing the right to create them counts, and there are two ways out."""
    words = ["--events-topic", "no-such-events"]
    others = [one for one in RIGHTS if one != CREATE]
    guarded.allow_only([*others, Right("Write", "topic", "no-such-events", "")])
    for command in (["check", "-o", "json"], ["run", "--checkpoint", tmp_path / "checkpoint"]):
        result = invoke(*commands(guarded, tmp_path, *command, *words))
        assert result.exit_code == ExitCode.AUTHORISATION
        assert "--operation Create --cluster" in result.output
        assert "--topic no-such-events --config cleanup.policy=delete" in result.output


@pytest.mark.parametrize("flaw", ["password", "certificate"])
def test_a_login_that_is_refused(
    guarded: SecuredBroker, tmp_path: Path, flaw: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong password and a broker that is not trusted end with 3, say so, and show no secret."""
    monkeypatch.setattr(clients, "REQUEST_SECONDS", 2.0)
    properties = guarded.properties(tmp_path, "0ther-Pa55" if flaw == "password" else PASSWORD)
    if flaw == "certificate":
        import trustme

        trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
        properties.write_text(properties.read_text().replace(str(guarded.ca), str(tmp_path / "other.pem")))
    words = ["--bootstrap-server", guarded.checked, "--command-config", properties, "--debug"]
    result = invoke("run", "--checkpoint", tmp_path / "checkpoint", *words)
    assert result.exit_code == ExitCode.CONNECTION
    assert "refused the login" in result.stderr or "certificate" in result.stderr
    assert "0ther-Pa55" not in result.output
    assert PASSWORD not in result.output


def prober_rights(guarded: SecuredBroker) -> set[str | None]:
    """What the job's documents have said of the prober's rights since the topics were made."""
    documents = job_documents(guarded)
    probers = [one["prober"] for one in documents if "prober" in one]
    return {None if one is None else one["rights"] for one in probers[-1:]} or {None}


def is_blind(guarded: SecuredBroker) -> bool:
    """Whether the job's latest word of its conditions is that it has no right to see the groups."""
    said = [one["conditions"] for one in job_documents(guarded) if "conditions" in one]
    return bool(said) and [one["what"] for one in said[-1]] == ["no_rights"]


def job_documents(guarded: SecuredBroker) -> list[Json]:
    """All of ``group-job``."""
    return read_json(guarded.broker.bootstrap_servers, TOPICS.job)


def leaks(guarded: SecuredBroker, folder: Path) -> list[str]:
    """Where the password turns up in what a job has left behind: its files and its topics."""
    secret = PASSWORD.encode()
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".properties"]
    found = [str(path) for path in files if secret in path.read_bytes()]
    for topic in OUTPUT_TOPICS:
        messages = read_topic(guarded.broker.bootstrap_servers, topic)
        found += [topic for one in messages if secret in (one.key or b"") + (one.value or b"")]
    return found


def web_pages(port: int) -> str:
    """What Spark's own interface tells of its settings and its queries."""
    base = f"http://127.0.0.1:{port}/api/v1/applications"
    application = json.loads(fetch(base))[0]["id"]
    pages = (f"{base}/{application}/environment", f"{base}/{application}/sql?details=true&length=1000")
    return "".join(map(fetch, (*pages, f"http://127.0.0.1:{port}/environment/")))


def fetch(address: str) -> str:
    """A page on this machine."""
    with urlopen(address, timeout=30) as answer:
        return str(answer.read().decode())


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("every", [True, False], ids=["every right", "no right that can be spared"])
def test_the_named_rights_are_enough(guarded: SecuredBroker, tmp_path: Path, every: bool) -> None:
    """With the rights of the page and no other the job gets the group's document and events out.

    The right to create is needed only when the topics are missing, that to see all groups only by the prober:
    without it the job says that it is blind, not that no group is rebalancing. With everything on that talks
    (DEBUG, tracebacks, Spark's web interface) the password stands nowhere.
    """
    server = guarded.broker.bootstrap_servers
    delete_topics(guarded)
    guarded.allow_only([one for one in RIGHTS if every or (one.needed and one != CREATE)])
    if not every:
        make_topics(guarded)
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "groupreplay", "--log-level", "DEBUG", "--debug", "run"]
    command += ["--spark-conf", "spark.ui.enabled=true", "--spark-conf", f"spark.ui.port={port}"]
    command += map(str, commands(guarded, tmp_path, "--checkpoint", tmp_path / "checkpoint", "--trigger", 1))
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (
        Stage(server, tmp_path, [Step(0, "backfill", Action.COMMIT)]) as stage,
        GuardedProcess(command, tmp_path / "job.log", environment=environment) as job,
        SinkReader(server) as reader,
    ):

        def soon(condition: Callable[[], object]) -> None:
            wait_until(lambda: job.exit_code is not None or condition(), DEADLINE_SECONDS, pause=0.2)
            assert job.exit_code is None, job.tail()

        soon(reader.find_topics)
        soon(lambda: reader.events(0.2) or reader.caught_up_ms)
        stage.advance(0)
        # Documents come with the events, or a batch later.
        soon(lambda: (reader.events(0.2), reader.documents)[1])
        soon(lambda: prober_rights(guarded) != {None})
        if not every:
            soon(lambda: is_blind(guarded))
        pages = web_pages(port)
        job.end(20.0)
        text = job.log.read_text()
        assert list(reader.documents) == ["backfill"], job.tail()
        assert re.findall("(?:Topic|Cluster|Group)AuthorizationException", text) == [], job.tail()
        assert (prober_rights(guarded) - {None}, is_blind(guarded)) == (
            {"ok" if every else "missing"},
            not every,
        )
        assert (GRANT_DESCRIBE in text) is not every, job.tail()
    # The settings are shown, and the secret ones are not.
    assert "spark.redaction.regex" in pages
    assert PASSWORD not in pages
    assert "DEBUG org.apache.spark" in text
    assert leaks(guarded, tmp_path) == []
