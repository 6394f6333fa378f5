"""What reading commands read, and up to when it is known; and what a new kind of input takes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from importlib import import_module, reload
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from groupreplay.app.cli import inputs
from groupreplay.app.cli.flags import ClusterFlags, ProbesFlags
from groupreplay.app.cli.options import file_flag
from groupreplay.app.cli.printing_flags import TableFlags
from groupreplay.app.inspection.groups import live_groups
from groupreplay.app.text.times import given_time
from groupreplay.streaming.base.clock import UTC, now_ms
from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.config.rules_file import RulesSource
from groupreplay.streaming.config.settings import RetentionFlags
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.sources.capture import CaptureSource, read_captures
from groupreplay.streaming.sources.capture_context import CaptureContext
from groupreplay.streaming.sources.source import DataEnd, Rows, counted
from support.histories.group_writer import GroupWriter
from support.histories.log_files import batch, write_segment
from support.histories.modern_builders import handover
from support.histories.raw_records import Raw, commit
from support.job.captures import invoke, raw, rows_batch, write_capture

AT = 1_767_225_600_000
WEEK = RetentionFlags(retention_minutes=10_080, check_interval_ms=600_000, broker_release=(3, 9))
NO_PROBES = ProbesFlags("group-probes", ClusterFlags(), asked_for=False)


class Answering:
    """A cluster that names its topics."""

    def topic_names(self) -> Mapping[str, str]:
        """One topic."""
        return {"id-1": "orders"}

    def admin(self) -> Any:
        """It lists no groups."""
        listed: Future[Any] = Future()
        listed.set_result(SimpleNamespace(valid=[], errors=[]))
        return SimpleNamespace(list_consumer_groups=lambda **_: listed)

    def broker_settings(self, wanted: object) -> Mapping[str, str]:
        """Nothing."""
        return {}


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Member ``a`` has been asked to give up a partition; nothing was written since."""
    return write_capture(tmp_path / "a.parquet", raw(handover(AT)))


def conditions(capture: Path, until_ms: int | None = None) -> list[Any]:
    """The names of the conditions that hold at the end of what is read."""
    query = inputs.GroupsQuery(
        log=inputs.LogInput(values={"from_file": [capture], "source": ClusterFlags()}, probes=NO_PROBES),
        retention=WEEK,
        types=(),
        with_lag=False,
        at=None if until_ms is None else given_time(str(until_ms)),
        zone=UTC,
        fail_on=(),
        rules=RulesSource(),
        output="table",
        table=TableFlags(),
    )
    with inputs.replaying(query, query.at_range()) as (replay, rows):
        (group,) = live_groups(replay, rows)
    return [one["condition"] for one in group["conditions"]]


def test_a_capture_is_known_up_to_its_last_record(capture: Path) -> None:
    """Nobody knows what was written after that."""
    assert conditions(capture) == conditions(capture, AT + 3_600_000) == []


def test_a_capture_is_known_up_to_the_time_it_was_taken(tmp_path: Path) -> None:
    """Its context has the time: the same conditions as on the live topic then."""
    taken = write_capture(
        tmp_path / "b.parquet", raw(handover(AT)), context=CaptureContext(complete_ms=AT + 90_000)
    )
    assert conditions(taken) == ["rebalance.slow"]
    assert conditions(taken, AT + 3_000) == []


def test_a_live_topic_is_known_up_to_now(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is stuck writes nothing: what waits for time to pass shows all the same; or at the time asked for."""

    def live(*_: object, **__: object) -> Rows:
        rows = read_captures([capture])
        return replace(rows, connection=cast(Connection, Answering()), complete_ms=now_ms())

    monkeypatch.setattr(CaptureSource, "open", live)
    assert "rebalance.stuck" in conditions(capture)
    assert conditions(capture, AT + 90_000) == ["rebalance.slow"]
    assert conditions(capture, AT + 3_000) == []


LIVED = "group.consumer.session.timeout.ms"
BEAT = "group.consumer.heartbeat.interval.ms"
SHOWN = (
    ("replay", "-o", "jsonl", "--member-events"),
    ("replay", "-o", "table"),
    ("describe", "--history", "--group", "g"),
    ("report", "--group", "g", "-o", "g.json", "--force"),
)


@pytest.mark.parametrize("words", SHOWN)
@pytest.mark.parametrize(
    ("properties", "assumed", "named"),
    [
        ((), {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 5_000}, {LIVED, BEAT}),
        ((f"{LIVED}=60000",), {"heartbeat_interval_ms": 5_000}, {BEAT}),
        ((f"{LIVED}=60000", f"{BEAT}=3000"), {}, set()),
    ],
)
def test_assumed_sessions(
    tmp_path: Path,
    words: tuple[str, ...],
    properties: tuple[str, ...],
    assumed: dict[str, int],
    named: set[str],
) -> None:
    """Where something that is shown rests on them: in one line on stderr, with the flags that end it; not otherwise."""
    life = GroupWriter()
    life.join("a")
    life.join("b")
    life.settle()
    capture = write_capture(tmp_path / "a.parquet", raw(life.log))
    command, *flags = [word.replace("g.json", str(tmp_path / "g.json")) for word in words]
    before = invoke(command, "--from-file", capture, *flags)
    assert (before.exit_code, "sessions of" in before.stderr) == (0, False)
    life.leave("b")
    life.settle()
    write_capture(capture, raw(life.log))
    given = [word for property_ in properties for word in ("--broker-property", property_)]
    result = invoke(command, "--from-file", capture, *flags, *given)
    assert result.exit_code == 0, result.output
    line = result.stderr.replace("=MS", "")
    assert {one for one in (LIVED, BEAT) if one in line} == named
    assert ("sessions of consumer groups last 45.0 s" in line) == (LIVED in named)
    if "jsonl" in words:
        events = [json.loads(text) for text in result.stdout.splitlines()]
        last = {
            event["type"].split(".", 1)[1]: event["data"]["assumed"]
            for event in events
            if "assumed" in event["data"]
        }
        assert last == {"member.left.v1": assumed, "rebalance.completed.v1": assumed}


@dataclass(frozen=True)
class Lines:
    """An input of another kind: a text file whose lines are the ids of groups that committed, a second apart."""

    path: Path

    @property
    def origin(self) -> str:
        """The name of the file."""
        return self.path.name

    @property
    def flags(self) -> Sequence[str]:
        """The flag and the file."""
        return ["--lines", self.path.name]

    def open(
        self, partitions: Sequence[int] = (), groups: Collection[str] | None = None, progress: object = None
    ) -> Rows:
        """A commit for each line, in partition 0."""
        ids = self.path.read_text().split()
        records = [Raw(0, at, AT + 1_000 * at, *commit(group, offset=at)) for at, group in enumerate(ids)]
        return counted(Rows("cluster of lines", "era", iter([rows_batch(records)]), where=self.origin))

    def end(self) -> DataEnd:
        """The last line."""
        return DataEnd(at_ms=AT + 1_000 * (len(self.path.read_text().split()) - 1), is_live=False)

    def digest(self) -> str:
        """No real one."""
        return "0" * 64


@pytest.fixture
def with_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The program with that kind: one flag and one line in the table; no command knows of it."""
    kind = inputs.SourceKind(
        "lines",
        lambda: {"lines": file_flag("File of group ids.")},
        lambda log: Lines(log.values["lines"]) if log.values.get("lines") else None,
    )
    monkeypatch.setattr(inputs, "KINDS", [kind, *inputs.KINDS])
    # Flags are declared when the module of a command is loaded.
    modules = [import_module(f"groupreplay.app.cli.commands.{name}") for name in ("events", "records")]
    for module in modules:
        reload(module)
    yield
    monkeypatch.undo()
    for module in modules:
        reload(module)


@pytest.mark.usefixtures("with_lines")
def test_another_kind_of_input(tmp_path: Path) -> None:
    """Commands read it, count ages back from its end, and name it, without a change of theirs."""
    path = tmp_path / "groups.txt"
    path.write_text("payments\norders\npayments\n")
    missing = invoke("decode", "--lines", path, "--group", "refunds")
    assert missing.exit_code == 5
    assert (
        "there is no group 'refunds' in groups.txt: 2 groups: orders, payments; 3 records" in missing.stderr
    )
    late = invoke("decode", "--lines", path, "--since", "1s", "--with-position")
    assert [json.loads(line)["offset"] for line in late.stdout.splitlines()] == [1, 2]
    replayed = invoke("replay", "--lines", path, "-o", "jsonl")
    events = [json.loads(line) for line in replayed.stdout.splitlines()]
    assert [(event["subject"], event["type"].rpartition("groupreplay.")[2]) for event in events] == [
        ("orders", "offsets.expiring.v1"),
        ("payments", "offsets.expiring.v1"),
    ]


def test_what_is_typed_comes_before_the_configuration_file(tmp_path: Path) -> None:
    """A capture in the file does not hide a folder, another capture or a cluster on the command line."""
    capture = write_capture(tmp_path / "in-file.parquet", [Raw(0, 1, AT, *commit("in-file", offset=1))])
    folder = tmp_path / "__consumer_offsets-0"
    write_segment(folder, batch(0, commit("in-folder", offset=1)))
    config = tmp_path / "config.toml"
    for setting in (f'from_file = ["{capture}"]', f'from_log_dir = ["{folder}"]'):
        config.write_text(f"[list]\n{setting}\n[capture]\n{setting}\n")
        for typed, group in (
            (["--from-file", capture], "in-file"),
            (["--from-log-dir", folder], "in-folder"),
        ):
            assert [row["group_id"] for row in listed("--config", config, "list", *typed)] == [group]
            copy = tmp_path / "copy.parquet"
            invoke("--config", config, "capture", *typed, "-o", copy, "--force")
            assert [row["group_id"] for row in listed("list", "--from-file", copy)] == [group]
        asked = invoke(
            "--config", config, "capture", "--bootstrap-server", "127.0.0.1:1", "-o", tmp_path / "new"
        )
        assert asked.exit_code == ExitCode.CONNECTION


def test_what_does_not_say_is_named_by_its_kind(tmp_path: Path) -> None:
    """Assumed values are reported once, with what was read: a folder of logs is no capture."""
    folder = tmp_path / "__consumer_offsets-0"
    write_segment(folder, batch(0, commit("g", offset=1)))
    for flag, path, kind in (
        ("--from-log-dir", folder, "folder"),
        (
            "--from-file",
            write_capture(tmp_path / "a.parquet", [Raw(0, 1, AT, *commit("g", offset=1))]),
            "capture",
        ),
    ):
        assert invoke("describe", "--group", "g", "--offsets", flag, path).stderr.startswith(
            f"assumed, because the {kind} does not say: "
        )


def listed(*words: object) -> list[dict[str, Any]]:
    """The rows of ``list``."""
    rows: list[dict[str, Any]] = json.loads(invoke(*words, "-o", "json").stdout)
    return rows
