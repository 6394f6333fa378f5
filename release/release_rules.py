"""What must be so before a release is built, and what is not so."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path
from typing import Any

from contract import STORED, broken_promises, contract

_HEADING = re.compile(r"^## \[(.*?)\](.*)$", re.MULTILINE)
_DATE = re.compile(r" - \d{4}-\d\d-\d\d")


def version(project: Path) -> str:
    """The version that the package names."""
    tree = ast.parse((project / "src" / "groupreplay" / "version.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(one) for one in node.targets] == ["__version__"]:
            return str(ast.literal_eval(node.value))
    raise ValueError("src/groupreplay/version.py names no version")


def problems(project: Path) -> list[str]:
    """One sentence for each reason not to release the checkout as it is."""
    found = [*_uncommitted(project), *change_log_problems(_read(project, "CHANGELOG.md"), version(project))]
    file = project / "release" / STORED.name
    stored = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    return found + contract_problems(stored, contract(), version(project))


def change_log_problems(text: str, number: str) -> list[str]:
    """The first heading of the change log must be that of the version, with a date, and changes below it."""
    headings = [(match[1], match[2], match.end()) for match in _HEADING.finditer(text)]
    if not headings or headings[0][0] != number:
        first = f"[{headings[0][0]}]" if headings else "missing"
        return [f"CHANGELOG.md: the first heading is {first}, not [{number}] - DATE"]
    _, rest, end = headings[0]
    body = text[end : headings[1][2] if len(headings) > 1 else len(text)]
    return [
        *([] if _DATE.fullmatch(rest) else [f"CHANGELOG.md: the heading [{number}] has no date, YYYY-MM-DD"]),
        *(
            []
            if re.search(r"^- ", body, re.MULTILINE)
            else [f"CHANGELOG.md: there is no change below [{number}]"]
        ),
    ]


def contract_problems(stored: dict[str, Any] | None, present: dict[str, Any], number: str) -> list[str]:
    """The stored contract must be that of this version, and nothing else than what the code promises now."""
    fix = "run `python release/contract.py store`, and read the difference"
    if stored is None:
        return [f"release/{STORED.name} is missing: {fix}"]
    if stored["version"] != number:
        return [f"release/{STORED.name} is that of {stored['version']}: {fix}"]
    broken = [f"release/{STORED.name}: {line}" for line in broken_promises(stored, present)]
    return broken or ([] if stored == present else [f"release/{STORED.name} lacks what is new: {fix}"])


def _read(project: Path, name: str) -> str:
    return (project / name).read_text(encoding="utf-8")


def _uncommitted(project: Path) -> list[str]:
    words = ["git", "status", "--porcelain"]
    lines = subprocess.run(words, cwd=project, check=True, capture_output=True, text=True).stdout.splitlines()
    return [f"not committed: {', '.join(line[3:] for line in lines)}"] if lines else []
