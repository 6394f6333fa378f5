"""The model beside Kafka's own classes, in the order of the tables of the Java that runs these."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from groupreplay.coordinator.consumer import membership, subscriptions
from groupreplay.coordinator.java_maps import buckets_for
from groupreplay.streaming.local.platforms import find_java


@pytest.fixture(autouse=True, scope="session")
def tables_of_this_java() -> Iterator[None]:
    """The model itself has the order of Java 17; copies of maps are smaller since Java 19."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (membership, subscriptions):
            patch.setattr(module, "buckets_for", partial(buckets_for, java_release=find_java().version))
        yield
