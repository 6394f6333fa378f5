"""Which releases' private parts may be used, and that nothing else touches them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from groupreplay.streaming.spark.internals import checkpoint_manager, has_known_internals
from support.paths import PACKAGE

#: Names of PySpark and py4j that begin with an underscore, used on another object than ``self`` and ``cls``.
PRIVATE = re.compile(
    r"\b(?!self\b|cls\b)\w+\)?\._(?:j[a-z]+|java\w*|gateway|active\w+|ssql\w*|instantiated\w+|stackTrace|cause)\b"
)
#: Modules of PySpark that its documentation does not name.
PRIVATE_MODULES = re.compile(
    r"pyspark\.(worker|daemon|serializers|cloudpickle|java_gateway|sql\.pandas\.serializers|sql\.connect\.\w+)\b"
)


@pytest.mark.parametrize(
    ("release", "known"),
    [("3.5.7", True), ("4.0.0", True), ("4.1.2", True), ("4.2.0", True), ("4.3.0", False), ("3.4.4", False)],
)
def test_only_lines_that_were_read_count_as_known(release: str, known: bool) -> None:
    """The worker of 4.3 was rebuilt: what was written against 4.2 is not tried on it."""
    assert has_known_internals(release) is known


def test_the_manager_moved_in_4_1() -> None:
    """A class that does not exist would end every query where it begins."""
    assert {
        one: checkpoint_manager(one).rpartition(".")[0] for one in ("3.5.7", "4.0.0", "4.1.2", "4.2.0")
    } == {
        "3.5.7": "org.apache.spark.sql.execution.streaming",
        "4.0.0": "org.apache.spark.sql.execution.streaming",
        "4.1.2": "org.apache.spark.sql.execution.streaming.checkpointing",
        "4.2.0": "org.apache.spark.sql.execution.streaming.checkpointing",
    }


def test_the_question_imports_nothing_of_pyspark() -> None:
    """It is asked before the first private part is imported, which another release may not have."""
    program = (
        "import sys; import groupreplay.streaming.spark.internals;"
        "print([name for name in sys.modules if name.startswith('pyspark')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


#: The same names as texts, for ``getattr``.
PRIVATE_TEXTS = re.compile(r"[\"']_(?:j[a-z]+|stackTrace|cause|gateway)[\"']")


def private_uses(text: str) -> list[str]:
    """The private names of PySpark in a module."""
    return [
        found[0] for pattern in (PRIVATE, PRIVATE_TEXTS, PRIVATE_MODULES) for found in pattern.finditer(text)
    ]


def test_private_parts_are_used_in_one_package() -> None:
    """Elsewhere only Spark's public interface is used; the check itself finds what it looks for."""
    assert private_uses("spark.sparkContext._jvm.java") == ["sparkContext._jvm"]
    assert private_uses("getattr(error, '_cause', None)") == ["'_cause'"]
    assert private_uses("query._jsq.lastProgress()") == ["query._jsq"]
    assert private_uses("from pyspark.worker import main") == ["pyspark.worker"]
    assert private_uses("self._jvm.java; self._java") == []
    folder = PACKAGE / "streaming"
    found = {
        str(path.relative_to(folder)): uses
        for path in sorted(folder.rglob("*.py"))
        if path.parent.name != "internals" and (uses := private_uses(path.read_text("utf-8")))
    }
    assert found == {}
