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
ZONE = r"write (?P<utc>UTC), a name such as (?P<name>[\w/]+), or an offset such as (?P<offset>\S+)"
RUN = "run --bootstrap-server 127.0.0.1:1"
JOB = f"{RUN} --checkpoint c"
CASES = (
    # What is missing.
    Remedy(line="list", says="give (?P<add>--from-file FILE),", apply=add(value="CAPTURE")),
    Remedy(line="list", says="or (?P<add>--bootstrap-server host:port)", apply=add()),
    Remedy(line="probe", says="give (?P<add>--bootstrap-server host:port)", apply=add()),
    Remedy(
        line="capture --bootstrap-server h:1", says="Give either (?P<add>-o FILE) or", apply=add(value="new")
    ),
    Remedy(line="capture", says="or (?P<add>--show FILE)", apply=add(value="CAPTURE")),
    Remedy(
        line="simulate --groups 1 --seconds 1",
        says="Give either (?P<add>-o FILE)",
        apply=add(value="new.parquet"),
    ),
    Remedy(line="simulate --bootstrap-server h:1", says="or (?P<add>--to-topic NAME)", apply=add()),
    Remedy(line=DESCRIBE, says=EITHER, apply=add("group", "g")),
    Remedy(line=DESCRIBE, says=EITHER, apply=add("all")),
    Remedy(line="report --from-file CAPTURE -o new.html", says=EITHER, apply=add("group", "g")),
    Remedy(line="report --from-file CAPTURE -o new.html", says=EITHER, apply=add("all")),
    Remedy(
        line="list --bootstrap-server h:1 --with-lag", says="needs (?P<add>--expiring)", apply=add(value="8d")
    ),
    Remedy(
        line="decode --value-hex 00",
        says="needs (?P<add>--key-hex)",
        apply=add(value="0002000167"),
        ends=NOTHING,
    ),
    Remedy(
        line=f"{DESCRIBE} --group g --min-severity warn --history --states",
        says="--min-severity needs (?P<add>--history)",
        apply=add(),
        ends=NOTHING,
    ),
    Remedy(line=f"{DESCRIBE} --group g --since 1h", says=BOUNDS, apply=add("history")),
    Remedy(line=f"{DESCRIBE} --group g --since 1h", says=BOUNDS, apply=add("states")),
    Remedy(line=f"{RUN} --checkpoint=", says="give (?P<add>--checkpoint FOLDER)", apply=add()),
    Remedy(
        line="serve --cluster a=P --cluster-sink b=P",
        says="no (?P<add>--cluster b=)FILE",
        apply=lambda attempt, said: attempt.add(f"{said['add']}P"),
    ),
    # What is too much.
    Remedy(
        line="list --from-file CAPTURE --with-lag --expiring 8d",
        says="give (?P<add>--bootstrap-server) instead of (?P<out>--from-file)",
        apply=instead,
    ),
    Remedy(
        line=f"{DESCRIBE} --all-groups --history --fail-on stuck",
        says="leave out (?P<out>--history)",
        apply=leave_out(),
    ),
    Remedy(
        line="events --bootstrap-server h:1 --follow --until now",
        says="leave out either (?P<out>--follow) or",
        apply=leave_out(),
    ),
    Remedy(
        line="events --bootstrap-server h:1 --follow --until now",
        says="leave out either --follow or (?P<out>--until)",
        apply=leave_out(values=1),
    ),
    Remedy(
        line=f"{DESCRIBE} --group g -o json --columns group",
        says="(?P<out>--columns) chooses .* leave it out with -o json",
        apply=leave_out(values=1),
    ),
    Remedy(
        line="report --from-file CAPTURE --all-groups -o new.svg",
        says="give (?P<add>--group) instead of (?P<out>--all-groups)",
        apply=instead,
    ),
    *(
        Remedy(line="serve --cluster a=P --bootstrap-server h:1", says=says, apply=leave_out(values=1))
        for says in (
            "either (?P<out>--cluster) NAME=FILE or --boot",
            "NAME=FILE or (?P<out>--bootstrap-server), not",
        )
    ),
    *(
        Remedy(
            line=f"{JOB} {flags}", says=f"use one of the two: {keep} .*, (?P<drop>--)", apply=leave_out(out)
        )
        for flags, keep, out in (
            ("--standby --take-over", "--standby", "--take-over"),
            ("--standby --take-over", "--standby", "--standby"),
            ("--standby --once", "--standby", "--once"),
            ("--standby --once", "--standby", "--standby"),
        )
    ),
    # Another value.
    *(
        Remedy(
            line=f"report --from-file CAPTURE --group g -o new.{old}",
            says=says,
            apply=lambda attempt, said: attempt.put("new.txt", f"new{said['end']}"),
        )
        for old, says in (("txt", r"must end with (?P<end>\.html),"), ("txt", r"\.svg or (?P<end>\.json)"))
    ),
    Remedy(line=f"{DESCRIBE} --group g --columns x", says=r"there are (?P<new>[\w-]+),", apply=put("x")),
    Remedy(
        line=f"{DESCRIBE} --group g --history --since 1h --until 3h",
        says=r"(?P<bounds>--since 3h --until 1h)\?",
        apply=swapped,
        ends=NOTHING,
    ),
    Remedy(
        line="replay --from-file CAPTURE --type completed",
        says=r"did you mean (?P<new>[\w.]+)\?",
        apply=put("completed"),
    ),
    Remedy(
        line="replay --from-file CAPTURE --type x",
        says="there are .*(?P<new>rebalance.completed)",
        apply=put("x"),
    ),
    Remedy(line="schema x", says=r"there are (?P<new>[\w.]+),", apply=put("x")),
    Remedy(
        line="list --from-file CAPTURE --type consumr",
        says=r"did you mean (?P<new>\w+)\?",
        apply=put("consumr"),
        ends=NOTHING,
    ),
    Remedy(line="list --from-file CAPTURE --type x", says=r"known are (?P<new>\w+),", apply=put("x")),
    Remedy(line="list --from-file CAPTURE --fail-on x", says=r"known: (?P<new>\w+),", apply=put("x")),
    Remedy(line="list --from-file CAPTURE --fail-on x", says=r"for example (?P<new>[\w.]+)", apply=put("x")),
    Remedy(
        line="serve --metrics-only --bootstrap-server h:1 --listen 1",
        says=r"write (?P<new>[\d.:]+)",
        apply=put("1"),
    ),
    *(
        Remedy(
            line="list --from-file CAPTURE --time-zone x",
            says=ZONE,
            apply=lambda attempt, said, name=name: attempt.put("x", said[name].rstrip(".")),
        )
        for name in ("utc", "name", "offset")
    ),
    Remedy(
        line="list --from-file CAPTURE --broker-release kafka",
        says=r"give two numbers, such as (?P<new>\d\.\d)",
        apply=put("kafka"),
    ),
    Remedy(
        line="list --from-file CAPTURE --broker-property x=1",
        says=r"give one of (?P<name>[\w.]+),",
        apply=lambda attempt, said: attempt.put("x=1", f"{said['name']}=1000"),
    ),
    Remedy(
        line="list --from-file CAPTURE --broker-property group.share.session.timeout.ms=1m",
        says=r"milliseconds, such as (?P<new>[\w.]+=\d+)",
        apply=put("group.share.session.timeout.ms=1m"),
    ),
    *(
        Remedy(
            line=f"list --from-file CAPTURE --broker-property {session}=5000 --broker-property {other}=9000",
            says=r"give (?P<new>[\w.]+=\d+) or more",
            apply=put(f"{session}=5000"),
        )
        for session, other in (
            ("group.streams.session.timeout.ms", "group.streams.heartbeat.interval.ms"),
            ("group.consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms"),
        )
    ),
    *(
        Remedy(line=f"{JOB} {flag} {old}", says=rf"use {flag} (?P<new>[\d.]+)", apply=put(old))
        for flag, old in (
            ("--trigger", "0"),
            ("--probe-interval", "0"),
            ("--shuffle-partitions", "0"),
            ("--max-offsets-per-trigger", "0"),
        )
    ),
    Remedy(
        line=f"{JOB} --events-topic a/b",
        says="(?P<allowed>letters, digits, dots, underscores and hyphens)",
        apply=lambda attempt, _: attempt.put("a/b", "aB1._-"),
    ),
    Remedy(
        line=f"{JOB} --events-topic a --states-topic a",
        says="a different name",
        apply=lambda attempt, _: attempt.put("a", "b"),
    ),
    Remedy(
        line="serve --cluster a/b=P",
        says=r"(?P<allowed>letters, digits, \. _ and -)\.",
        apply=lambda attempt, _: attempt.put("a/b=P", "aB1._-=P"),
    ),
    Remedy(
        line="report --from-file TWO --group * -o new.json",
        says=r"match '\*': (?P<new>\w+), .*give one of them",
        apply=put("*"),
    ),
    Remedy(
        line="report --from-file TWO --group * -o new.json",
        says="or (?P<command>report --all-groups)",
        apply=lambda attempt, said: setattr(
            attempt, "words", [*said["command"].split(), "--from-file", "TWO", "-o", "new.html"]
        ),
    ),
    # Another place, another command.
    Remedy(
        line="--from-file CAPTURE list",
        says="groupreplay list (?P<flag>--from-file)",
        apply=lambda attempt, said: setattr(attempt, "words", ["list", said["flag"], "CAPTURE"]),
    ),
    Remedy(
        line="list CAPTURE",
        says="given with (?P<command>--from-file CAPTURE)",
        apply=lambda attempt, said: setattr(attempt, "words", ["list", *said["command"].split()]),
    ),
    Remedy(
        line=f"{DESCRIBE} g",
        says=r"given with (?P<flag>--group g)\.",
        apply=lambda attempt, said: setattr(attempt, "words", [*attempt.words[:-1], *said["flag"].split()]),
    ),
    Remedy(line="lst --from-file CAPTURE", says=r"Did you mean (?P<new>\w+)\?", apply=put("lst")),
    Remedy(
        line=f"{DESCRIBE} --grup g", says="Did you mean one of: .*'(?P<new>--group)'", apply=put("--grup")
    ),
    Remedy(
        line="events --from-file CAPTURE",
        says=r"(?P<program>groupreplay) (?P<command>replay --from-file) FILE",
        apply=lambda attempt, said: setattr(attempt, "words", [*said["command"].split(), "CAPTURE"]),
    ),
    Remedy(
        line="demo --scenario timeouts",
        says=r"groupreplay (?P<command>simulate --scenario timeouts -o timeouts\.parquet)",
        apply=typed_anew,
    ),
    # Files that exist.
    *(
        Remedy(line=line, says=says, apply=apply, files={"old.html": "", "old.parquet": ""})
        for line in (
            "report --from-file CAPTURE --group g -o old.html",
            "simulate --groups 1 --seconds 1 -o old.parquet",
            "capture --bootstrap-server h:1 -o old.parquet",
        )
        for says, apply in (
            ("replace it with (?P<add>--force)", add()),
            (
                "choose another name",
                lambda attempt, _: attempt.words.append(attempt.words.pop().replace("old", "new")),
            ),
        )
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
