"""The clock."""

from __future__ import annotations

import re
import time

from groupreplay.streaming.base.clock import now_ms
from support.paths import PACKAGE

#: Who reads the clock of the machine, which somebody may set, and for which times.
READERS = {
    "streaming/base/broker_clock.py": "the only reader in the job and in the prober, and it corrects the clock",
    "app/check/cluster_checks.py": "compares it with the brokers'",
    "app/cli/commands/serve.py": "compares it with append times; scrapes and a board have no other time",
    "app/cli/table_flags.py": "times of this year are written without it",
    "app/cli/time_range.py": "ages in flags of a live topic",
    "app/inspection/capture.py": "the time up to which a topic was read",
    "streaming/job/once/single_run.py": "Spark dates its batches and timers by it",
    "streaming/kafka/topic_reader.py": "the time up to which a topic was read",
    "streaming/prober/service.py": "one round that is printed and not written",
    "streaming/spark/log_task.py": "the time by which records were read, to a day; it has the driver's correction",
    "app/text/screen.py": "the time that a person sees",
}


def test_milliseconds_since_1970() -> None:
    """As a whole number, between two looks at the machine's own clock."""
    before = time.time()
    seen = now_ms()
    assert type(seen) is int
    assert int(before * 1_000) <= seen <= time.time() * 1_000


def test_nothing_else_reads_a_clock_that_can_be_set() -> None:
    """Schedules and deadlines take ``time.monotonic``, and times that are written come from ``BrokerClock``."""
    reads = re.compile(r"import now_ms|base import clock|\btime\.time|datetime\.(now|today|utcnow)")
    found = [path for path in sorted(PACKAGE.rglob("*.py")) if reads.search(path.read_text())]
    assert [str(path.relative_to(PACKAGE)) for path in found if path.name != "clock.py"] == sorted(READERS)
