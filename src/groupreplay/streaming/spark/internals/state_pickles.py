"""Reads the pickle in which Spark hands a stored state to a Python worker, and nothing else.

The checkpoint has no pickles: the state store keeps rows of Spark's own form with our bytes in one column, and the
JVM writes a pickle of such a row for each call of a worker. It names four functions; a pickle that names another
one, which is how a pickle runs code, is refused. So is one with any other value than a row with bytes.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any, Final

from groupreplay.state.stored_form import SnapshotError


def read_state(pickled: bytes) -> tuple[bytes | None]:
    """The row of ``operator.STATE_SCHEMA``.

    Raises:
        SnapshotError: the pickle has something else.
    """
    try:
        row = _StateUnpickler(io.BytesIO(pickled)).load()
    except SnapshotError:
        raise
    except Exception as error:  # whatever the bytes make pickle do
        raise SnapshotError(
            f"the state that Spark has read is damaged: {type(error).__name__}: {error}"
        ) from None
    if type(row) is not tuple or len(row) != 1 or not isinstance(row[0], bytes | bytearray | None):
        raise SnapshotError("the state that Spark has read is damaged: it is no row with bytes")
    return row


def _row_type(_: str) -> None:
    """PySpark reads the JSON of a type here, which may name a class to import."""


def _row_of(_: None) -> Callable[..., tuple[Any, ...]]:
    return _row


def _row(*values: Any) -> tuple[Any, ...]:
    return values


#: What the JVM's pickles of a row with bytes name, on every line of Spark; ``bytes`` since 4.1.
_NAMES: Final[Mapping[tuple[str, str], Callable[..., Any]]] = {
    ("pyspark.sql.types", "_create_row_inbound_converter"): _row_of,
    ("pyspark.sql.types", "_parse_datatype_json_string"): _row_type,
    ("builtins", "bytes"): bytes,
    # The name of Python 2: the JVM writes protocol 2, in which the module `builtins` had this name.
    ("__builtin__", "bytearray"): bytearray,
    ("builtins", "bytearray"): bytearray,
}


class _StateUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = _NAMES.get((module, name))
        if found is None:
            raise SnapshotError(f"the state that Spark has read is damaged: it names {module}.{name}")
        return found
