"""The error output of Spark's JVM; that Ctrl-C does not reach it is seen in integration/run/test_run_ends.py."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import os, threading
from groupreplay.streaming.spark.internals.gateway import _relay
reader, writer = os.pipe()
quiet = []
relay = threading.Thread(target=_relay, args=(reader, lambda: bool(quiet)))
relay.start()
os.write(writer, b"WARNING: Using incubator modules: jdk.incubator.vector\\nfirst\\nsec")
os.write(writer, b"ond\\n")
input()
quiet.append(True)
os.write(writer, b"because of the end\\n")
os.close(writer)
relay.join()
"""


def test_lines_are_passed_on_until_the_end_begins() -> None:
    """Whole lines, without Java's warning about Spark's own flags; nothing after a signal."""
    read, write = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stderr=write)
    os.close(write)
    with os.fdopen(read, "rb", buffering=0) as errors:
        seen = b""
        while not seen.endswith(b"second\n"):
            data = errors.read(1024)
            assert data, seen
            seen += data
        process.communicate(b"\n")
        assert seen + errors.read(1024) == b"first\nsecond\n"
