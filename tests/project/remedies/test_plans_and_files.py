"""What messages about simulations, bundles and files say to do helps: it is read, done, and the message is gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from groupreplay.app.bundle import builder
from groupreplay.streaming.base.errors import ExitCode
from support.histories.builders import generation, member
from support.job.captures import invoke, raw, write_capture
from support.paths import ROOT
from support.remedies import Attempt, Remedy, Said, prove, unreachable, without_cluster

SIMULATE = "simulate --groups 1 --seconds 60 -o new.parquet"
SESSION = "group.consumer.session.timeout.ms"
LIST = "list --from-file CAPTURE"
AT = 1_767_225_600_000
REPLAY = "replay --from-file CAPTURE"


def put(old: str) -> Callable[[Attempt, Said], None]:
    """Types the value of the message instead of another one."""
    return lambda attempt, said: attempt.put(old, said["new"])


def write(text: str) -> Callable[[Attempt, Said], None]:
    """Writes the file anew."""

    def apply(_attempt: Attempt, _said: Said) -> None:
        Path("FILE").write_text(text)

    return apply


def put_file(attempt: Attempt, _: Said) -> None:
    """A file instead of a device."""
    attempt.put("/dev/null", "new.parquet")


def swap_times(attempt: Attempt, _: Said) -> None:
    """The earlier time is the first one."""
    attempt.words[-3], attempt.words[-1] = attempt.words[-1], attempt.words[-3]


def named_scenario(attempt: Attempt, said: Said) -> None:
    """One of those that the command of the message prints."""
    listed = invoke(*said["command"].split())
    assert listed.exit_code == ExitCode.OK
    attempt.put("x", listed.stdout.split()[0])


ZONE = r"write (?P<utc>UTC), a name such as (?P<name>[\w/]+), or an offset such as (?P<offset>\S+)"
CASES = (
    # Simulations.
    Remedy(
        line="simulate --scenario timeout -o new.parquet --groups 1 --seconds 60",
        of="app.simulate.files: …groupreplay simulate --list",
        says=r"did you mean (?P<new>\w+)\?",
        apply=put("timeout"),
    ),
    Remedy(
        line="simulate --scenario x -o new.parquet --groups 1 --seconds 60",
        of="app.simulate.files: …groupreplay simulate --list",
        says=r"groupreplay (?P<command>simulate --list) prints all",
        apply=named_scenario,
    ),
    Remedy(
        line=f"{SIMULATE} --broker-property {SESSION}=x",
        of="app.simulate.files: docs/simulations.md lists",
        says="docs/simulations.md lists the settings",
        apply=lambda attempt, _: attempt.put(f"{SESSION}=x", f"{SESSION}=50000"),
    ),
    Remedy(
        line=f"{SIMULATE} --broker-property group.consumer.migration.policy=x",
        of="app.simulate.files: docs/simulations.md lists",
        says="docs/simulations.md lists the settings",
        apply=lambda attempt, _: attempt.put(
            "group.consumer.migration.policy=x", "group.consumer.migration.policy=disabled"
        ),
    ),
    Remedy(
        line=f"{SIMULATE} --broker-property inter.broker.protocol.version=3.9",
        of="app.simulate.files: add --scala:",
        says="add (?P<add>--scala): earlier ones",
        apply=lambda attempt, said: attempt.add(said["add"]),
    ),
    Remedy(
        line=f"{SIMULATE} --broker-property session.timeout.ms=9000",
        of="app.simulate.files: give it with --client-property",
        says="give it with (?P<new>--client-property)",
        apply=put("--broker-property"),
    ),
    Remedy(
        line=f"{SIMULATE} --client-property {SESSION}=50000",
        of="app.simulate.files: give it with --broker-property",
        says="give it with (?P<new>--broker-property)",
        apply=put("--client-property"),
    ),
    Remedy(
        line=f"{SIMULATE} --broker-property {SESSION}x=50000",
        of="app.simulate.files: …known here:",
        says=r"did you mean (?P<new>[\w.]+)\?",
        apply=lambda attempt, said: attempt.put(f"{SESSION}x=50000", f"{said['new']}=50000"),
    ),
    Remedy(
        line=f"{SIMULATE} --broker-property {SESSION}=70000",
        of="app.simulate.files: change one of the two",
        says="change one of the two",
        apply=lambda attempt, _: attempt.put(f"{SESSION}=70000", f"{SESSION}=60000"),
    ),
    Remedy(
        line="simulate --groups 1 --seconds 60 --force -o /dev/null",
        of="app.simulate.files: give a file",
        says="give a file, or (?P<flag>--truth-file)",
        apply=put_file,
    ),
    # Bundles.
    *(
        Remedy(line=f"bundle -o new.tar.gz {flags}", of=of, says=says, apply=put(flags.split()[-1]))
        for of, flags, says in (
            (
                "app.bundle.archive: use --scala",
                "--spark 4.0 --python 3.11 --scala 2.12",
                r"use --scala (?P<new>[\d.]+)",
            ),
            ("app.bundle.archive: use --spark", "--spark 2.4", r"use --spark (?P<new>\d\.\d)"),
            ("app.bundle.archive: use --spark", "--spark 2.4", r"of these such as (?P<new>[\d.]+\d)"),
            ("app.bundle.archive: use --python", "--spark 3.5 --python 2.7", r"use --python (?P<new>[\d.]+)"),
        )
    ),
    Remedy(
        line="bundle -o new.zip --spark 3.5",
        of="app.bundle.builder: give it a name that ends with .tar.gz",
        says=r"a name that ends with (?P<end>\.tar\.gz)",
        apply=lambda attempt, said: attempt.put("new.zip", f"new{said['end']}"),
    ),
    # What is typed.
    Remedy(
        line="decode --key-hex 0g",
        of="app.inspection.records: give pairs of hexadecimal",
        says="pairs of hexadecimal digits",
        apply=lambda attempt, _: attempt.put("0g", "0002000167"),
    ),
    Remedy(
        line=f"{LIST} --broker-property a",
        of="app.cli.options: … is not KEY=VALUE",
        says="is not (?P<new>KEY=VALUE)",
        apply=lambda attempt, _: attempt.put("a", "group.share.session.timeout.ms=45000"),
    ),
    Remedy(
        line="serve --metrics-only --bootstrap-server h:1 --history-file a",
        of="app.cli.commands.serve: … has no",
        says="(?P<out>--history-file) has no meaning",
        apply=lambda attempt, said: attempt.leave_out(said["out"], values=1),
    ),
    Remedy(
        line="describe --from-file CAPTURE --group g --history --since 2026-01-02 --until 2025-12-31",
        of="app.cli.printing_flags: --until … (…)",
        says="(?P<until>--until) .* is not after (?P<since>--since)",
        apply=swap_times,
    ),
    Remedy(
        line=f"{LIST} --broker-property group.consumer.session.timeout.ms=5000 "
        "--broker-property group.consumer.heartbeat.interval.ms=9000",
        of="app.cli.flags: no broker starts with",
        says=r"give (?P<new>[\w.]+=\d+) or more",
        apply=put("group.consumer.session.timeout.ms=5000"),
    ),
    *(
        Remedy(
            line="list --from-file CAPTURE --time-zone x",
            of="app.cli.options: …; write UTC, a",
            says=ZONE,
            apply=lambda attempt, said, name=name: attempt.put("x", said[name].rstrip(".")),
        )
        for name in ("utc", "name", "offset")
    ),
    Remedy(
        line="list --from-file CAPTURE --broker-release kafka",
        of="app.cli.flags: … is no release",
        says=r"give two numbers, such as (?P<new>\d\.\d)",
        apply=put("kafka"),
    ),
    Remedy(
        line="list --from-file CAPTURE --broker-property x=1",
        of="app.cli.flags: … is not read;",
        says=r"give one of (?P<name>[\w.]+),",
        apply=lambda attempt, said: attempt.put("x=1", f"{said['name']}=1000"),
    ),
    Remedy(
        line="list --from-file CAPTURE --broker-property group.share.session.timeout.ms=1m",
        of="app.cli.flags: …=… is no time of Kafka; give milliseconds, such as …=45000.",
        says=r"milliseconds, such as (?P<new>[\w.]+=\d+)",
        apply=put("group.share.session.timeout.ms=1m"),
    ),
    *(
        Remedy(
            line=f"list --from-file CAPTURE --broker-property {session}=5000 --broker-property {other}=9000",
            of="app.cli.flags: no broker starts with …=… and a shorter session;",
            says=r"give (?P<new>[\w.]+=\d+) or more",
            apply=put(f"{session}=5000"),
        )
        for session, other in (
            ("group.streams.session.timeout.ms", "group.streams.heartbeat.interval.ms"),
            ("group.consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms"),
        )
    ),
    Remedy(
        line="schema x",
        of="app.cli.commands.setup: There is no event",
        says=r"there are (?P<new>[\w.]+),",
        apply=put("x"),
    ),
    Remedy(
        line="list --from-file CAPTURE --type x",
        of="app.cli.options: unknown name …;",
        says=r"known are (?P<new>\w+),",
        apply=put("x"),
    ),
    Remedy(
        line="list --from-file CAPTURE --fail-on x",
        of="app.inspection.groups: known: …; or their",
        says=r"known: (?P<new>\w+),",
        apply=put("x"),
    ),
    Remedy(
        line="list --from-file CAPTURE --fail-on x",
        of="app.inspection.groups: known: …; or their",
        says=r"for example (?P<new>[\w.]+)",
        apply=put("x"),
    ),
    # Files.
    Remedy(
        line="list --command-config FILE",
        of="streaming.config.properties: check the path",
        says="check the path and its permissions",
        apply=write("bootstrap.servers=127.0.0.1:1\n"),
    ),
    Remedy(
        line="list --command-config FILE",
        files={"FILE": "bootstrap.servers=127.0.0.1:1\nclient.id=BYTE\n"},
        of="streaming.config.properties: save the file as UTF-8",
        says="save the file as UTF-8",
        apply=write("bootstrap.servers=127.0.0.1:1\n"),
    ),
    Remedy(
        line=f"{REPLAY} --redact hosts --redact-key-file FILE",
        of="streaming.config.settings: check the path",
        says="check the path and its permissions",
        apply=write("k" * 32),
    ),
    Remedy(
        line=f"{REPLAY} --rules FILE",
        files={"FILE": "BYTE"},
        of="streaming.config.rules_file: save the file as UTF-8",
        says="save the file as UTF-8",
        apply=write(""),
    ),
    Remedy(
        line=f"{REPLAY} --rules FILE",
        files={"FILE": "[rebalance.stuck\n"},
        of="streaming.config.rules_file: deploy/rules.toml shows every",
        says=r"deploy/rules\.toml shows every setting",
        apply=lambda attempt, _: attempt.put("FILE", str(ROOT / "deploy" / "rules.toml")),
    ),
    Remedy(
        line="list --from-file MISSING",
        of="streaming.sources.capture_order: check the path and its permissions",
        says="check the path and its permissions",
        apply=lambda attempt, _: attempt.put("MISSING", "CAPTURE"),
    ),
    Remedy(
        line="report --from-file CAPTURE --group g -o missing/new.json",
        of="streaming.base.files: check that the folder exists and is writable",
        says="check that the folder exists",
        apply=lambda _attempt, _said: Path("missing").mkdir(),
    ),
    # Files that exist.
    *(
        Remedy(
            line=line,
            of="streaming.base.files: choose another name",
            says=says,
            apply=apply,
            files={"old.html": "", "old.parquet": ""},
        )
        for line in (
            "report --from-file CAPTURE --group g -o old.html",
            "simulate --groups 1 --seconds 1 -o old.parquet",
            "capture --bootstrap-server h:1 -o old.parquet",
        )
        for says, apply in (
            ("replace it with (?P<add>--force)", lambda attempt, said: attempt.add(said["add"])),
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
    without_cluster(monkeypatch)
    monkeypatch.setattr(builder, "download_wheels", unreachable)
    prove(remedy)
