"""One broker with logins for all tests of this folder: each says what its user may do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from groupreplay.app.check import cluster_checks
from support.kafka.clients import commit_once, make_topics
from support.kafka.secured import SecuredBroker, secured_broker


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with logins, rights and an offsets topic, and none of the job's topics."""
    with secured_broker(tmp_path_factory.mktemp("guarded")) as broker:
        make_topics(broker.broker.bootstrap_servers, {"orders": 1})
        commit_once(broker.broker.bootstrap_servers, "backfill")
        yield broker


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody writes while the clock is looked at."""
    monkeypatch.setattr(cluster_checks, "_CLOCK_SECONDS", 0.1)
