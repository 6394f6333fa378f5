"""``groupreplay run`` and ``probe`` on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.config.settings import Cluster, RunSettings, TopicNames
from groupreplay.streaming.contract.probe_messages import GroupAnswer, RoundSummary
from groupreplay.streaming.prober import service
from groupreplay.streaming.prober.prober import ProbeRound
from support.job.captures import invoke


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> list[RunSettings]:
    """Stands in for the job: takes the settings and ends with 7."""
    given: list[RunSettings] = []
    module = ModuleType("groupreplay.streaming.spark.job")

    def run(settings: RunSettings, handover: object = None) -> int:
        assert handover is None
        given.append(settings)
        return 7

    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "groupreplay.streaming.spark.job", module)
    return given


def test_run_with_defaults(job: list[RunSettings]) -> None:
    """What is not said is the settings' own default, and the job's exit code is the program's."""
    result = invoke("run", "--bootstrap-server", "h:1", "--checkpoint", "/c")
    assert (result.exit_code, result.stderr) == (7, "")
    assert job == [RunSettings(source=Cluster(bootstrap_servers="h:1"), checkpoint="/c", log_level="WARN")]


def test_run_with_everything(job: list[RunSettings], tmp_path: Path) -> None:
    """Each flag reaches the setting of its name."""
    (tmp_path / "a").write_text("security.protocol=SSL\n")
    (tmp_path / "b").write_text("bootstrap.servers=sink:1\n")
    words = (
        f"run --bootstrap-server h:1 --command-config {tmp_path}/a --sink-command-config {tmp_path}/b "
        "--checkpoint /c --trigger 2.5 --master local[2] --backfill-events --member-events --label team=x "
        "--no-probe --probe-interval 3 "
        "--label env=prod --max-offsets-per-trigger 10 --shuffle-partitions 3 --ivy-settings i.xml "
        "--spark-conf spark.a=b --events-topic e --states-topic s --dead-letters-topic d --job-topic j "
        "--probes-topic p --log-level info --no-ends --ends-interval 60"
    )
    assert invoke(*words.split()).exit_code == 7
    assert job == [
        RunSettings(
            source=Cluster(bootstrap_servers="h:1", properties={"security.protocol": "SSL"}),
            sink=Cluster(bootstrap_servers="sink:1", properties={"bootstrap.servers": "sink:1"}),
            checkpoint="/c",
            topics=TopicNames(events="e", states="s", dead_letters="d", job="j", probes="p"),
            trigger_seconds=2.5,
            master="local[2]",
            shuffle_partitions=3,
            max_offsets_per_trigger=10,
            backfill_events=True,
            member_events=True,
            probe=False,
            probe_interval_seconds=3.0,
            ends=False,
            ends_interval_seconds=60.0,
            labels={"team": "x", "env": "prod"},
            ivy_settings=Path("i.xml"),
            log_level="INFO",
            spark_conf={"spark.a": "b"},
        )
    ]


def test_run_once(job: list[RunSettings]) -> None:
    """A single run is a setting of its own; a standby never ends, so both together are an error of usage."""
    words = ["run", "--bootstrap-server", "h:1", "--checkpoint", "/c", "--once"]
    assert invoke(*words).exit_code == 7
    (given,) = job
    assert (given.once, given.standby) == (True, False)
    result = invoke(*words, "--standby")
    assert (result.exit_code, len(job)) == (2, 1)
    assert result.stderr.startswith("error: --standby waits for another job for ever")


def test_run_refuses_settings_that_cannot_be(job: list[RunSettings]) -> None:
    """The settings check themselves; the command says what they say."""
    result = invoke("run", "--bootstrap-server", "h:1", "--checkpoint", "/c", "--trigger", "0")
    assert (result.exit_code, job) == (2, [])
    assert result.stderr.startswith("error: the trigger is too short\n")


def test_a_default_gives_way(job: list[RunSettings], tmp_path: Path) -> None:
    """A standby by configuration can be run once; without a prober in the file one can be asked for."""
    config = tmp_path / "config.toml"
    config.write_text('[run]\nstandby = true\nno-probe = true\ncheckpoint = "/c"\n')
    words = ["--config", config, "run", "--bootstrap-server", "h:1"]
    for flags in ([], ["--once", "--probe"]):
        assert invoke(*words, *flags).exit_code == 7
    assert [(one.standby, one.once, one.probe) for one in job] == [(True, False, False), (False, True, True)]


ANSWER = GroupAnswer(
    cluster_id="c",
    group_id="g",
    taken_ms=1,
    state="PreparingRebalance",
    broker=7,
    protocol_type="consumer",
    protocol="range",
    members=(),
)


def taken(error: str | None) -> ProbeRound:
    """A round with one group; broker 8 answers, or has this error."""
    summary = RoundSummary(
        cluster_id="c",
        taken_ms=1,
        brokers={7: None, 8: error},
        rights="ok",
        partitions={},
        partition_count=0,
        groups=1,
    )
    return ProbeRound((ANSWER,), summary)


@pytest.mark.parametrize(("error", "code"), [(None, ExitCode.OK), ("timed out", ExitCode.CONNECTION)])
def test_once(monkeypatch: pytest.MonkeyPatch, error: str | None, code: ExitCode) -> None:
    """The answers are printed also when a broker is silent; the exit code says that the list is incomplete."""
    monkeypatch.setattr(service, "probe_once", lambda _: taken(error))
    result = invoke("probe", "--bootstrap-server", "h:1", "--once", "-o", "json")
    assert result.exit_code == code, result.stderr
    assert [(row["group_id"], row["broker"]) for row in json.loads(result.stdout)] == [("g", 7)]


def test_at_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --once the flags reach the prober: the sink is the source unless named."""
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(service, "probe", lambda *arguments: calls.append(arguments) or 143)
    words = ["probe", "--bootstrap-server", "h:1", "--interval", "3", "--probes-topic", "p"]
    assert [invoke(*words).exit_code, invoke(*words, "--sink-bootstrap-server", "s:1").exit_code] == [
        143,
        143,
    ]
    source, sink, topics = (
        Cluster(bootstrap_servers="h:1"),
        Cluster(bootstrap_servers="s:1"),
        TopicNames(probes="p"),
    )
    assert calls == [(source, source, topics, 3.0, 30.0), (source, sink, topics, 3.0, 30.0)]
