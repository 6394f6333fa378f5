"""What messages about flags say to do helps: it is read in the message, typed, and the message is gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import ExitCode
from support.histories.builders import generation, member
from support.histories.raw_records import commit, log
from support.job.captures import raw, write_capture
from support.remedies import Attempt, Remedy, Said, prove, without_cluster


def add(name: str = "add", value: str = "") -> Callable[[Attempt, Said], None]:
    """Types what the message names."""
    return lambda attempt, said: attempt.add(said[name], value)


def leave_out(flag: str = "", *, values: int = 0) -> Callable[[Attempt, Said], None]:
    """Takes the flag away that the message names."""
    return lambda attempt, said: attempt.leave_out(flag or said["out"], values=values)


def put(old: str) -> Callable[[Attempt, Said], None]:
    """Types the value of the message instead of another one."""
    return lambda attempt, said: attempt.put(old, said["new"])


def instead(attempt: Attempt, said: Said) -> None:
    """The one flag for the other one."""
    attempt.leave_out(said["out"], values=said["out"] != "--all-groups")
    attempt.add(said["add"], "g" if said["add"] == "--group" else "127.0.0.1:1")


def typed_anew(attempt: Attempt, said: Said) -> None:
    """The command of the message, as it stands there."""
    attempt.words = said["command"].split()


def before_the_command(attempt: Attempt, said: Said) -> None:
    """The flags behind the command, as the message shows it."""
    flag = attempt.words.index(said["flag"])
    words = attempt.words[flag : flag + 2]
    del attempt.words[flag : flag + 2]
    attempt.words[1:1] = words


def swapped(attempt: Attempt, said: Said) -> None:
    """The bounds as the message has them."""
    attempt.words = [*attempt.words[:-4], *said["bounds"].split()]


AT = 1_767_225_600_000
#: Nothing was found, or the record of the line is none.
NOTHING = (ExitCode.DATA,)
DESCRIBE = "describe --from-file CAPTURE"
EITHER = "Give either (?P<group>--group) or (?P<all>--all-groups)"
BOUNDS = r"need (?P<history>--history) or (?P<states>--states); (?P<at>--at TIME) shows"
RUN = "run --bootstrap-server 127.0.0.1:1"
JOB = f"{RUN} --checkpoint c"
CASES = (
    # What is missing.
    Remedy(
        line="list",
        of="app.cli.inputs: Nothing to read:",
        says="give (?P<add>--from-file FILE),",
        apply=add(value="CAPTURE"),
    ),
    Remedy(
        line="list",
        of="app.cli.inputs: Nothing to read:",
        says="or (?P<add>--bootstrap-server HOST:PORT)",
        apply=add(),
    ),
    Remedy(
        line="coordinator",
        of="app.cli.commands.records: Give GROUP, the id of a group.",
        says="Give (?P<argument>GROUP), the id",
        apply=lambda attempt, _: attempt.words.append("payments"),
    ),
    Remedy(
        line="probe",
        of="app.cli.flags: No cluster is named:",
        says="give (?P<add>--bootstrap-server HOST:PORT)",
        apply=add(),
    ),
    Remedy(
        line="capture --bootstrap-server h:1",
        of="app.cli.commands.records: Give either -o",
        says="Give either (?P<add>-o FILE) or",
        apply=add(value="new"),
    ),
    Remedy(
        line="capture",
        of="app.cli.commands.records: Give either -o",
        says="or (?P<add>--show FILE)",
        apply=add(value="CAPTURE"),
    ),
    Remedy(
        line="capture --from-file CAPTURE -o new --duration 5",
        of="app.cli.commands.records: --duration follows",
        says="leave it out",
        apply=leave_out("--duration", values=1),
    ),
    Remedy(
        line="explain g --from-file CAPTURE --at now --until now",
        of="app.cli.printing_flags: Give either --at",
        says="either (?P<out>--at) TIME",
        apply=leave_out("--until", values=1),
    ),
    Remedy(
        line="simulate --groups 1 --seconds 1",
        of="app.cli.commands.simulate: Give either -o",
        says="Give either (?P<add>-o FILE)",
        apply=add(value="new.parquet"),
    ),
    Remedy(
        line="simulate --bootstrap-server h:1",
        of="app.cli.commands.simulate: Give either -o",
        says="or (?P<add>--to-topic NAME)",
        apply=add(),
    ),
    Remedy(
        line=DESCRIBE,
        of="app.cli.commands.describe: Give either --group",
        says=EITHER,
        apply=add("group", "g"),
    ),
    Remedy(line=DESCRIBE, of="app.cli.commands.describe: Give either --group", says=EITHER, apply=add("all")),
    Remedy(
        line="report --from-file CAPTURE -o new.html",
        of="app.cli.commands.report: Give either --group",
        says=EITHER,
        apply=add("group", "g"),
    ),
    Remedy(
        line="report --from-file CAPTURE -o new.html",
        of="app.cli.commands.report: Give either --group",
        says=EITHER,
        apply=add("all"),
    ),
    Remedy(
        line="decode --value-hex 00",
        of="app.cli.commands.records: --value-hex needs --key-hex:",
        says="needs (?P<add>--key-hex)",
        apply=add(value="0002000167"),
        ends=NOTHING,
    ),
    Remedy(
        line=f"{DESCRIBE} --group g --min-severity warn --history --states",
        of="app.cli.commands.describe: --min-severity needs --history:",
        says="--min-severity needs (?P<add>--history)",
        apply=add(),
        ends=NOTHING,
    ),
    Remedy(
        line=f"{DESCRIBE} --group g --since 1h",
        of="app.cli.commands.describe: --since, --until and",
        says=BOUNDS,
        apply=add("history"),
    ),
    Remedy(
        line=f"{DESCRIBE} --group g --since 1h",
        of="app.cli.commands.describe: --since, --until and",
        says=BOUNDS,
        apply=add("states"),
    ),
    Remedy(
        line=f"{RUN} --checkpoint=",
        of="streaming.config.settings: give --checkpoint FOLDER,",
        says="give (?P<add>--checkpoint FOLDER)",
        apply=add(),
    ),
    Remedy(
        line="serve --cluster a=P --cluster-sink b=P",
        of="app.cli.commands.serve: There is no --cluster",
        says="no (?P<add>--cluster b=)FILE",
        apply=lambda attempt, said: attempt.add(f"{said['add']}P"),
    ),
    # What is too much.
    Remedy(
        line="list --from-file CAPTURE --with-lag --expiring 8d",
        of="app.cli.inputs: --with-lag asks a",
        says="give (?P<add>--bootstrap-server) instead of (?P<out>--from-file)",
        apply=instead,
    ),
    Remedy(
        line=f"{DESCRIBE} --all-groups --history --fail-on stuck",
        of="app.cli.commands.describe: --fail-on needs the",
        says="leave out (?P<out>--history)",
        apply=leave_out(),
    ),
    Remedy(
        line="events --bootstrap-server h:1 --follow --until now",
        of="app.cli.commands.events: --follow never ends:",
        says="leave out either (?P<out>--follow) or",
        apply=leave_out(),
    ),
    Remedy(
        line="events --bootstrap-server h:1 --follow --until now",
        of="app.cli.commands.events: --follow never ends:",
        says="leave out either --follow or (?P<out>--until)",
        apply=leave_out(values=1),
    ),
    Remedy(
        line=f"{DESCRIBE} --group g -o json --columns group",
        of="app.cli.printing_flags: --columns chooses columns",
        says="(?P<out>--columns) chooses .* leave it out with -o json",
        apply=leave_out(values=1),
    ),
    Remedy(
        line="report --from-file CAPTURE --all-groups -o new.svg",
        of="app.cli.commands.report: A file *… shows",
        says="give (?P<add>--group) instead of (?P<out>--all-groups)",
        apply=instead,
    ),
    *(
        Remedy(
            line="serve --cluster a=P --bootstrap-server h:1",
            of="app.cli.commands.serve: Give either --cluster",
            says=says,
            apply=leave_out(values=1),
        )
        for says in (
            "either (?P<out>--cluster) NAME=FILE or --boot",
            "NAME=FILE or (?P<out>--bootstrap-server), not",
        )
    ),
    *(
        Remedy(
            line=f"{JOB} {flags}",
            of=of,
            says=f"use one of the two: {keep} .*, (?P<drop>--)",
            apply=leave_out(out),
        )
        for of, flags, keep, outs in (
            (
                "streaming.config.settings: use one of the two: --standby for a service, --take-over",
                "--standby --take-over",
                "--standby",
                ("--take-over", "--standby"),
            ),
            (
                "streaming.config.settings: use one of the two: --standby for a service, --once",
                "--standby --once",
                "--standby",
                ("--once", "--standby"),
            ),
        )
        for out in outs
    ),
    # Another value.
    *(
        Remedy(
            line=f"report --from-file CAPTURE --group g -o new.{old}",
            of="app.cli.commands.report: -o must end with",
            says=says,
            apply=lambda attempt, said: attempt.put("new.txt", f"new{said['end']}"),
        )
        for old, says in (("txt", r"must end with (?P<end>\.html),"), ("txt", r"\.svg or (?P<end>\.json)"))
    ),
    Remedy(
        line=f"{DESCRIBE} --group g --columns x",
        of="app.cli.printing_flags: There is no column",
        says=r"there are (?P<new>[\w-]+),",
        apply=put("x"),
    ),
    Remedy(
        line=f"{DESCRIBE} --group g --history --since 1h --until 3h",
        of="app.cli.printing_flags: --until … (…) is not after --since … (…), in …. Ages",
        says=r"(?P<bounds>--since 3h --until 1h)\?",
        apply=swapped,
        ends=NOTHING,
    ),
    Remedy(
        line="replay --from-file CAPTURE --type completed",
        of="app.cli.flags: There is no event",
        says=r"did you mean (?P<new>[\w.]+)\?",
        apply=put("completed"),
    ),
    Remedy(
        line="replay --from-file CAPTURE --type x",
        of="app.cli.commands.setup: There is no event",
        says="there are .*(?P<new>rebalance.completed)",
        apply=put("x"),
    ),
    Remedy(
        line="list --from-file CAPTURE --type consumr",
        of="app.cli.options: unknown name …;",
        says=r"did you mean (?P<new>\w+)\?",
        apply=put("consumr"),
        ends=NOTHING,
    ),
    *(
        Remedy(
            line=f"serve --bootstrap-server h:1 {flag} 1", of=of, says=r"write (?P<new>\S+)", apply=put("1")
        )
        for flag, of in (
            ("--metrics-only --listen", "app.cli.options: … is not HOST:PORT;"),
            ("--public-url", "app.cli.flags: … is no address of pages;"),
        )
    ),
    *(
        Remedy(line=f"{JOB} {flag} {old}", of=of, says=rf"use {flag} (?P<new>[\d.]+)", apply=put(old))
        for of, flag, old in (
            ("streaming.config.settings: use --trigger 0.1", "--trigger", "0"),
            ("streaming.config.settings: use --probe-interval 1", "--probe-interval", "0"),
            ("streaming.config.settings: use --ends-interval 1", "--ends-interval", "0"),
            ("streaming.config.settings: use --shuffle-partitions 4", "--shuffle-partitions", "0"),
            ("streaming.config.settings: use --max-offsets-per-trigger", "--max-offsets-per-trigger", "0"),
        )
    ),
    Remedy(
        line=f"{JOB} --events-topic a/b",
        of="streaming.config.settings: use up to 249 letters,",
        says="(?P<allowed>letters, digits, dots, underscores and hyphens)",
        apply=lambda attempt, _: attempt.put("a/b", "aB1._-"),
    ),
    Remedy(
        line=f"{JOB} --events-topic a --states-topic a",
        of="streaming.config.settings: give each of the",
        says="a different name",
        apply=lambda attempt, _: attempt.put("a", "b"),
    ),
    Remedy(
        line="serve --cluster a/b=P",
        of="app.cli.commands.serve: … is no name for",
        says=r"(?P<allowed>letters, digits, \. _ and -)\.",
        apply=lambda attempt, _: attempt.put("a/b=P", "aB1._-=P"),
    ),
    Remedy(
        line="report --from-file TWO --group * -o new.json",
        of="app.cli.commands.report: give one of them,",
        says=r"match '\*': (?P<new>\w+), .*give one of them",
        apply=put("*"),
    ),
    Remedy(
        line="report --from-file TWO --group * -o new.json",
        of="app.cli.commands.report: give one of them,",
        says="or (?P<command>report --all-groups)",
        apply=lambda attempt, said: setattr(
            attempt, "words", [*said["command"].split(), "--from-file", "TWO", "-o", "new.html"]
        ),
    ),
    # Another place, another command.
    Remedy(
        line="--from-file CAPTURE list",
        of=None,
        says="groupreplay list (?P<flag>--from-file)",
        apply=lambda attempt, said: setattr(attempt, "words", ["list", said["flag"], "CAPTURE"]),
    ),
    Remedy(
        line="list CAPTURE",
        of="app.cli.command: …: a capture is",
        says="given with (?P<command>--from-file CAPTURE)",
        apply=lambda attempt, said: setattr(attempt, "words", ["list", *said["command"].split()]),
    ),
    Remedy(
        line=f"{DESCRIBE} g",
        of="app.cli.command: …: a group is given",
        says=r"given with (?P<flag>--group g)\.",
        apply=lambda attempt, said: setattr(attempt, "words", [*attempt.words[:-1], *said["flag"].split()]),
    ),
    Remedy(line="lst --from-file CAPTURE", of=None, says=r"Did you mean (?P<new>\w+)\?", apply=put("lst")),
    Remedy(
        line=f"{DESCRIBE} --grup g",
        of=None,
        says="Did you mean one of: .*'(?P<new>--group)'",
        apply=put("--grup"),
    ),
    Remedy(
        line="events --from-file CAPTURE",
        of=None,
        says=r"(?P<program>groupreplay) (?P<command>replay --from-file) FILE",
        apply=lambda attempt, said: setattr(attempt, "words", [*said["command"].split(), "CAPTURE"]),
    ),
    Remedy(
        line="demo --scenario timeouts",
        of="app.cli.commands.demo: The scenario …",
        says=r"groupreplay (?P<command>simulate --scenario timeouts -o timeouts\.parquet)",
        apply=typed_anew,
    ),
)


@pytest.mark.parametrize("remedy", CASES, ids=[f"{one.line}: {one.says}" for one in CASES])
def test_the_remedy_of_a_message_helps(
    remedy: Remedy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is refused; with what the message says it is not, or for another reason."""
    monkeypatch.chdir(tmp_path)
    write_capture(Path("CAPTURE"), raw([generation(1, member("a", [0]), at=AT)]))
    write_capture(Path("TWO"), log([commit("a"), commit("b")]))
    Path("P").write_text("bootstrap.servers=127.0.0.1:1\n")
    without_cluster(monkeypatch)
    prove(remedy)
