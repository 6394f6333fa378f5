"""What messages about files of settings say to do helps: it is read in the message, done, and the message is gone."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.histories.raw_records import commit, log
from support.job.captures import write_capture
from support.remedies import Attempt, Remedy, Said, edit, prove, without_cluster

CONFIG = "--config FILE list --from-file CAPTURE"
RULES = "replay --from-file CAPTURE --rules FILE"
PROPERTIES = "list --command-config FILE"
REDACT = "replay --from-file CAPTURE --redact hosts"
SERVERS = "bootstrap.servers=127.0.0.1:1\n"
JAAS = "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"


def write(old: str, new: str = "new") -> Callable[[Attempt, Said], None]:
    """Writes what the message names into the file, instead of something else."""
    return lambda _, said: edit("FILE", old, said[new])


def swap(old: str, new: str) -> Callable[[Attempt, Said], None]:
    """Writes this into the file, which the message describes."""
    return lambda _attempt, _said: edit("FILE", old, new)


def as_example(attempt: Attempt, said: Said) -> None:
    """The example of the message is the file."""
    Path("FILE").write_text(f"{said['top']}\n{said['table']}\n{said['below']}\n")


def made(attempt: Attempt, said: Said) -> None:
    """Runs the command of the message in a shell."""
    subprocess.run(said["shell"], shell=True, check=True, timeout=60)
    if "--redact-key-file" not in attempt.words:
        attempt.words += ["--redact-key-file", said["file"]]


def set_variable(attempt: Attempt, said: Said) -> None:
    """The variable of the message."""
    attempt.environment[said["name"]] = "a"


def exported(_: Attempt, said: Said) -> None:
    """The certificate is in the file that the message names, and the settings are those of the message."""
    Path("ca.pem").touch()
    settings = [line for line in Path("FILE").read_text().splitlines() if not line.startswith("ssl.")]
    Path("FILE").write_text("\n".join([*settings, said["type"], said["place"]]))


EXAMPLE = (
    r'write, for example: (?P<top>bootstrap-server = "[\w:]+"), '
    r"and below (?P<table>\[run\]): (?P<below>\w+ = \d+)"
)
KEY = r"(?P<shell>\(umask 077; openssl rand -hex 32 > (?P<file>\S+)\))"
WEEKLY = r'such as (?P<weekly>weekly = "[^"]+") with (?P<zone>zone = "[^"]+")'
CASES = (
    # The configuration file.
    Remedy(
        line=CONFIG,
        of="streaming.config.config_file: write, for example:",
        files={"FILE": "[run\n"},
        says=EXAMPLE,
        apply=as_example,
    ),
    Remedy(
        line=CONFIG,
        of="streaming.config.config_file: write, for example:",
        files={"FILE": "bootstrap-server = [1]\n"},
        says=EXAMPLE,
        apply=as_example,
    ),
    Remedy(
        line=CONFIG,
        of="streaming.config.config_file: write, for example:",
        files={"FILE": "[replay]\ngroup = 7\n"},
        says=r'so it is a list: (?P<new>\["…"\])',
        apply=write("7"),
    ),
    Remedy(
        line=CONFIG,
        of="streaming.config.config_file: write, for example:",
        files={"FILE": "[run]\nmember-events = 7\n"},
        says="is (?P<new>true) or false",
        apply=write("7"),
    ),
    Remedy(
        line=CONFIG,
        of="streaming.config.config_file: known there: …",
        files={"FILE": "[list]\nx = 1\n"},
        says=r"known there: .*(?P<new>with_lag)",
        apply=lambda _, said: edit("FILE", "x = 1", f"{said['new']} = true"),
    ),
    Remedy(
        line=CONFIG,
        of="streaming.config.config_file: remove the others",
        files={"FILE": "[run]\nprobe = true\nno-probe = true\n"},
        says="(?P<out>no_probe) can be set, .* remove the others",
        apply=swap("no-probe = true\n", ""),
    ),
    Remedy(
        line=CONFIG,
        of="streaming.config.config_file: write one of: …",
        files={"FILE": 'output = "x"\n'},
        says=r"write one of: (?P<new>\w+),",
        apply=write("x"),
    ),
    Remedy(
        line="--config missing list --from-file CAPTURE",
        of="streaming.config.config_file: check --config",
        says="check (?P<flag>--config)",
        apply=lambda attempt, said: attempt.leave_out(said["flag"], values=1),
    ),
    # The rules.
    Remedy(
        line=RULES,
        of="streaming.config.rules_file: …known here:",
        files={"FILE": "[rebalance.stuk]\nthreshold_ms = 1\n"},
        says=r"did you mean (?P<new>\w+)\?",
        apply=write("stuk"),
    ),
    Remedy(
        line=RULES,
        of="streaming.config.rules_file: …known here:",
        files={"FILE": "[rebalance.x]\nthreshold_ms = 1\n"},
        says=r"known here: .*\b(?P<new>stuck)\b",
        apply=write("x"),
    ),
    Remedy(
        line=RULES,
        of="streaming.config.rules_file: it names the groups:",
        files={"FILE": "[[group]]\nignore = true\n"},
        says=r'it names the groups: (?P<new>match = "[^"]+")',
        apply=lambda _, said: edit("FILE", "ignore", f"{said['new']}\nignore"),
    ),
    Remedy(
        line=RULES,
        of="streaming.config.rules_file: use *, ?, [abc]",
        files={"FILE": '[[group]]\nmatch = "a[b"\n'},
        says=r"(?P<new>\[\[\]) stands for a bracket itself",
        apply=write("a[b"),
    ),
    Remedy(
        line=RULES,
        of="streaming.config.rules_file: write […...] above",
        files={"FILE": '[[group]]\nmatch = "*"\njob.blind.threshold_ms = 1\n'},
        says=r"write (?P<table>\[job)\.\.\.\] above \[\[group\]\]",
        apply=lambda _, said: Path("FILE").write_text(
            f'{said["table"]}.blind]\nthreshold_ms = 1\n[[group]]\nmatch = "*"\n'
        ),
    ),
    Remedy(
        line="replay --from-file CAPTURE --rule stuck=3000",
        of="streaming.config.rules_file: such as rebalance.stuck.threshold_ms",
        says=r"such as (?P<new>[\w.]+)",
        apply=lambda attempt, said: attempt.put("stuck=3000", f"{said['new']}=3000"),
    ),
    *(
        Remedy(
            line=RULES,
            of="streaming.config.rules_file: such as weekly",
            files={"FILE": f'[[window]]\nmatch = "*"\n{text}\n'},
            says=WEEKLY,
            apply=lambda _, said, text=text: edit("FILE", text, f"{said['weekly']}\n{said['zone']}"),
        )
        for text in (
            'weekly = "Saturday night"',
            'zone = "UTC"',
            "from = 2026-01-02T00:00:00Z",
            "from = 2026-01-02T00:00:00Z\nuntil = 2026-01-01T00:00:00Z",
            'from = 2026-01-01T00:00:00Z\nuntil = 2026-01-02T00:00:00Z\nweekly = "Sat 02:00-04:00"',
        )
    ),
    *(
        Remedy(
            line=RULES,
            of="streaming.config.rules_file: such as Europe/Berlin",
            files={"FILE": '[[window]]\nmatch = "*"\nweekly = "Sat 02:00-04:00"\nzone = "x"\n'},
            says=r"such as (?P<name>[\w/]+) or (?P<offset>\+[\d:]+)",
            apply=lambda _, said, name=name: edit("FILE", '"x"', f'"{said[name]}"'),
        )
        for name in ("name", "offset")
    ),
    Remedy(
        line="replay --from-file CAPTURE --rules missing",
        of="streaming.config.rules_file: check --rules",
        says="check (?P<flag>--rules)",
        apply=lambda attempt, said: attempt.leave_out(said["flag"], values=1),
    ),
    # Client properties.
    Remedy(
        line=PROPERTIES,
        of="streaming.config.properties: add both before",
        files={"FILE": SERVERS + f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n{JAAS};\n"},
        says=r'no (?P<first>username) and (?P<second>password).* add both .*, as in username=(?P<value>"…")',
        apply=lambda _, said: edit(
            "FILE", "required;", f"required {said['first']}={said['value']} {said['second']}={said['value']};"
        ),
    ),
    Remedy(
        line=PROPERTIES,
        of="streaming.config.properties: use one of …",
        files={
            "FILE": SERVERS
            + f'security.protocol=SASL_SSL\nsasl.mechanism=X\n{JAAS} username="a" password="b";\n'
        },
        says=r"use one of (?P<new>\w+),",
        apply=write("X"),
    ),
    Remedy(
        line=PROPERTIES,
        of="streaming.config.properties: remove it; the",
        files={
            "FILE": SERVERS
            + "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=CA\nssl.truststore.password=x\n",
            "CA": "",
        },
        says=r"(?P<out>ssl.truststore.password) cannot be given .* remove it",
        apply=lambda _, said: edit("FILE", f"{said['out']}=x\n", ""),
    ),
    Remedy(
        line=PROPERTIES,
        of="streaming.config.properties: export it (keytool",
        files={
            "FILE": SERVERS
            + "security.protocol=SSL\nssl.truststore.location=CA\nssl.truststore.password=x\n",
            "CA": "",
        },
        says=r"set (?P<type>ssl.truststore.type=PEM) and (?P<place>ssl.truststore.location=\S+), and remove",
        apply=exported,
    ),
    Remedy(
        line=PROPERTIES,
        of="streaming.config.properties: export …, or write",
        files={"FILE": SERVERS + "client.id=${env:REMEDY_ID}\n"},
        says=r"export (?P<name>\w+),",
        apply=set_variable,
    ),
    Remedy(
        line=PROPERTIES,
        of="streaming.config.properties: export …, or write",
        files={"FILE": SERVERS + "client.id=${env:REMEDY_ID}\n"},
        says="or write the value in another way",
        apply=swap("${env:REMEDY_ID}", "a"),
    ),
    Remedy(
        line=PROPERTIES,
        of="streaming.config.properties: add the key",
        files={"FILE": SERVERS + "client.id=${file:OTHER:id}\n", "OTHER": "x=1\n"},
        says=r"refers to the key (?P<key>\w+), .*add the key",
        apply=lambda _, said: Path("OTHER").write_text(f"{said['key']}=1\n"),
    ),
    # Keys of redaction.
    Remedy(line=REDACT, of="streaming.config.settings: create a key: (umask", says=KEY, apply=made),
    Remedy(
        line=f"{REDACT} --redact-key-file FILE",
        of="streaming.config.settings: create another: (umask",
        files={"FILE": "short"},
        says=KEY,
        apply=made,
    ),
    Remedy(
        line=f"{REDACT} --redact-key-file $(FILE)",
        of="streaming.config.settings: create another: (umask",
        files={"$(FILE)": "short"},
        says=r"(?P<shell>\(umask 077; openssl rand -hex 32 > '\$\(FILE\)'\))",
        apply=made,
    ),
    Remedy(
        line="replay --from-file CAPTURE --redact names --redact-key-file FILE",
        of="streaming.config.settings: give one or more",
        files={"FILE": "k" * 32},
        says=r"give one or more of: (?P<new>[\w-]+),",
        apply=lambda attempt, said: attempt.put("names", said["new"]),
    ),
)


@pytest.mark.parametrize(
    "remedy", CASES, ids=[f"{at} {one.line}: {one.says}" for at, one in enumerate(CASES)]
)
def test_the_remedy_of_a_message_helps(
    remedy: Remedy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is refused; with what the message says it is not, or for another reason."""
    monkeypatch.chdir(tmp_path)
    write_capture(Path("CAPTURE"), log([commit("g")]))
    without_cluster(monkeypatch)
    prove(remedy)
