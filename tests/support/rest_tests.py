"""What ``make test`` leaves to ``make test-rest``."""

from __future__ import annotations

from typing import Final

from support.paths import ROOT

#: Files, tests, and cases of tests, as pytest names them.
REST: Final = frozenset(
    line for line in (ROOT / "tests/rest.txt").read_text("utf-8").splitlines() if not line.startswith("#")
)
