"""What messages about scenarios say to do helps: it is read in the message, done, and the message is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.job.captures import invoke
from support.remedies import Attempt, Remedy, Said, edit, prove

SMALL = "simulate --groups 1 --seconds 1 -o new.parquet"
OWN = f"{SMALL} --scenario own.toml"


def write(attempt: Attempt, said: Said) -> None:
    """Writes the name of the message into the file."""
    edit("own.toml", "wrong", said["new"])


def example(attempt: Attempt, said: Said) -> None:
    """The file is what the command of the message prints."""
    shown = invoke(*said["command"].split(), "steady")
    assert shown.exit_code == 0, shown.output
    Path("own.toml").write_text(shown.stdout)


#: Every scenario has one.
TITLE = 'title = "Its own"\n'
HELP = r"groupreplay (?P<command>simulate --show) NAME prints an example"
CASES = (
    Remedy(
        line=f"{SMALL} --scenario stedy",
        says=r"did you mean (?P<new>\w+)\?",
        apply=lambda attempt, said: attempt.put("stedy", said["new"]),
    ),
    Remedy(
        line=f"{SMALL} --scenario x",
        says="groupreplay (?P<command>simulate --list) prints all",
        apply=lambda attempt, said: setattr(attempt, "words", said["command"].split()),
    ),
    Remedy(
        line=f"{SMALL} --scenario own",
        files={"own.toml": TITLE},
        says=r"a file ends with (?P<end>\.toml)",
        apply=lambda attempt, said: attempt.put("own", f"own{said['end']}"),
    ),
    Remedy(
        line=OWN,
        files={"own.toml": TITLE + "[group]\nwrong = 1\n"},
        says=r"known here: (?P<new>members),",
        apply=write,
    ),
    Remedy(
        line=OWN,
        files={"own.toml": TITLE + "[group]\nmembrs = 1\n"},
        says=r"did you mean (?P<new>\w+)\?",
        apply=lambda _, said: edit("own.toml", "membrs", said["new"]),
    ),
    *(
        Remedy(line=OWN, files={"own.toml": TITLE + text}, says=HELP, apply=example)
        for text in (
            "[group\n",
            "[group]\nmembers = 'many'\n",
            "[[event]]\n",
            '[client]\n"session.timeout.ms" = -1\n',
        )
    ),
    Remedy(
        line=OWN,
        files={"own.toml": TITLE + '[client]\n"session.timeout.ms" = { one = 1 }\n'},
        says=r"write \{ (?P<new>one-of) = \[\.\.\.\] \}",
        apply=lambda _, said: edit("own.toml", "one = 1", f"{said['new']} = [10000]"),
    ),
    Remedy(
        line=OWN,
        files={"own.toml": TITLE + '[broker]\n"session.timeout.ms" = 10000\n'},
        says=r"write it below (?P<new>\[client\])",
        apply=lambda _, said: edit("own.toml", "[broker]", said["new"]),
    ),
    Remedy(
        line=f"{SMALL} --broker-property session.timeout.ms=10000",
        says="or (?P<new>--client-property)",
        apply=lambda attempt, said: attempt.put("--broker-property", said["new"]),
    ),
    Remedy(
        line=f"{SMALL} --broker-property group.max.siz=2",
        says=r"did you mean (?P<new>[\w.]+)\?",
        apply=lambda attempt, said: attempt.put("group.max.siz=2", f"{said['new']}=2"),
    ),
    Remedy(
        line=f"{SMALL} --broker-property inter.broker.protocol.version=2.8",
        says="add (?P<add>--scala)",
        apply=lambda attempt, said: attempt.add(said["add"]),
    ),
    Remedy(
        line=f"{SMALL} --client-property session.timeout.ms=10000 --client-property heartbeat.interval.ms=20000",
        says="(?P<name>heartbeat.interval.ms).*change one of the two",
        apply=lambda attempt, said: attempt.put(f"{said['name']}=20000", f"{said['name']}=3000"),
    ),
    Remedy(
        line=f"{SMALL} --broker-property group.min.session.timeout.ms=50000 "
        "--broker-property group.max.session.timeout.ms=40000",
        says="(?P<name>group.min.session.timeout.ms).*change one of the two",
        apply=lambda attempt, said: attempt.put(f"{said['name']}=50000", f"{said['name']}=6000"),
    ),
    Remedy(
        line=OWN,
        files={"own.toml": TITLE + '[[mixture]]\nscenario = "own.toml"\nweight = 1\n'},
        says=r"remove it from (?P<table>\[\[mixture\]\])",
        apply=lambda _, said: Path("own.toml").write_text(
            f'{TITLE}{said["table"]}\nscenario = "steady"\nweight = 1\n'
        ),
    ),
    Remedy(
        line=OWN,
        files={
            "own.toml": TITLE + '[[mixture]]\nscenario = "part.toml"\nweight = 1\n',
            "part.toml": TITLE + '[broker]\n"group.max.size" = 2\n',
        },
        says="mix scenarios without them, and write them into this file",
        apply=lambda _attempt, _said: (
            edit("part.toml", '[broker]\n"group.max.size" = 2\n', ""),
            edit("own.toml", "[[mix", '[broker]\n"group.max.size" = 2\n[[mix'),
        )[0],
    ),
    Remedy(
        line=f"{SMALL} --scenario a/+.toml",
        says="rename it with (?P<letters>letters, digits, '.', '_' and '-')",
        apply=lambda attempt, _: (
            Path("aB1._-.toml").write_text(TITLE),
            attempt.put("a/+.toml", "aB1._-.toml"),
        )[1],
    ),
    Remedy(
        line=f"{SMALL} --scenario missing.toml",
        says="check (?P<flag>--scenario)",
        apply=lambda attempt, said: attempt.leave_out(said["flag"], values=1),
    ),
    Remedy(
        line="simulate --groups 1 --seconds 1 -o /dev/null",
        says="give a file, or (?P<add>--truth-file)",
        apply=lambda attempt, said: attempt.words.extend([said["add"], "truth"]),
    ),
    Remedy(
        line="simulate --groups 1 --seconds 1 -o /dev/null",
        says="(?P<what>give a file), or",
        apply=lambda attempt, _: attempt.put("/dev/null", "new.parquet"),
    ),
)


@pytest.mark.parametrize(
    "remedy", CASES, ids=[f"{at} {one.line}: {one.says}" for at, one in enumerate(CASES)]
)
def test_the_remedy_of_a_message_helps(
    remedy: Remedy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scenario is refused; with what the message says it is not."""
    monkeypatch.chdir(tmp_path)
    prove(remedy)
