"""Starts Spark's JVM in a process group of its own, so that Ctrl-C in a terminal reaches the driver alone.

The error output of the JVM goes through a pipe, so that it can be dropped while the JVM is being ended. A warning of
Java about Spark's own flags always is.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

#: Java 17 and later say so of the module that Spark's start script adds.
_NOISE: Final = b"WARNING: Using incubator modules"


def launch_jvm(conf: Mapping[str, Any], show: Callable[[bytes], None]) -> None:
    """Starts the JVM that the next session uses; ``show`` gets the lines of its error output.

    Raises:
        PySparkException: it has ended before it could be reached.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    reader, writer = os.pipe()
    threading.Thread(target=_relay, args=(reader, show), name="groupreplay-jvm-log", daemon=True).start()
    options: dict[str, Any] = {"stderr": writer}
    if sys.version_info >= (3, 11):
        options["process_group"] = 0
    try:
        gateway = launch_gateway(SparkConf().setAll([*conf.items()]), popen_kwargs=options)
    finally:
        os.close(writer)
    SparkContext._ensure_initialized(gateway=gateway)


def _relay(reader: int, show: Callable[[bytes], None]) -> None:
    with open(reader, "rb", buffering=0) as output:
        rest = b""
        while data := output.read(65536):
            *lines, rest = (rest + data).split(b"\n")
            show(b"".join(line + b"\n" for line in lines if not line.startswith(_NOISE)))
        show(rest)
