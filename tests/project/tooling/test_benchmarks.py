"""Every benchmark runs, in the smallest form that its docstring names: nobody starts most of them for months."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.paths import ROOT
from support.pictures.report_pages import NO_BROWSER, browser_program

FOLDER = ROOT / "benchmarks"
#: A line of the docstring, below those of the usage: the flags of a form that takes seconds.
SMALL = re.compile(r"^    small: (.*)$", re.MULTILINE)
#: Those that start a broker, Spark or a browser, or wait for real time -> what each takes; `make test-long` runs them.
LONG = {
    "bench.py": "every form starts the job several times: more than a minute of CPU time",
    "browser/board.py": "a broker, a server and a browser",
    "browser/paint.py": "a broker, a server and a browser",
    "browser/report.py": "a browser",
    "ends.py": "a broker and its clients",
    "folders.py": "a broker that writes a folder and loads it again",
    "growth.py": "it starts a broker for each topic and reads them with Spark: 18 s of CPU time",
    "live.py": "it starts the job for each figure",
    "operators.py": "a session of Spark for each operator",
    "scale.py": "it starts the job three times with 20 000 groups",
    "served/load.py": "a broker, a server and its streams",
    "soak.py": "it starts the job three times and lets groups live beside it",
    "step.py": "a session of Spark",
    "watch.py": "a broker that is read twice",
    "members/departures.py": "sessions of a broker with Kafka's defaults last for minutes",
    "members/incidents.py": "real sessions and rebalances last for minutes",
    "members/reasons.py": "a broker and real rebalances",
    "members/stops.py": "a broker and stops of real length",
    "members/whatif_live.py": "real restarts last for a minute and more",
    "memory/job.py": "a broker and a job with all its processes take half a minute for one figure",
    "spark_cluster.py": "three Spark applications and a cluster of three JVMs take a minute of CPU time",
}


def scripts(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """(path, small forms) of every program below the folder."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if '__name__ == "__main__"' in text:
            docstring = ast.get_docstring(ast.parse(text), clean=False) or ""
            yield path.relative_to(folder).as_posix(), SMALL.findall(docstring)


FORMS = [(name, form) for name, forms in scripts(FOLDER) for form in forms]


def run(name: str, form: str) -> str:
    """What the benchmark prints."""
    if name.startswith("browser/") and browser_program() is None:
        pytest.skip(NO_BROWSER)
    command = [sys.executable, FOLDER / name, *shlex.split(form)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_benchmark_has_a_small_form(tmp_path: Path) -> None:
    """A script without one is found; modules that are only imported need none."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "new.py").write_text('"""A benchmark."""\nif __name__ == "__main__":\n    main()\n')
    (tmp_path / "module.py").write_text('"""A module."""\n')
    assert list(scripts(tmp_path)) == [("deep/new.py", [])]
    without = [name for name, forms in scripts(FOLDER) if not forms]
    assert without == [], "add a line `    small: --flags of a form that takes seconds` to the docstring"
    assert LONG.keys() <= {name for name, _ in FORMS}


@pytest.mark.parametrize(("name", "form"), [(name, form) for name, form in FORMS if name not in LONG])
def test_a_benchmark_runs(name: str, form: str) -> None:
    """It ends without a failure and prints figures."""
    assert re.search(r"\d", run(name, form))


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize(("name", "form"), [(name, form) for name, form in FORMS if name in LONG])
def test_a_long_benchmark_runs(name: str, form: str) -> None:
    """The same of those that need a broker, Spark, a browser or minutes."""
    assert re.search(r"\d", run(name, form))
