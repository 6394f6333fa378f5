"""One cluster for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.spark_cluster.standalone import StandaloneCluster, standalone_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master and two workers; a test that kills a worker starts it again."""
    with standalone_cluster(tmp_path_factory.mktemp("spark-cluster")) as running:
        yield running
