"""The job, its workers, the prober and the brokers of three killed at random moments."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from support.ordeals.ordeal import Ordeal
from support.ordeals.siege import besieged_cluster

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

#: GROUPREPLAY_KILLS makes it fewer.
MANY_KILLS = int(os.environ.get("GROUPREPLAY_KILLS", "51"))


@pytest.mark.timeout(4_800)
def test_many_kills_on_three_brokers(tmp_path: Path) -> None:
    """No event is lost, none is wrong. A broker starts again at once, and may be behind when the next one is lost."""
    seed = random.randrange(1_000_000)
    kinds = ["driver", "worker", "worker", "prober", "broker", "broker"]
    with besieged_cluster(tmp_path, seed, same_process=False) as siege:
        brokers = [*siege.cluster.nodes.values()]
        Ordeal(siege.job, brokers, seed).undergo(random.Random(seed).choices(kinds, k=MANY_KILLS))
        siege.heal()
