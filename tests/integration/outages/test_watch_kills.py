"""``watch`` beside ``run`` on one broker, among groups that come and go: both and the broker are killed many times.

Both report the same events with the same ids, and they are those of a replay.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from groupreplay.streaming.base.clock import now_ms
from support.job.jobs import RunningJob, last_batch, running_job, topic_names
from support.job.watch_process import WatchProcess
from support.kafka.blank_brokers import blank_broker
from support.kafka.clients import make_topics
from support.ordeals.churn import ORDERS, PARTITIONS, churning
from support.ordeals.ordeal import Ordeal
from support.ordeals.watched import FLAGS, compare_with_capture, compare_with_job, watching

pytestmark = [pytest.mark.broker, pytest.mark.long]

#: GROUPREPLAY_BESIDE_SECONDS makes it longer or shorter.
BESIDE_SECONDS = float(os.environ.get("GROUPREPLAY_BESIDE_SECONDS", "3600"))
_LONGEST_PAUSE_SECONDS = 15.0
#: A worker of Spark, the broker: ``Ordeal`` kills them.
_KINDS = ("watch", "watch", "job", "worker", "broker")


class _Kills:
    """Kills of both and of the broker, each at a random moment, and each is alive again before the next."""

    def __init__(self, job: RunningJob, watch: WatchProcess, ordeal: Ordeal, seed: int) -> None:
        self._job, self._watch, self._ordeal, self._random = job, watch, ordeal, random.Random(seed)

    def go_on(self, seconds: float) -> None:
        """As long as this."""
        start = time.monotonic()
        while (passed := time.monotonic() - start) < seconds:
            kind = self._random.choice(_KINDS)
            print(f"{passed:.0f} s: {kind}", flush=True)  # noqa: T201
            self._kill(kind)
            # The moment is what is random here; nothing waits for it.
            time.sleep(self._random.uniform(0, _LONGEST_PAUSE_SECONDS))

    def _kill(self, kind: str) -> None:
        if kind == "watch":
            self._watch.kill()
            time.sleep(self._random.uniform(0, 3))
            self._watch.start()
        elif kind == "job":
            self._job.kill()
            self._job.restart()
            self._ordeal.undergo([])
        else:
            self._ordeal.undergo([kind])


@pytest.mark.spark
@pytest.mark.timeout(BESIDE_SECONDS + 1_800)
def test_beside_the_job_with_kills(tmp_path: Path) -> None:
    """No event is lost, none is wrong, and both have the same ids, however often either is killed."""
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")  # noqa: T201
    with blank_broker(PARTITIONS) as broker:
        servers = broker.bootstrap_servers
        make_topics(servers, {ORDERS: 4})
        since_ms = now_ms()
        with (
            running_job(servers, tmp_path / "checkpoint", topic_names("beside"), *FLAGS) as job,
            watching(servers, tmp_path) as watch,
        ):
            job.wait_until(lambda: last_batch(job.checkpoint) >= 0)
            with churning(servers, seed):
                _Kills(job, watch, Ordeal(job, [broker], seed), seed).go_on(BESIDE_SECONDS)
            job.wait_caught_up()
            compare_with_job(watch, job)
            compare_with_capture(watch, since_ms)
