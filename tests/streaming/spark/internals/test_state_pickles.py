"""The pickles in which Spark hands a state to a worker: those of every line are read, and nothing else is."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from groupreplay.state.stored_form import SnapshotError
from groupreplay.streaming.local.platforms import LINES
from groupreplay.streaming.spark.internals.state_pickles import read_state
from support.paths import ROOT

#: Of the same state, written by the JVM of each line.
JVM_PICKLES = {
    release: bytes.fromhex(text)
    for release, text in msgspec.json.decode(
        (ROOT / "tests" / "golden" / "jvm_state_pickles.json").read_bytes(), type=dict[str, str]
    ).items()
}


class Runs:
    """What a pickle of somebody else does when it is loaded."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._reduced = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reduced


def test_the_pickles_of_every_line() -> None:
    """The bytes are there, with whatever names the line's JVM writes."""
    assert {release.rpartition(".")[0] for release in JVM_PICKLES} == {line.name for line in LINES}
    assert {bytes(read_state(one)[0] or b"") for one in JVM_PICKLES.values()} == {b"\xff\x00blob" * 3}


def test_the_pickles_of_a_worker() -> None:
    """Python's own of the same row."""
    assert read_state(pickle.dumps((b"blob",))) == (b"blob",)
    assert read_state(pickle.dumps((None,), 2)) == (None,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_runs_code(protocol: int, tmp_path: Path) -> None:
    """It is refused before anything runs, also inside of a row, and the error says what it named."""
    made = tmp_path / "made"
    for evil in (
        Runs(os.mkdir, str(made)),
        (Runs(os.mkdir, str(made)),),
        ([{1: Runs(os.mkdir, str(made))}],),
    ):
        with pytest.raises(
            SnapshotError, match=r"^the state that Spark has read is damaged: it names \w+\.mkdir$"
        ):
            read_state(pickle.dumps(evil, protocol))
    assert not made.exists()
    pickle.loads(pickle.dumps((Runs(os.mkdir, str(made)),), protocol))
    assert made.exists()


@pytest.mark.parametrize(
    "name",
    [
        "builtins eval",
        "builtins getattr",
        "__builtin__ eval",
        "builtins bytes.fromhex",
        "pyspark.sql.types Row",
        "pyspark.sql.types _parse_datatype_json_string.__globals__",
        "os system",
    ],
)
def test_other_names(name: str) -> None:
    """Also those beside the names that are admitted, and attributes of these."""
    module, attribute = name.split()
    # Both forms: GLOBAL of protocol 0, and STACK_GLOBAL of protocol 4.
    stack_global = b"\x80\x04" + b"".join(
        b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, attribute)
    )
    for code in (f"c{module}\n{attribute}\n.".encode(), stack_global + b"\x93."):
        with pytest.raises(SnapshotError, match=r" is damaged: it names "):
            read_state(code)


@pytest.mark.parametrize(
    "row", ["blob", b"blob", (), (b"a", b"b"), ("text",), (1,), [b"blob"], {"blob": b"x"}, ((b"x",),), None]
)
def test_other_values(row: object) -> None:
    """A state is one column of bytes."""
    with pytest.raises(SnapshotError, match="it is no row with bytes"):
        read_state(pickle.dumps(row))


@pytest.mark.parametrize(
    "damaged", [b"", b"\x80", b"nothing", b"\x80\x04\x95", b"(", b"\x80\x02cbuiltins\nbytes\nX."]
)
def test_damaged_bytes(damaged: bytes) -> None:
    """Whatever pickle says of them, it is the error of a damaged state."""
    with pytest.raises(SnapshotError, match=r"^the state that Spark has read is damaged: "):
        read_state(damaged)
