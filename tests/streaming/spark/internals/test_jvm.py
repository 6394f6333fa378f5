"""The error output of Spark's JVM; that Ctrl-C does not reach it is seen in integration/run/test_run_ends.py."""

from __future__ import annotations

import os
import threading

from groupreplay.streaming.spark.internals.jvm import _relay


def test_lines_are_passed_on_whole() -> None:
    """Without Java's warning about Spark's own flags; the rest of a line when the JVM has ended."""
    reader, writer = os.pipe()
    seen: list[bytes] = []
    relay = threading.Thread(target=_relay, args=(reader, seen.append))
    relay.start()
    os.write(writer, b"WARNING: Using incubator modules: jdk.incubator.vector\nfirst\nsec")
    os.write(writer, b"ond\nthird")
    os.close(writer)
    relay.join()
    assert b"".join(seen) == b"first\nsecond\nthird"
    assert all(lines.endswith(b"\n") for lines in seen[:-1] if lines)
