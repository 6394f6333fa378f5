"""What the refusals of ``whatif`` say to do helps: it is read, and done."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.job.captures import invoke
from support.remedies import Remedy, prove

GROUP = "rolling-restart-3-dynamic-eager-000000"
LINE = f"whatif --from-file roll.parquet --draws 10 --group {GROUP}"


CASES = (
    Remedy(
        line=LINE,
        of="app.cli.commands.whatif: Nothing is asked",
        says="give (?P<add>--set) NAME=VALUE, such as --set (?P<value>[a-z.=]+[a-z])",
        apply=lambda attempt, said: attempt.add(said["add"], said["value"]),
    ),
    Remedy(
        line=f"{LINE} session.timeout.ms=10000",
        of="app.cli.command: …: a setting is given",
        says=r"given with (?P<flag>--set session\.timeout\.ms=10000)\.",
        apply=lambda attempt, said: setattr(attempt, "words", [*attempt.words[:-1], *said["flag"].split()]),
    ),
    Remedy(
        line=f"{LINE} --set session.timeout=10000",
        of="app.whatif.question: …known here:",
        says=r"did you mean (?P<name>session\.timeout\.ms)\?",
        apply=lambda attempt, said: attempt.put("session.timeout=10000", f"{said['name']}=10000"),
    ),
    Remedy(
        line=f"{LINE} --set session.timeout.ms=soon",
        of="app.whatif.question: docs/whatif.md lists",
        says="docs/whatif.md lists the settings",
        apply=lambda attempt, _: attempt.put("session.timeout.ms=soon", "session.timeout.ms=10000"),
    ),
    Remedy(
        line=f"{LINE} --set session.timeout.ms=6000 --set heartbeat.interval.ms=7000",
        of="app.whatif.question: change one of the",
        says="change one of the two",
        apply=lambda attempt, _: attempt.put("heartbeat.interval.ms=7000", "heartbeat.interval.ms=1000"),
    ),
    Remedy(
        line=f"{LINE} --set session.timeout.ms=10000 --since 10s",
        of="app.whatif.question: docs/whatif.md has what",
        says="docs/whatif.md has what a history needs",
        apply=lambda attempt, _: attempt.leave_out("--since", values=1),
    ),
    Remedy(
        line=f"{LINE} --set group.consumer.session.timeout.ms=50000",
        of="app.whatif.question: add …",
        says="add (?P<flag>--set) (?P<value>group.protocol=consumer), or leave it out",
        apply=lambda attempt, said: attempt.add(said["flag"], said["value"]),
    ),
    Remedy(
        line="report --from-file roll.parquet --all-groups --whatif group.instance.id=auto -o new.html",
        of="app.cli.commands.report: --whatif is about one group",
        says="give (?P<flag>--group) instead of (?P<other>--all-groups)",
        apply=lambda attempt, said: (attempt.leave_out(said["other"]), attempt.add(said["flag"], GROUP)),
    ),
)


@pytest.mark.parametrize("remedy", CASES, ids=lambda remedy: remedy.of)
def test_the_remedy_helps(remedy: Remedy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line is refused, and answered after what the message says to do."""
    monkeypatch.chdir(tmp_path)
    words = ("--groups", "1", "--seconds", "600", "--scenario", GROUP.removesuffix("-000000"))
    assert invoke("simulate", *words, "--probe-interval", "0", "-o", "roll.parquet").exit_code == 0
    prove(remedy)
