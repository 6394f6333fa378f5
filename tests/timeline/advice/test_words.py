"""Effects in words: what is inferred stands first, and beside it what the records prove."""

from __future__ import annotations

import pytest

from groupreplay.timeline.advice.finding import DeploymentSum, Effect, Measure
from groupreplay.timeline.advice.words import deployment_text, effect_text, stop_text


@pytest.mark.parametrize(
    ("measure", "bounds", "likely", "text"),
    [
        ("rebalances", (30, 30), (None, None), "30 rebalances"),
        ("rebalances", (5, 9), (6, 8), "about 6 to 8 rebalances (by the records 5 to 9)"),
        ("rebalances", (0, 1), (1, 1), "about 1 rebalance (by the records 0 to 1)"),
        ("members", (1, 1), (None, None), "1 member"),
        ("partition_stops", (24, 60), (48, 48), "about 48 stops of partitions (by the records 24 to 60)"),
        ("stopped_ms", (12_000, None), (None, None), "12.0 s or more of standstill"),
        (
            "stopped_ms",
            (12_000, 180_000),
            (40_000, 55_000),
            "about 40.0 s to 55.0 s of standstill (by the records 12.0 s to 3 min 0 s)",
        ),
        (
            "partition_stopped_ms",
            (-9_000, 180_000),
            (-1_000, 55_000),
            "at most about 55.0 s, or up to 1.0 s more of standstill, added up over partitions "
            "(by the records at most 3 min 0 s, or up to 9.0 s more)",
        ),
        (
            "stopped_ms",
            (-313_000, 25_000),
            (-300_000, -290_000),
            "but about 4 min 50 s to 5 min 0 s more of standstill "
            "(by the records at most 25.0 s, or up to 5 min 13 s more)",
        ),
    ],
)
def test_an_effect_in_words(
    measure: Measure, bounds: tuple[int, int | None], likely: tuple[int | None, int | None], text: str
) -> None:
    """A number that may be negative is a loss, which is told with its size."""
    effect = Effect(
        measure=measure,
        least=bounds[0],
        most=bounds[1],
        likely_least=likely[0],
        likely_most=likely[1],
        how="counted",
    )
    assert effect_text(effect) == text


def test_a_stop_in_words() -> None:
    """The same form as that of effects."""
    assert stop_text((1_000, 9_000), None) == "1.0 s to 9.0 s"
    assert stop_text((1_000, 9_000), (3_000, 4_000)) == "about 3.0 s to 4.0 s (by the records 1.0 s to 9.0 s)"


def test_a_deployment_in_which_no_group_stood_still() -> None:
    """Partitions may have, in a KIP-848 group too: "0 ms of standstill" would say that they did not."""
    summed = DeploymentSum(
        **{"label": None, "value": None, "deployments": 1, "groups": 1, "rebalances": 100, "records": None},
        **{"stopped_ms": (0, 0), "before": None, "stopped_before_ms": None},
    )
    for at_least in (False, True):
        assert deployment_text(summed, at_least=at_least) == (
            "1 deployment of 1 group made 100 rebalances and no group stood still as a whole"
        )
