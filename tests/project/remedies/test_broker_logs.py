"""What messages about logs of brokers, Redpanda's records and long answers say to do helps: it is read, and done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from groupreplay.app.mcp.answers import Commands
from groupreplay.codecs import GroupMetadataKey, GroupMetadataValue, encode_key
from groupreplay.streaming.base.errors import GroupReplayError
from support.histories.builders import generation, gone, member
from support.histories.raw_records import Raw
from support.histories.redpanda import dialect
from support.job.captures import CLUSTER_ID, raw, write_capture
from support.remedies import Attempt, Remedy, Said, prove, read_remedy

AT = 1_767_225_600_000
REPLAY = "replay --from-file CAPTURE --broker-log"
LINE = "2026-01-01 00:00:00,000"
SAID = "[GroupCoordinator 1]: Stabilized group g generation 1 (__consumer_offsets-0) with 1 members"
STARTED = "[BrokerLifecycleManager id=1] Incarnation W of broker 1 in cluster {} is now STARTING."


def log_of(cluster: str) -> str:
    """The log of a broker of this cluster, in the layout of Kafka."""
    return "".join(f"[{LINE}] INFO {text} (kafka.Log)\n" for text in (STARTED.format(cluster), SAID))


def write(name: str) -> Callable[[Attempt, Said], None]:
    """Writes the log of a broker of the capture's cluster, and names it in place of what was given."""

    def apply(attempt: Attempt, _: Said) -> None:
        Path("server.log").write_text(log_of(CLUSTER_ID))
        attempt.put(name, "server.log")

    return apply


CASES = (
    Remedy(
        line=f"{REPLAY} MISSING",
        of="app.cli.flags: --broker-log …: there is no such file.",
        says="--broker-log MISSING: there is no such file",
        apply=write("MISSING"),
    ),
    Remedy(
        line=f"{REPLAY} FOLDER",
        of="streaming.broker_log.files: give log files",
        says=r"give log files of brokers, plain or \.gz",
        apply=write("FOLDER"),
    ),
    Remedy(
        line=f"{REPLAY} ODD",
        files={"ODD": f"{LINE}|{SAID}\n"},
        of="streaming.broker_log.files: give the conversion",
        says=r"give the conversion pattern .* with (?P<flag>--broker-log-pattern), such as '\[(?P<time>%d)\]",
        apply=lambda attempt, said: attempt.words.extend([said["flag"], f"{said['time']}|%m%n"]),
    ),
    Remedy(
        line=f"{REPLAY} OTHER",
        files={"OTHER": log_of("another")},
        of="streaming.broker_log.reader: give the logs",
        says="give the logs of the brokers of that cluster",
        apply=write("OTHER"),
    ),
    Remedy(
        line="list --from-file REDPANDA",
        of="streaming.sources.source: give --retention-minutes",
        says=r"give (?P<flag>--retention-minutes): .* in minutes \((?P<minutes>\d+) by default\)",
        apply=lambda attempt, said: attempt.words.extend([said["flag"], said["minutes"]]),
    ),
)


@pytest.mark.parametrize("remedy", CASES, ids=[f"{one.line}: {one.says}" for one in CASES])
def test_the_remedy_of_a_message_helps(
    remedy: Remedy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log or the capture is refused; with what the message says it is not."""
    monkeypatch.chdir(tmp_path)
    record = generation(1, member("a-1", [0]), at=AT)
    write_capture(Path("CAPTURE"), raw([record]))
    Path("FOLDER").mkdir()
    assert isinstance(record.value, GroupMetadataValue)
    group = Raw(0, 0, AT, encode_key(GroupMetadataKey(group="g")), dialect(record.value))
    write_capture(Path("REDPANDA"), [group])
    prove(remedy)


@pytest.mark.parametrize(
    ("word", "flags"),
    [
        ("one group", ["--group=a"]),
        ("a shorter time", ["--since=2026-01-01T03:00:00Z"]),
        ("fewer types of events", ["--type=group.deleted"]),
    ],
)
def test_an_answer_that_cannot_be_short(tmp_path: Path, word: str, flags: list[str]) -> None:
    """Three clients have names of 20 000 characters: one of them, or a time or types without them, have an answer."""
    records = [
        replace(
            generation(1, member("m", [0], client_id=client), at=AT + hour * 3_600_000),
            key=GroupMetadataKey(group=group),
        )
        for hour, (group, client) in enumerate(zip("abcd", [*["c" * 20_000] * 3, "short"], strict=True))
    ]
    records.append(replace(gone(at=AT + 4 * 3_600_000), key=GroupMetadataKey(group="d")))
    capture = write_capture(tmp_path / "long.parquet", raw(records))
    command = Commands(["--from-file", str(capture)])
    asked: Any = partial(command.answer, "replay", "--member-events", "--output=jsonl")
    with pytest.raises(GroupReplayError, match="the answer is too long") as caught:
        anyio.run(asked)
    read_remedy("app.mcp.answers: ask for one group, for", str(caught.value))
    assert word in str(caught.value)
    assert anyio.run(partial(asked, *flags))["left_out"] == {}
