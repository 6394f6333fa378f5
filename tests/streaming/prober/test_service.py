"""The command ``probe``: what a person sees of a round, and when the answer is not the whole truth.

The prober's process: fed, listened to, started again when it dies, ended with us.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock, call

import msgspec
import psutil
import pytest

from groupreplay.state.conditions.job_blind import GRANT_DESCRIBE
from groupreplay.streaming.base.background import Background
from groupreplay.streaming.base.clock import AppendedMessage, now_ms
from groupreplay.streaming.base.process import StopRequest
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.partition_ends import EndsRound
from groupreplay.streaming.contract.probe_messages import (
    ClockReading,
    GroupAnswer,
    ProbeMessage,
    RoundSummary,
    decode_message,
)
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.log_ends import ReadableTopics
from groupreplay.streaming.kafka.publisher import MessageTooLargeError
from groupreplay.streaming.prober import last_rounds as earlier
from groupreplay.streaming.prober import service
from groupreplay.streaming.prober.ends import EndsRecorder
from groupreplay.streaming.prober.last_rounds import LastRounds, last_rounds
from groupreplay.streaming.prober.prober import ProbeRound
from groupreplay.streaming.prober.service import (
    ProberProcess,
    ProberTask,
    ProbeTarget,
    keep_probing,
)
from support.job.captures import CLUSTER_ID, invoke
from support.job.probes import PROBES, asked, beat, summed_up
from support.kafka.probes_topic import ProbesTopic
from support.kafka.waiting import wait_until

HOUR_MS = 3_600_000
BUSY = asked("g", "PreparingRebalance", at=7, members=["a", "b"])


@pytest.fixture
def round_taken(monkeypatch: pytest.MonkeyPatch) -> list[RoundSummary]:
    """Stands in for the cluster: what a round comes to."""
    summaries = [summed_up(at=1)]
    monkeypatch.setattr(service, "probe_once", lambda _: ProbeRound((BUSY,), summaries[0]))
    return summaries


def test_once(round_taken: list[RoundSummary]) -> None:
    """The groups that are rebalancing, with coordinator and members; JSON has what would be written."""
    words = ("probe", "--bootstrap-server", "h:1", "--once")
    assert invoke(*words).stdout.splitlines() == [
        "GROUP\tBROKER\tSTATE\t#MEMBERS\tMEMBERS",
        "g\t1\tPreparingRebalance\t2\ta/h, b/h",
    ]
    (document,) = json.loads(invoke(*words, "-o", "json").stdout)
    assert document == json.loads(msgspec.json.encode(BUSY))


@pytest.mark.parametrize(
    ("summary", "exit_code", "lines"),
    [
        (summed_up(at=1, rights="missing"), 4, ["error: this login may not see all groups", GRANT_DESCRIBE]),
        (summed_up(at=1, brokers={4: "timed out"}), 3, ["a broker did not answer: timed out", "broker 4"]),
        (summed_up(at=1, rights="unknown"), 0, []),
    ],
)
def test_once_with_holes(
    round_taken: list[RoundSummary], summary: RoundSummary, exit_code: int, lines: list[str]
) -> None:
    """What was seen is printed, and then that something could not be."""
    round_taken[0] = summary
    result = invoke("probe", "--bootstrap-server", "h:1", "--once")
    assert (result.exit_code, len(result.stdout.splitlines())) == (exit_code, 2)
    assert [line for line in lines if line not in result.stderr] == []


def test_round_after_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each flag reaches its place; the answers go to the watched cluster unless another is named."""
    probe = Mock(return_value=143)
    monkeypatch.setattr(service, "probe", probe)
    assert invoke("probe", "--bootstrap-server", "h:1").exit_code == 143
    words = "--sink-bootstrap-server s:1 --probes-topic p --interval 2"
    invoke("probe", "--bootstrap-server", "h:1", *words.split(), "--ends-interval", "5")
    invoke("probe", "--bootstrap-server", "h:1", "--no-ends")
    source = Cluster(bootstrap_servers="h:1")
    assert probe.call_args_list == [
        call(source, source, TopicNames(), 10.0, 30.0),
        call(source, Cluster(bootstrap_servers="s:1"), TopicNames(probes="p"), 2.0, 5.0),
        call(source, source, TopicNames(), 10.0, None),
    ]
    assert invoke("probe", "--bootstrap-server", "h:1", "--interval", "0.5").exit_code == 2


def test_a_round_that_the_topic_refuses_is_written_in_parts() -> None:
    """The answer about a large group is shortened, and the summary still follows it."""
    large = asked("g", "PreparingRebalance", at=7, members=[f"{number:040}" for number in range(300)])
    summary = summed_up(at=8)
    written: list[tuple[bytes, bytes]] = []

    def publish(_: str, messages: Iterable[tuple[bytes, bytes]]) -> list[AppendedMessage]:
        sent = list(messages)
        if sum(len(value) for _, value in sent) > 5_000:
            raise MessageTooLargeError("too large")
        written.extend(sent)
        return [AppendedMessage(1.0, 2.0, 3)]

    publisher = Mock(publish=publish)
    assert service._written(publisher, "t", [large, summary]) == [AppendedMessage(1.0, 2.0, 3)] * 2
    answer, last = (decode_message(*one) for one in written)
    assert isinstance(answer, GroupAnswer)
    assert (answer.truncated, 0 < len(answer.members) < 300, last) == (True, True, summary)


SECRET = "0pen-Sesame"
#: A prober that says one round, leaves what it was told and its process id, and waits.
ONE_ROUND = """
import os, pathlib, signal, sys
print('''%s''', flush=True)
folder = pathlib.Path(sys.argv[1])
(folder / "task").write_bytes(sys.stdin.buffer.read())
(folder / "part").write_text(str(os.getpid()))
(folder / "part").rename(folder / "pid")
signal.pause()
"""
SILENT = "import os, signal; os.kill(os.getpid(), signal.SIGABRT)"


def task() -> ProberTask:
    """What a prober is told; nobody listens on that port."""
    cluster = Cluster(bootstrap_servers="127.0.0.1:9", properties={"sasl.password": SECRET})
    names = {"topic": "probes", "cluster_id": "c", "job_id": "j", "log_level": "WARNING"}
    return ProberTask(source=cluster, sink=cluster, interval_seconds=1.0, log_format="json", **names)


class Watched:
    """A prober's process, and what it has told us; started and closed by a ``with`` statement."""

    def __init__(self, *words: str) -> None:
        self.rounds: list[RoundSummary] = []
        self.died = Mock()
        self.stop = StopRequest()
        self.process = ProberProcess(
            task(),
            on_round=self.rounds.append,
            on_exit=self.died,
            stop=self.stop,
            command=[sys.executable, "-c", *words],
            shortest_pause_seconds=0.01,
        )

    def __enter__(self) -> Watched:
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.close()


def pid_in(folder: Path, other_than: int | None = None) -> int:
    """The process that has left its id last."""
    path = folder / "pid"
    wait_until(lambda: path.exists() and path.read_text() != str(other_than))
    return int(path.read_text())


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGABRT])
def test_a_dead_prober_is_started_again(
    way: signal.Signals, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """However it died: the next one is told the same, its rounds arrive, and the log says what happened."""
    summary = summed_up(at=1)
    with Watched(ONE_ROUND % msgspec.json.encode(summary).decode(), str(tmp_path)) as prober:
        first = pid_in(tmp_path)
        told = (tmp_path / "task").read_bytes()
        os.kill(first, way)
        second = pid_in(tmp_path, other_than=first)
        wait_until(lambda: len(prober.rounds) == 2)
        assert (prober.rounds, prober.died.call_count) == ([summary, summary], 1)
        assert (tmp_path / "task").read_bytes() == told
        assert msgspec.json.decode(told, type=ProberTask) == task()
    assert not psutil.pid_exists(second)
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (
        logging.WARNING,
        f"the prober has ended ({way.name}) after 1 rounds: started again in 0.01 s",
    )


def test_the_pause_grows(caplog: pytest.LogCaptureFixture) -> None:
    """A process that dies before its first round is started again later and later."""
    with Watched(SILENT) as prober:
        wait_until(lambda: prober.died.call_count == 4)
    pauses = [record.getMessage().rpartition(" in ")[2] for record in caplog.records]
    assert pauses[:4] == ["0.01 s", "0.02 s", "0.04 s", "0.08 s"]
    assert "(SIGABRT) after 0 rounds" in caplog.text


def test_a_line_that_was_cut_off_is_no_round(tmp_path: Path) -> None:
    """What a dying process has half written is left out; what comes before and after it counts."""
    whole = msgspec.json.encode(summed_up(at=1))
    with Watched(ONE_ROUND % (whole + b"\n" + whole[:20]).decode(), str(tmp_path)) as prober:
        os.kill(pid_in(tmp_path), signal.SIGKILL)
        wait_until(lambda: len(prober.rounds) >= 2)
    assert set(map(msgspec.json.encode, prober.rounds)) == {whole}


def test_no_word_of_the_secret_is_seen_from_outside(tmp_path: Path) -> None:
    """It is told through a pipe: neither the command line nor the environment has it."""
    with Watched(ONE_ROUND % "", str(tmp_path)):
        process = psutil.Process(pid_in(tmp_path))
        seen = [*process.cmdline(), *process.environ().values()]
        assert SECRET in (tmp_path / "task").read_text()
        assert [text for text in seen if SECRET in text] == []


def test_one_that_ends_with_us_is_not_missed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A service manager asks all processes of a job to end, and the prober is the quicker one."""
    with Watched(ONE_ROUND % "", str(tmp_path)) as prober:
        pid = pid_in(tmp_path)
        prober.stop.make(signal.SIGTERM)
        os.kill(pid, signal.SIGTERM)
        prober.process._thread.join(60)
    assert (prober.died.call_count, caplog.records) == (0, [])


def test_closed_before_it_was_started() -> None:
    """Closing what was never started, or twice, is harmless."""
    prober = Watched(SILENT)
    prober.process.close()
    prober.process.close()
    assert prober.died.call_count == 0


def test_the_real_process() -> None:
    """With settings that no client takes it goes on trying, says so in JSON, and ends by SIGTERM."""
    command = [sys.executable, "-m", "groupreplay.streaming.prober.service"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(msgspec.json.encode(task()).replace(b"sasl.password", b"security.protocol"))
        process.stdin.close()
        said = msgspec.json.decode(process.stderr.readline())
        process.terminate()
        assert process.wait(60) == 0
    assert said["message"].startswith("the prober failed: ")


def test_pandas_is_not_loaded() -> None:
    """The process leaves pandas alone, which Arrow would load for its first array: 35 MB beside each job."""
    code = (
        "import sys\nimport pyarrow as pa\nfrom groupreplay.streaming.prober import service\n"
        "service.keep_probing = lambda *_: print(pa.array([1]).to_pylist(), 'pandas' in sys.modules)\n"
        "service.main()"
    )
    given = msgspec.json.encode(task())
    done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, check=True)
    assert done.stdout == b"[1] False\n"


CLUSTER = Cluster(bootstrap_servers="h:1")
MESSAGES = [
    asked("ended", "PreparingRebalance", at=1),
    asked("waiting", "Stable", at=2),
    asked("waiting", "CompletingRebalance", at=3),
    asked("ended", "Stable", at=4),
    summed_up(at=4),
    summed_up(at=5, brokers={1: None, 2: "timed out"}),
    (b"junk", b"junk"),
    beat(at=5, caught_up=4),
]


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> ProbesTopic:
    """The topic that the connection finds."""
    return ProbesTopic(monkeypatch, MESSAGES, earlier)


def test_the_last_rounds(topic: ProbesTopic) -> None:
    """The last answer of each group counts, and the last round of all brokers; older messages are not read."""
    found = last_rounds(Connection(CLUSTER), PROBES, CLUSTER_ID, 2)
    assert found == LastRounds(frozenset({"waiting"}), 4)
    assert topic.read == [({0: 2}, {0: 8})]
    assert last_rounds(Connection(CLUSTER), PROBES, "another", 2) == LastRounds()
    topic.partitions = 0
    assert last_rounds(Connection(CLUSTER), PROBES, CLUSTER_ID, 2) == LastRounds()


WITH_ENDS = ProbeTarget(
    source=Cluster(bootstrap_servers="h:1"),
    sink=Cluster(bootstrap_servers="h:1"),
    topic="probes",
    cluster_id="c",
    interval_seconds=1.0,
    ends_interval_seconds=1.0,
)


def test_ends_are_dated_by_the_brokers_from_the_first_round_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine whose clock is an hour fast, and without a round of the other thread: what is written says when."""
    stop, written = StopRequest(), list[tuple[int, ProbeMessage | None]]()

    def publish(_: str, messages: Iterable[tuple[bytes, bytes]]) -> list[AppendedMessage]:
        sent, append_ms = time.monotonic(), now_ms() - HOUR_MS
        written.extend((append_ms, decode_message(*message)) for message in messages)
        return [AppendedMessage(sent, time.monotonic(), append_ms)]

    def asks(*_: object, clock: Callable[[], int], **__: object) -> EndsRecorder:
        return EndsRecorder(
            topics=lambda _: ReadableTopics(),
            ends=lambda *_: {},
            cluster_id="c",
            clock=clock,
            interval_ms=1_000,
        )

    monkeypatch.setattr(service, "ends_recorder", asks)
    monkeypatch.setattr(service, "Publisher", lambda _: SimpleNamespace(publish=publish))
    idle = Background(name="rounds", tick=lambda: None, pause_seconds=60.0)
    monkeypatch.setattr(service, "prober_thread", lambda *_, **__: idle)
    thread = threading.Thread(target=keep_probing, args=(WITH_ENDS, lambda _: None, stop))
    thread.start()
    try:
        wait_until(lambda: any(isinstance(message, EndsRound) for _, message in written))
    finally:
        stop.make()
        thread.join(60)
    assert isinstance(written[0][1], ClockReading)
    rounds = [(append_ms, message) for append_ms, message in written if isinstance(message, EndsRound)]
    assert all(abs(message.taken_ms - append_ms) < HOUR_MS // 2 for append_ms, message in rounds)


def test_rounds_for_stuck_groups_never_wait_for_the_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a question about the ends of partitions has no answer, the rounds of the prober go on."""
    asked, answered, stop = threading.Event(), threading.Event(), StopRequest()
    rounds: list[str] = []

    def asks(*_: object, **__: object) -> EndsRecorder:
        def topics(_: object) -> ReadableTopics:
            asked.set()
            answered.wait(60)
            return ReadableTopics()

        return EndsRecorder(
            topics=topics, ends=lambda *_: {}, cluster_id="c", clock=lambda: 1, interval_ms=1_000
        )

    monkeypatch.setattr(service, "ends_recorder", asks)
    monkeypatch.setattr(service, "Publisher", lambda _: SimpleNamespace(publish=print))
    monkeypatch.setattr(
        service,
        "prober_thread",
        lambda *_, **__: Background(name="rounds", tick=lambda: rounds.append("round"), pause_seconds=0.01),
    )
    thread = threading.Thread(target=keep_probing, args=(WITH_ENDS, lambda _: None, stop))
    thread.start()
    try:
        assert asked.wait(60)
        before = len(rounds)
        wait_until(lambda: len(rounds) >= before + 5)
        assert not answered.is_set()
    finally:
        answered.set()
        stop.make()
        thread.join(60)
